"""Host reads: a number for the log, of every layer, at every step."""

from pathlib import Path

import torch
from torch import Tensor
from torch.optim import optimizer as hooks

from lockstep.experiments.slow_jobs.measuring import (
    Committed,
    Operations,
    train,
)
from lockstep.trainer.model import DataParallel

RANKS = 1
STEPS = 8
READ = "_local_scalar_dense"  # what `.item()` and `float()` come to


# --8<-- [start:reads]
class Norms(DataParallel):
    """Logs the norm of each parameter's gradient."""

    def clip(self, norm: float) -> Tensor:
        for p in self.module.parameters():
            if p.grad is not None:
                self.log(p.grad.norm())
        return super().clip(norm)

    def log(self, value: Tensor) -> None:
        self.line = value.item()  # waits for the device


class Kept(Norms):
    """Keeps tensors, and reads all of them when it writes a line."""

    def __init__(self) -> None:
        self.kept: list[Tensor] = []

    def log(self, value: Tensor) -> None:
        self.kept.append(value)

    def lines(self) -> list[float]:
        values: list[float] = torch.stack(self.kept).tolist()
        self.kept.clear()
        return values


# --8<-- [end:reads]
ROWS: dict[str, type[DataParallel]] = {"slow": Norms, "mended": Kept}


def measured(folder: str) -> dict[str, int]:
    """Host reads from the end of one step to the optimizer of the next one,
    which reads counts of its own that are on the host."""
    found: dict[str, int] = {}
    for name, strategy in ROWS.items():
        ends, seen = [0], Operations()
        before = hooks.register_optimizer_step_pre_hook(
            lambda *_: found.update({name: seen.counts[READ] - ends[-1]})  # noqa: B023
        )
        with seen:
            train(
                Path(folder, name),
                Committed(lambda: ends.append(seen.counts[READ])),  # noqa: B023
                strategy=strategy(),
                max_steps=STEPS,
                log_every_steps=10**6,
            )
        before.remove()
    return found


def told(ranks: list[dict[str, int]]) -> list[str]:
    """The counts."""
    (found,) = ranks
    return [f"{name}: host reads a step: {n}" for name, n in found.items()]
