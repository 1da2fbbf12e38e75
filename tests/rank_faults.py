"""What tests do to a rank in the middle of its run."""

from collections.abc import Callable
from itertools import count
from typing import Any

from lockstep.trainer.extensions.record import SampleRecord
from lockstep.trainer.extensions.timers import PhaseTimers


def after_commit(at: int, act: Callable[[SampleRecord], None]) -> None:
    """From now on in this process, `act(record)` once step `at` is written."""
    commit = SampleRecord.committed

    def committed(self: SampleRecord, step: int, *rest: Any) -> None:
        commit(self, step, *rest)
        if step == at:
            act(self)

    SampleRecord.committed = committed  # type: ignore[method-assign]


def in_phase(name: str, at: int, act: Callable[[], None]) -> None:
    """From now on in this process, `act()` when the phase `name` has begun for
    the time `at`, counted from 1."""
    begin, times = PhaseTimers.begin, count(1)

    def begun(self: PhaseTimers, phase: str) -> None:
        begin(self, phase)
        if phase == name and next(times) == at:
            act()

    PhaseTimers.begin = begun  # type: ignore[method-assign]
