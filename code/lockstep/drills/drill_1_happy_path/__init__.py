"""Drill 1: the happy path."""

from pathlib import Path

MINUTES = 15
CHANGE = "full batches"
START = Path(__file__).with_name("starter.py")
SOLUTION = Path(__file__).with_name("solution.py")
