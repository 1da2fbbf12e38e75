"""What the labs build: parallelism from its parts, small enough to read."""
