"""How far the losses of runs are apart: `… lockstep.probes.apart A B C`."""

import sys
from math import ceil, log10
from pathlib import Path

from lockstep.trainer.extensions.events import read_events


def losses(run_dir: Path) -> list[float]:
    """Of every logged step of a run's first launch."""
    log = read_events(run_dir / "events" / "attempt-0-rank-0.jsonl")
    return [event["loss"] for event in log if event["event"] == "step"]


# --8<-- [start:apart]
def apart(one: list[float], other: list[float]) -> float:
    """The greatest relative difference between two runs' losses."""
    return max(abs(a - b) / abs(b) for a, b in zip(one, other, strict=True))


# --8<-- [end:apart]
def bound(difference: float) -> str:
    """A power of ten with room, so that another machine agrees."""
    return f"< 1e{ceil(log10(3 * max(difference, 1e-7)))}"


def main(folders: list[str]) -> None:
    """Their losses, and how far each has been from the first until then."""
    runs = [losses(Path(folder)) for folder in folders]
    print(f"{'':16}" + "".join(f"{folder:>9}" for folder in folders))
    for n in (20, 400):
        now = [f"{run[n - 1]:9.3f}" for run in runs]
        found = [f"{bound(apart(run[:n], runs[0][:n])):>9}" for run in runs[1:]]
        print(f"loss at {n:<8}" + "".join(now))
        print(f"{'apart until then':25}" + "".join(found))


if __name__ == "__main__":
    main(sys.argv[1:])
