"""What keeps the pages true; nothing here imports torch."""
