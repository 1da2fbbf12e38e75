"""`python -m lockstep.grading NN FILE`: grade an answer to a lab, with torch
and the standard library alone, as a notebook has them."""

import sys
from pathlib import Path

from lockstep.labs import labs

from .criteria import CannotGradeError, grade


def main(number: str, file: str) -> int:
    """Exit code 0 for full marks, 1 for less, 2 for what cannot be graded."""
    lab = labs()[number]
    try:
        report = grade(lab.number, lab.grader, Path(file))
    except CannotGradeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(report)
    return 0 if report.score == report.full else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
