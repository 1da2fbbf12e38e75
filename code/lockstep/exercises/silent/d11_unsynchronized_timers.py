"""Defect 11: phases are timed without synchronizing a GPU, and `.item()` is
called at every step."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn


# --8<-- [start:copy]
class PhaseTimers:
    """Seconds spent in each phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        # --8<-- [start:fault]
        start = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - start
        # --8<-- [end:fault]


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
        # --8<-- [start:fault-item]
        return {"loss": loss.item(), "grad_norm": norm.item()}
        # --8<-- [end:fault-item]


# --8<-- [end:copy]
class Gpu:
    """A device that works through its queue behind the host's back: what CUDA
    does to a timer, on any machine and to the last digit."""

    def __init__(self) -> None:
        self.now = self.idle_from = 0.0  # the host's clock; the queue's end

    def work(self, seconds: float) -> None:
        self.now += 0.001  # a kernel's launch
        self.idle_from = max(self.now, self.idle_from) + seconds

    def synchronize(self) -> None:
        self.now = max(self.now, self.idle_from)


KERNELS = {"forward": 2.0, "backward": 4.0, "optimizer": 1.0}  # seconds


def run(
    phase: Callable[[str], AbstractContextManager],
    work: Callable[[float], None],
    read: Callable[[], Any],
) -> None:
    """A step of which only the last phase waits for the device."""
    for name, seconds in KERNELS.items():
        with phase(name):
            work(seconds)
            if name == "optimizer":
                read()


def demonstrate() -> None:
    """Shares of a step: of the kernels, and as the timers book them."""
    gpu, timers = Gpu(), PhaseTimers()
    with patch("time.perf_counter", lambda: gpu.now):
        run(timers.phase, gpu.work, gpu.synchronize)
    for what, seconds in ("kernels", KERNELS), ("timers", timers.seconds):
        total = sum(seconds.values())
        shares = (f"{k} {s / total:.0%}" for k, s in seconds.items())
        print(f"{what:>7}:", ", ".join(shares))
