"""Drill 2: lift to distributed."""

from pathlib import Path

from lockstep.drills.drill_1_happy_path import SOLUTION as START

__all__ = ["CHANGE", "MINUTES", "SOLUTION", "START"]

MINUTES = 20
CHANGE = "accumulation"
SOLUTION = Path(__file__).with_name("solution.py")
