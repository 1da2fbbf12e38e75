"""Lab 01: collectives from `send` and `recv` alone."""
