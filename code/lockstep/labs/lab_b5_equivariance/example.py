"""Lab B5: what a check finds in five layers.

python -m lockstep.labs.lab_b5_equivariance.example FILE
"""

import sys
from math import log10
from pathlib import Path
from typing import Any

from lockstep.grading.criteria import load

from . import grader


def main(file: Path) -> None:
    """Print it, and what float32 costs by distance from the origin."""
    answer: Any = load(file)
    for kind in (
        answer.EGNN,
        answer.ChiralEGNN,
        grader.Anchored,
        grader.HardlySighted,
        grader.Chained,
    ):
        found = answer.breaks(grader.made(kind), *grader.molecule())
        print(f"{kind.__name__:16}breaks {grader.said(found)}")
    layer = grader.made(grader.EGNN)
    for far in (0, 1000):
        cost = answer.tolerance(layer, *grader.molecule(far))
        # A power of ten: digits differ between machines.
        power = round(log10(cost))
        print(f"float32 costs about 1e{power}, {far} Å from the origin")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
