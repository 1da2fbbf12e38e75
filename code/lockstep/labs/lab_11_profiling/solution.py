"""Lab 11: one solution, which the page shows."""

import io
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from typing import Any

import torch
import torch.distributed as dist

from lockstep.labs.lab_11_profiling import slow


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
        """Here a phase begins or ends: what passed is the innermost one's."""
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


# --8<-- [start:trace]
Span = tuple[float, float]  # begin and end


def covered(spans: Iterable[Span], window: Span) -> float:
    """How much of the window lies in one span at least."""
    at, end = window
    total = 0.0
    for first, last in sorted(spans):
        first, last = max(first, at), min(last, end)
        if last > first:
            total, at = total + last - first, last
    return total


def breakdown(trace: dict[str, Any]) -> dict[int, dict[str, float]]:
    """Microseconds of each step, by what they hide."""
    computes: list[Span] = []
    sends: list[Span] = []
    steps: dict[int, Span] = {}
    for event in trace["traceEvents"]:
        if event["ph"] != "X":
            continue
        name, category = event["name"], event.get("cat")
        span = event["ts"], event["ts"] + event["dur"]
        if name.startswith("gloo:"):
            sends.append(span)
        elif category == "cpu_op" and not name.startswith("c10d::"):
            computes.append(span)
        elif category == "user_annotation" and name.startswith("step "):
            steps[int(name.removeprefix("step "))] = span
    found = {}
    for step, window in steps.items():
        computation = covered(computes, window)
        busy = covered(computes + sends, window)
        found[step] = {
            "computation": computation,
            "communication": covered(sends, window),
            "exposed": busy - computation,
            "idle": window[1] - window[0] - busy,
        }
    return found


# --8<-- [end:trace]


# --8<-- [start:found]
FOUND: dict[str, tuple[str, int | None] | None] = {
    "A": ("load", None),  # both ranks decode
    "B": ("sync", None),  # 33 collectives, and nobody is late
    "C": ("forward", 1),  # rank 0 waits for it in sync
    "D": ("save", 0),  # rank 1 waits for it in sync
}
# --8<-- [end:found]


# --8<-- [start:a]
class A(slow.A):
    """Decodes a line once."""

    def __init__(self, store: slow.Store) -> None:
        super().__init__(store)
        self.decoded: dict[str, slow.Sample] = {}

    def decode(self, line: str) -> slow.Sample:
        if line not in self.decoded:
            self.decoded[line] = super().decode(line)
        return self.decoded[line]


# --8<-- [end:a]


# --8<-- [start:b]
class B(slow.B):
    """Sends all gradients in one buffer."""

    def sync(self) -> None:
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        flat = torch.cat([grad.flatten() for grad in grads])
        dist.all_reduce(flat)
        parts = flat.split([grad.numel() for grad in grads])
        for grad, part in zip(grads, parts, strict=True):
            grad.copy_(part.view_as(grad))


# --8<-- [end:b]


# --8<-- [start:c]
class C(slow.C):
    """Deals out work, not samples: the longest first, to who has least."""

    def share(self, ids: list[int]) -> list[int]:
        work = {i: self.lengths[i % len(self.lengths)] ** 2 for i in ids}
        shares: list[list[int]] = [[] for _ in range(self.world)]
        for i in sorted(ids, key=lambda i: (-work[i], i)):
            min(shares, key=lambda s: sum(work[j] for j in s)).append(i)
        return shares[self.rank]


# --8<-- [end:c]


# --8<-- [start:d]
class D(slow.D):
    """Copies the state in the step, and writes the copy beside it."""

    writer: threading.Thread | None = None

    def save(self, step: int) -> None:
        if self.rank == 0:
            self.finish()  # one copy in memory, and no more
            state = {"step": step, "model": deepcopy(self.model.state_dict())}
            self.writer = threading.Thread(target=self.write, args=(state,))
            self.writer.start()

    def write(self, state: dict[str, Any]) -> None:
        torch.save(state, file := io.BytesIO())
        self.store.put(f"step-{state['step']}", file.getvalue())

    def finish(self) -> None:
        if self.writer:
            self.writer.join()


# --8<-- [end:d]
