"""Phases and events of a run, for the observers that watch it."""

import time
from functools import cache
from typing import Any

from numpy import ndarray


# --8<-- [start:observer]
class Observer:
    """Base of all observers; an extension overrides the methods it needs."""

    phases: tuple[str, ...] = ()  # `begin` and `end` are called for these

    def begin(self, phase: str) -> None: ...
    def end(self, phase: str) -> None: ...
    def event(self, record: dict[str, Any]) -> None: ...
    def committed(self, step: int, position: int, ids: ndarray) -> None: ...
    def wants_stop(self, step: int) -> bool:
        return False


# --8<-- [end:observer]
observers: list[Observer] = []


class Phase:
    """A phase that reports its begin and end to the observers watching it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.watching = [o for o in observers if name in o.phases]

    def __enter__(self) -> None:
        for observer in self.watching:
            observer.begin(self.name)

    def __exit__(self, *failure: object) -> None:
        for observer in reversed(self.watching):
            observer.end(self.name)


phase = cache(Phase)  # `with phase("forward"):`, four times in a micro-batch


def attach(*rooms: Observer) -> None:
    """Replace all observers."""
    observers[:] = rooms
    phase.cache_clear()


def emit(event: str, **fields: Any) -> dict[str, Any]:
    """Send an event to each observer in turn; observers may add fields."""
    record = {"event": event, "time": time.time(), **fields}
    for observer in observers:
        observer.event(record)
    return record
