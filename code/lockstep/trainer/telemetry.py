"""What happened: phases and events, for whoever watches."""

import time
from functools import cache
from typing import Any

from numpy import ndarray


# --8<-- [start:observer]
class Observer:
    """What a room may watch and ask for; it overrides what it needs."""

    phases: tuple[str, ...] = ()  # those whose begin and end it is told

    def begin(self, phase: str) -> None: ...
    def end(self, phase: str) -> None: ...
    def event(self, record: dict[str, Any]) -> None: ...
    def committed(self, step: int, position: int, ids: ndarray) -> None: ...
    def wants_stop(self, step: int) -> bool:
        return False


# --8<-- [end:observer]
observers: list[Observer] = []


class Phase:
    """Tells its begin and its end to the observers that watch it."""

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
    """From now on these watch."""
    observers[:] = rooms
    phase.cache_clear()


def emit(event: str, **fields: Any) -> dict[str, Any]:
    """Tell every observer in turn; one may add fields for those after it."""
    record = {"event": event, "time": time.time(), **fields}
    for observer in observers:
        observer.event(record)
    return record
