"""What keeps the pages true: checks of the text, and runs of what it shows."""
