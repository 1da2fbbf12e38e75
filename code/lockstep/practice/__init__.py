"""What practice is made of: data that pages show and a browser asks."""
