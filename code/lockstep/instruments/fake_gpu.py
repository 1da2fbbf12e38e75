"""A GPU that exists only as a clock, so that timers can be tested exactly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch


class FakeGpu:
    """A device that works through its queue while the host goes on.

    Its clock moves only when somebody calls `work` or waits.
    """

    def __init__(self) -> None:
        self.now = self.idle_from = 0.0  # the host's clock; the queue's end
        self.waits = 0  # how often the host has waited for the device

    def clock(self) -> float:
        """Return the host's time in seconds."""
        return self.now

    def work(self, seconds: float) -> None:
        """Let the host compute for some time."""
        self.now += seconds

    def launch(self, seconds: float) -> None:
        """Queue a kernel that takes some time."""
        self.idle_from = max(self.now, self.idle_from) + seconds

    def synchronize(self, *_: Any) -> None:
        """Wait until the device has worked through its queue."""
        self.wait_until(self.idle_from)

    def wait_until(self, moment: float) -> None:
        """Wait for something that the device does at that moment."""
        self.waits += 1
        self.now = max(self.now, moment)

    def event(self, *_: Any, **__: Any) -> FakeEvent:
        """Return a new event, as torch.cuda.Event does."""
        return FakeEvent(self)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Put the device in the place of torch's."""
        with ExitStack() as stack:
            for place in "torch.cuda", "torch.accelerator":
                new = patch(f"{place}.synchronize", self.synchronize)
                stack.enter_context(new)
            for place in "torch.cuda", "torch":
                stack.enter_context(patch(f"{place}.Event", self.event))
            yield


class FakeEvent:
    """A mark in the device's queue."""

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu, self.at = gpu, 0.0

    def record(self, *_: Any) -> None:
        """Append the mark to the queue."""
        self.at = max(self.gpu.now, self.gpu.idle_from)

    def synchronize(self) -> None:
        """Wait until the device reaches the mark."""
        self.gpu.wait_until(self.at)

    def elapsed_time(self, end: FakeEvent) -> float:
        """Return the milliseconds from this mark to a later one."""
        return (end.at - self.at) * 1e3
