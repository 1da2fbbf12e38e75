"""Drill 5: whiteboard the production lift."""

from pathlib import Path

MINUTES = 20
CHANGE = "notice"
START = Path(__file__).with_name("starter.md")
SOLUTION = Path(__file__).with_name("solution.md")
