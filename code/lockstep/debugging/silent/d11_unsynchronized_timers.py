"""Defect 11: phases are timed without synchronizing a GPU, and `.item()` is
called at every step."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockstep.debugging.bugs.rig import KERNELS, queue_step
from lockstep.instruments.fake_gpu import FakeGpu


# --8<-- [start:copy]
class PhaseTimers:
    """Seconds spent in each phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - start


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    x: Tensor,
    y: Tensor,
    timers: PhaseTimers,
) -> dict[str, float]:
    """One optimizer step; what it logs."""
    with timers.phase("forward"):
        loss = F.cross_entropy(model(x), y)
    with timers.phase("backward"):
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
    with timers.phase("optimizer"):
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return {"loss": loss.item(), "grad_norm": norm.item()}


# --8<-- [end:copy]
def demonstrate() -> None:
    """Shares of a step: of the kernels, and as the timers book them."""
    gpu, timers = FakeGpu(), PhaseTimers()
    with patch("time.perf_counter", gpu.clock):
        queue_step(gpu, timers.phase)
    for what, seconds in ("kernels", KERNELS), ("timers", timers.seconds):
        total = sum(seconds.values())
        shares = (f"{k} {s / total:.0%}" for k, s in seconds.items())
        print(f"{what:>7}:", ", ".join(shares))
