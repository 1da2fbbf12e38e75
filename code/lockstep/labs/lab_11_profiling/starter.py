"""Lab 11: profiling.

Read lockstep/instruments/slow_trainers.py first: it has one loop and four
trainers. Part one measures them, part two names what you found, and part three
fixes it.

Once PhaseTimer is there, see where their time goes, on two ranks:

    torchrun --standalone --nproc-per-node=2 -m \\
        lockstep.labs.lab_11_profiling.demo FILE
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from lockstep.instruments import slow_trainers as slow


class PhaseTimer:
    """Where the time of a step goes, on this rank.

    Args:
        clock: says what time it is, in seconds.
        synchronize: returns when the device has done all that was launched. A
            device runs behind the host: work that a phase has launched is that
            phase's, whenever it runs.
        every: of so many steps the first is timed. In others nothing is, and
            nobody waits for the device.
    """

    seconds: dict[str, float]  # by phase: the total of all timed steps

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        synchronize: Callable[[], None] = lambda: None,
        every: int = 1,
    ) -> None:
        raise NotImplementedError

    def step(self) -> AbstractContextManager[None]:
        """`with timer.step():` is one step. What is in none of its phases
        counts as the phase "other", so all phases add up to the step."""
        raise NotImplementedError

    def phase(self, name: str) -> AbstractContextManager[None]:
        """`with timer.phase("load"):` within a step, or within another phase:
        then what the inner one takes is not the outer one's as well. A phase
        that raises has taken its time, too."""
        raise NotImplementedError


def breakdown(trace: dict[str, Any]) -> dict[int, dict[str, float]]:
    """Which communication is hidden behind computation, and which is not.

    Args:
        trace: as `slow.traced` returns it: torch.profiler's, of a CPU. Its
            "traceEvents" with `"ph": "X"` have a name, a category `cat`, a
            begin `ts` and a duration `dur`, both in microseconds. Events of
            one thread are nested, those of several threads overlap.

            - A step is the `user_annotation` named `step 0`, `step 1`, …
            - Communication is what is named `gloo:…`.
            - Computation is every `cpu_op`, but those named `c10d::…`, which
              only launch a collective.

    Returns:
        For each step's number the microseconds of it in which there was
        "computation"; "communication"; "exposed", which is communication
        without computation; and "idle", which is neither.
    """
    raise NotImplementedError  # TODO: no microsecond counts twice


# Which phase has to get shorter, and on which rank; None is every rank alike.
# One for each trainer, as ("optimizer", 1) or ("optimizer", None).
FOUND: dict[str, tuple[str, int | None] | None] = {
    "A": None,
    "B": None,
    "C": None,
    "D": None,
}

# Override what is slow. Weights stay as they were, but for the order of
# additions, and so do the checkpoints: their steps, names and contents.


class A(slow.A):
    """TODO: train in half of the CPU time, with all threads of a rank."""


class B(slow.B):
    """TODO: at most a quarter of the collectives, and no more bytes."""


class C(slow.C):
    """TODO: in every step, no rank multiplies more than 1.15 x the mean."""


class D(slow.D):
    """TODO: `save` returns before the store has the checkpoint."""
