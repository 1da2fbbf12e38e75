"""Grade an answer with torch and NumPy alone, as a notebook has them.

    python -m lockstep.grading KIND NUMBER FILE

KIND is lab, drill or bug.
"""

import importlib
import sys
from pathlib import Path

from .criteria import CannotGradeError, Report

HOMES = {
    "lab": "lockstep.labs",
    "drill": "lockstep.drills",
    "bug": "lockstep.debugging.bugs",
}


def main(kind: str, number: str, file: str) -> int:
    """Exit code 0 for full marks, 1 for less, 2 for what cannot be graded."""
    home = importlib.import_module(HOMES[kind])
    exercise = getattr(home, f"{kind}s")()[number]
    try:
        report: Report = exercise.graded(Path(file))
    except CannotGradeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(report)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
