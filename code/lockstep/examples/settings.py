"""What the loops have in common: their settings, and a first step."""

# --8<-- [start:settings]
import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import tyro
from torch import Tensor, nn

from lockstep.exam.task import Samples
from lockstep.trainer.checkpoint import weights_sha256


@dataclass(frozen=True)
class Settings:
    """One launch of a run; each field is a flag of the command line."""

    run_dir: Path
    steps: int = 100
    stop_at: int = -1  # save after this step, and leave
    save_every: int = 10
    batch: int = 16  # samples a step, over all ranks
    micro_batch: int = -1  # in a forward pass; else a rank's whole share
    workers: int = 0
    fp16: bool = False
    seed: int = 0
    seconds: float = 60.0  # until ranks that wait are ended

    @property
    def ranks(self) -> int:
        """As torchrun says."""
        return int(os.environ.get("WORLD_SIZE", "1"))

    @property
    def timeout(self) -> timedelta:
        """Of a collective: longer, so that the watchdog comes first."""
        return timedelta(seconds=2 * self.seconds)

    def cut(self, share: dict[str, Tensor]) -> list[dict[str, Tensor]]:
        """A rank's share of a step, in micro-batches."""
        size = self.micro_batch if self.micro_batch > 0 else self.batch
        parts = {name: rows.split(size) for name, rows in share.items()}
        return [
            dict(zip(parts, part, strict=True))
            for part in zip(*parts.values(), strict=True)
        ]

    def rate(self, step: int) -> float:
        """What the learning rate of `step`, from 0, is multiplied with."""
        return min(1.0, (step + 1) / 5) * (1 - step / self.steps)

    @property
    def end(self) -> int:
        """The step that this launch ends with."""
        return self.stop_at if self.stop_at > 0 else self.steps

    def saves(self, step: int) -> bool:
        """Whether `step`, from 1, ends with a checkpoint."""
        return step % self.save_every == 0 or step == self.end


def about(s: Settings, data: Samples) -> dict[str, Any]:
    """What must be the same at every launch of a run."""
    data_sha256 = weights_sha256({"x": data.x})
    return {"seed": s.seed, "batch": s.batch, "data": data_sha256}


# --8<-- [end:settings]
# --8<-- [start:settle]
def settle(ddp: nn.Module, data: Samples) -> None:
    """Have DDP lay out its buckets as they will stay. It does so after its
    first backward pass, and where a gradient lies decides in which order the
    ranks' parts are added. One pass that is discarded makes all launches alike.
    """
    first = {name: value[None] for name, value in data[0].items()}
    ddp.eval()(**first)["loss"].backward()
    ddp.zero_grad()
    ddp.train()


# --8<-- [end:settle]
def read() -> Settings:
    """From the command line."""
    return tyro.cli(Settings)
