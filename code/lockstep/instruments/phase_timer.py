"""Timers that a training loop tells when its steps and phases begin and end."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext


# --8<-- [start:timer]
class PhaseTimer:
    """Seconds by phase, which add up to the steps' own."""

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        synchronize: Callable[[], None] = lambda: None,
        every: int = 1,
    ) -> None:
        self.clock, self.synchronize, self.every = clock, synchronize, every
        self.seconds: dict[str, float] = defaultdict(float)
        self.open: list[str] = []  # the innermost last
        self.steps, self.since = 0, 0.0

    def turn(self) -> None:
        """Begin or end a phase; the elapsed time is the innermost phase's."""
        self.synchronize()
        now = self.clock()
        if self.open:
            self.seconds[self.open[-1]] += now - self.since
        self.since = now

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        self.turn()
        self.open.append(name)
        try:
            yield
        finally:
            self.turn()
            self.open.pop()

    def step(self) -> AbstractContextManager[None]:
        timed = self.steps % self.every == 0
        self.steps += 1
        return self.span("other") if timed else nullcontext()

    def phase(self, name: str) -> AbstractContextManager[None]:
        return self.span(name) if self.open else nullcontext()


# --8<-- [end:timer]


class Marks:
    """A timer without a clock: it counts the phases that have ended.

    Args:
        then: called at the end of each step.
    """

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.ended: Counter[str] = Counter()
        self.changed = threading.Condition()
        self.then = then

    @contextmanager
    def step(self) -> Iterator[None]:
        yield
        self.then()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        yield
        with self.changed:
            self.ended[name] += 1
            self.changed.notify_all()

    def wait_for(self, name: str, count: int, seconds: float) -> bool:
        """Wait until `count` phases called `name` have ended, and return
        whether they did within `seconds`."""
        with self.changed:
            return self.changed.wait_for(
                lambda: self.ended[name] >= count, seconds
            )
