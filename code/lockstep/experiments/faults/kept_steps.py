"""How many of a run's steps were kept: an upper bound on its goodput
where all steps take equally long.

python -m lockstep.experiments.faults.kept_steps RUN
"""

import sys
from pathlib import Path

from lockstep.trainer.extensions.audit import Report, audit


# --8<-- [start:kept_steps]
def kept_steps(report: Report) -> float:
    """Return the steps in the newest state's history over all steps done."""
    return report.steps / (report.steps + report.replayed_steps)


# --8<-- [end:kept_steps]
if __name__ == "__main__":
    found = audit(Path(sys.argv[1]))
    print(
        f"{found.steps} steps, {found.replayed_steps} replayed:"
        f" {kept_steps(found):.1%} of the steps were kept"
    )
