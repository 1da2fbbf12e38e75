"""What happened: phases and events, for whoever watches."""

import time
from typing import Any

from numpy import ndarray


class Observer:
    """What a room may watch and ask for; it overrides what it needs."""

    def begin(self, phase: str) -> None: ...
    def end(self, phase: str) -> None: ...
    def event(self, record: dict[str, Any]) -> None: ...
    def committed(self, step: int, position: int, ids: ndarray) -> None: ...
    def wants_stop(self, step: int) -> bool:
        return False


observers: list[Observer] = []


class phase:
    """`with phase("forward"):` tells every observer its begin and its end."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        for observer in observers:
            observer.begin(self.name)

    def __exit__(self, *failure: object) -> None:
        for observer in reversed(observers):
            observer.end(self.name)


def emit(event: str, **fields: Any) -> dict[str, Any]:
    """Tell every observer in turn; one may add fields for those after it."""
    record = {"event": event, "time": time.time(), **fields}
    for observer in observers:
        observer.event(record)
    return record
