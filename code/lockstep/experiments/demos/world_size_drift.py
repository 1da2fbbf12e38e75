"""How far the losses of one run are apart on 1, 2 and 4 ranks."""

from math import ceil, log10
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lockstep.experiments.demos.trainer_runs import trained
from lockstep.trainer.extensions.options import Options

# --8<-- [start:settings]
WORLDS = 1, 2, 4
SETTINGS: dict[str, Any] = {
    "global_batch_size": 64,  # kept by accumulation
    "micro_batch_size": 16,
    "dropout": 0.0,  # each rank has a random state of its own
    "max_steps": 400,
    "log_every_steps": 1,
}


# --8<-- [end:settings]
def losses(run_dir: Path, world: int) -> list[float]:
    """Of every step of that run."""
    events = trained(world, run_dir, Options(), **SETTINGS)
    return [event["loss"] for event in events if event["event"] == "step"]


# --8<-- [start:apart]
def apart(one: list[float], other: list[float]) -> float:
    """The greatest relative difference between two runs' losses."""
    return max(abs(a - b) / abs(b) for a, b in zip(one, other, strict=True))


# --8<-- [end:apart]
def bound(difference: float) -> str:
    """A power of ten with room, so that another machine agrees."""
    return f"< 1e{ceil(log10(3 * max(difference, 1e-7)))}"


def main() -> None:
    """The losses, and how far each has been from the first until then."""
    with TemporaryDirectory() as folder:
        runs = [losses(Path(folder, f"on-{n}"), n) for n in WORLDS]
    print(f"{'ranks':16}" + "".join(f"{world:>9}" for world in WORLDS))
    for n in (20, 400):
        now = [f"{run[n - 1]:9.3f}" for run in runs]
        found = [f"{bound(apart(run[:n], runs[0][:n])):>9}" for run in runs[1:]]
        print(f"loss at {n:<8}" + "".join(now))
        print(f"{'apart until then':25}" + "".join(found))


if __name__ == "__main__":
    main()
