"""Drill 3: resume after failure."""

from pathlib import Path

from lockstep.drills.drill_2_distributed import SOLUTION as START

__all__ = ["CHANGE", "MINUTES", "SOLUTION", "START"]

MINUTES = 20
CHANGE = "another world size"
SOLUTION = Path(__file__).with_name("solution.py")
