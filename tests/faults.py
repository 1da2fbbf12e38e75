"""What tests do to a rank in the middle of its run."""

from collections.abc import Callable
from typing import Any

from lockstep.trainer.extensions.record import SampleRecord


def after_commit(at: int, act: Callable[[SampleRecord], None]) -> None:
    """From now on in this process, `act(record)` once step `at` is written."""
    commit = SampleRecord.committed

    def committed(self: SampleRecord, step: int, *rest: Any) -> None:
        commit(self, step, *rest)
        if step == at:
            act(self)

    SampleRecord.committed = committed  # type: ignore[method-assign]
