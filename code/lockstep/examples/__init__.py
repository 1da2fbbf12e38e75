"""Whole examples: loops of others with the trainer's pieces in them, and models
and data of your own in the trainer."""
