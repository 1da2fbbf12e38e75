"""How much of the work of a run was of use.

python -m lockstep.experiments.faults.goodput RUN
"""

import sys
from pathlib import Path

from lockstep.trainer.extensions.audit import Report, audit


# --8<-- [start:goodput]
def goodput(report: Report) -> float:
    """Steps that the newest state was trained on, over all steps done."""
    return report.steps / (report.steps + report.replayed_steps)


# --8<-- [end:goodput]
if __name__ == "__main__":
    found = audit(Path(sys.argv[1]))
    print(
        f"{found.steps} steps, {found.replayed_steps} replayed: goodput"
        f" {goodput(found):.1%}"
    )
