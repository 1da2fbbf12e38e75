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

    run_dir: Path  # Folder of the run
    steps: int = 100  # Steps of the run
    stop_at: int = -1  # Last step of this launch, which saves it
    save_every: int = 10  # Steps between checkpoints
    batch: int = 16  # Samples per step, over all ranks
    micro_batch: int = -1  # Samples in a forward pass; -1: a rank's share
    workers: int = 0  # Loader processes per rank
    fp16: bool = False  # Autocast to fp16, with a gradient scaler
    seed: int = 0  # Seed of the run
    seconds: float = 60.0  # Seconds until the watchdog ends ranks that wait

    @property
    def ranks(self) -> int:
        """Return torchrun's world size."""
        return int(os.environ.get("WORLD_SIZE", "1"))

    @property
    def timeout(self) -> timedelta:
        """Return a collective's timeout, longer than the watchdog's."""
        return timedelta(seconds=2 * self.seconds)

    def cut(self, share: dict[str, Tensor]) -> list[dict[str, Tensor]]:
        """Divide a rank's share of a step into micro-batches."""
        size = self.micro_batch if self.micro_batch > 0 else self.batch
        parts = {name: rows.split(size) for name, rows in share.items()}
        return [
            dict(zip(parts, part, strict=True))
            for part in zip(*parts.values(), strict=True)
        ]

    def rate(self, step: int) -> float:
        """Return the factor of the learning rate at `step`, counted from 0."""
        return min(1.0, (step + 1) / 5) * (1 - step / self.steps)

    @property
    def end(self) -> int:
        """The step that this launch ends with."""
        return self.stop_at if self.stop_at > 0 else self.steps

    def saves(self, step: int) -> bool:
        """Whether `step`, from 1, ends with a checkpoint."""
        return step % self.save_every == 0 or step == self.end


def about(s: Settings, data: Samples) -> dict[str, Any]:
    """Return what must be the same at every launch of a run."""
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
