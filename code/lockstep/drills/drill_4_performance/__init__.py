"""Drill 4: instrument performance."""

from pathlib import Path

import lockstep
from lockstep.drills.drill_3_resume import SOLUTION as START

__all__ = ["CHANGE", "MINUTES", "SOLUTION", "START"]

MINUTES = 20
CHANGE = "precision"
SOLUTION = Path(lockstep.__path__[0]) / "interview.py"  # the cut itself
