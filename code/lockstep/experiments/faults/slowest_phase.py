"""Which phase took most of a step, on each rank: who is slow, and in what.

python -m lockstep.experiments.faults.slowest_phase RUN STEP
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from lockstep.trainer.extensions.events import read_events

OVERLAPS = "sync", "sync_exposed"  # lie within `backward`


# --8<-- [start:leading]
def leading(run_dir: Path, step: int) -> Iterator[tuple[int, str, float]]:
    """(rank, phase, its seconds) for every rank that logged `step`."""
    for path in sorted(run_dir.glob("events/attempt-*-rank-*.jsonl")):
        for event in read_events(path):
            if event["event"] == "step" and event["step"] == step:
                took = event.get("phases", {})
                own = {k: v for k, v in took.items() if k not in OVERLAPS}
                if own:
                    longest = max(own, key=lambda phase: own[phase])
                    yield event["rank"], longest, own[longest]


# --8<-- [end:leading]
if __name__ == "__main__":
    for rank, phase, seconds in leading(Path(sys.argv[1]), int(sys.argv[2])):
        print(f"rank {rank}: {phase}, {seconds:.1f} s")
