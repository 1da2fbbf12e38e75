"""What the core tells an observer: one step, and no room attached."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

# An optimizer's first step imports it: here, before the rank is forked.
import torch._dynamo  # noqa: F401
from numpy import ndarray

from lockstep.instruments.forked import on_ranks
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.loop import run
from lockstep.trainer.process import joined
from lockstep.trainer.telemetry import Observer, attach


# --8<-- [start:diary]
class Diary(Observer):
    """Writes down what it is told, in the order in which it is told."""

    phases = ("load", "h2d", "forward", "backward", "optimizer", "checkpoint")

    def __init__(self) -> None:
        self.told: list[str] = []

    def begin(self, phase: str) -> None:
        self.told.append(phase)

    def committed(self, step: int, position: int, ids: ndarray) -> None:
        self.told.append(f"[committed {len(ids)} ids]")

    def event(self, record: dict[str, Any]) -> None:
        self.told.append(f"[{record['event']}]")


def one_step(store: Any, run_dir: str) -> list[str]:
    """Of a run on one rank, two micro-batches of 32 to its one batch."""
    cfg = TrainConfig(
        Path(run_dir), "toy", max_steps=1, grad_accum_steps=2
    ).for_launch(1, {})
    attach(diary := Diary())
    with joined(30, store) as me:
        run(cfg, me)
    return diary.told


# --8<-- [end:diary]
def main() -> None:
    """What was told; a line for each event."""
    with TemporaryDirectory() as folder:
        (told,) = on_ranks(1, one_step, folder)
    print(" ".join(told).replace("] ", "]\n").replace(" [", "\n["))


if __name__ == "__main__":
    main()
