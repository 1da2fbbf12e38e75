"""Lab 11: what a diagnosis and a repair must hold."""

import io
import threading
import time
from contextlib import suppress
from functools import cache
from itertools import pairwise
from random import Random
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from lockstep.grading.criteria import Criterion, named
from lockstep.instruments import slow_trainers as slow
from lockstep.instruments.fake_gpu import FakeGpu
from lockstep.instruments.phase_timer import Marks
from lockstep.instruments.traffic import Traffic

NAMES = "A", "B", "C", "D"
FASTER = 2  # A's CPU time; it is 4
FEWER = 4  # B's collectives; it is 33
BUSIEST = 1.15  # C's busiest rank over the mean; slow it is 1.8
SAME = 1e-9  # of the largest weight: orders of additions differ by 1e-15
PATIENCE = 2  # seconds, of what waits for something that may never come


def found(answer: ModuleType, name: str) -> type[slow.Trainer]:
    """The answer's trainer, once something of it is the answer's own."""
    trainer: type[slow.Trainer] = named(answer, name)
    given = {object, *getattr(slow, name).__mro__}
    own = [vars(one) for one in trainer.__mro__ if one not in given]
    if not any(not key.startswith("__") for each in own for key in each):
        raise NotImplementedError
    return trainer


# Part one: what measures.


def read(timer: Any) -> dict[str, float]:
    """Its phases that took any time."""
    return {name: s for name, s in timer.seconds.items() if s}


def equal(got: dict[str, float], right: dict[str, float], when: str) -> None:
    """AssertionError, unless the seconds are those."""
    assert got == right, f"{when} the seconds are {got}, not {right}"


def times_phases(answer: ModuleType) -> None:
    """On a host, then with a device behind it. All seconds are integers."""
    m = FakeGpu()
    timer = answer.PhaseTimer(m.clock)
    for _ in range(2):
        with timer.step():
            m.work(1)
            with timer.phase("load"):
                m.work(2)
            with timer.phase("backward"):
                m.work(4)
                with timer.phase("sync"):
                    m.work(8)
                m.work(16)
            m.work(32)
        m.work(64)
    right = {"other": 66.0, "load": 4.0, "backward": 40.0, "sync": 16.0}
    equal(read(timer), right, "in two steps with `sync` inside `backward`")
    with suppress(KeyError), timer.step():
        with suppress(OSError), timer.phase("load"):
            m.work(128)
            raise OSError
        with timer.phase("save"):
            m.work(256)
            raise KeyError
    with timer.step(), timer.phase("load"):
        m.work(512)
    right |= {"load": 644.0, "save": 256.0}
    equal(read(timer), right, "after a phase that raises")

    m = FakeGpu()
    timer = answer.PhaseTimer(m.clock, m.synchronize, every=3)
    for step in range(4):
        before = m.waits
        with timer.step():
            with timer.phase("forward"):
                m.work(2)
                m.launch(1)
            m.launch(4)
            with timer.phase("sync"):
                m.launch(8)
        told = f"with every=3, step {step} of 0 to 3 waits for the device"
        assert step in (0, 3) or m.waits == before, told
        m.launch(16)
    right = {"forward": 6.0, "other": 8.0, "sync": 16.0}
    equal(read(timer), right, "with a device, in two of four steps,")


def event(name: str, category: str, begin: int, end: int, tid: int) -> Any:
    """As the profiler writes it."""
    about = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid}
    return about | {"ts": begin + 0.0, "dur": end - begin + 0.0}


def drawn(seed: int) -> tuple[dict[str, Any], dict[int, dict[str, float]]]:
    """A trace, and its breakdown, counted microsecond by microsecond."""
    draw = Random(seed)
    windows = {0: (20, 60), 1: (60, 130), 2: (140, 150)}
    events: list[Any] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {}},
        {"ph": "i", "name": "Iteration Start", "ts": 5.0, "s": "g"},
        *(
            event(f"step {n}", "user_annotation", *window, 1)
            for n, window in windows.items()
        ),
        event("backward", "user_annotation", 30, 110, 1),
        event("c10d::allreduce_", "cpu_op", 112, 125, 1),
    ]
    computes, sends = set[int](), set[int]()
    for kind, marks in (("aten::mm", computes), ("gloo:all_reduce", sends)):
        category = "cpu_op" if marks is computes else "user_annotation"
        for _ in range(6):
            begin = draw.randrange(0, 150)
            end = begin + draw.randrange(1, 30)
            tid = draw.randrange(1, 4)
            events.append(event(kind, category, begin, end, tid))
            marks.update(range(begin, end))
    first = min(computes)
    events.append(event("aten::empty", "cpu_op", first, first + 1, 1))
    draw.shuffle(events)
    right: dict[int, dict[str, float]] = {}
    for n, window in windows.items():
        inside = set(range(*window))
        right[n] = {
            "computation": len(inside & computes),
            "communication": len(inside & sends),
            "exposed": len(inside & sends - computes),
            "idle": len(inside - sends - computes),
        }
    return {"traceEvents": events}, right


def reads_traces(answer: ModuleType) -> None:
    """Twenty drawn ones."""
    for seed in range(20):
        trace, right = drawn(seed)
        got = answer.breakdown(trace)
        steps = sorted(got)
        assert steps == [*right], f"its steps are {steps}, not {[*right]}"
        for n, parts in right.items():
            for part, expected in parts.items():
                found = got[n][part]
                told = f"in trace {seed}, step {n} has {found} µs of {part}"
                same = abs(found - expected) < 1e-6
                assert same, f"{told}, not {expected}"


# Part two: what was found.

BLAME: dict[str, tuple[tuple[str, ...], int | None]] = {
    "A": (("load",), None),
    "B": (("sync",), None),
    "C": (("forward", "backward"), 1),
    "D": (("save",), 0),
}


def blames(answer: ModuleType) -> None:
    """Each trainer's phase and rank."""
    given = named(answer, "FOUND")
    if any(given.get(name) is None for name in NAMES):
        raise NotImplementedError
    for name, (phases, rank) in BLAME.items():
        told = f"trainer {name}: {given[name]}"
        phase, where = given[name]
        assert phase in slow.PHASES, f"{told} has no phase of a trainer"
        right = phase in phases and where == rank
        assert right, f"{told} is not where the time is lost"


# Part three: what was fixed.


def cpu_seconds(trainer: type[slow.Trainer]) -> float:
    """Of all threads of this rank, to train."""
    one = trainer(slow.Store(0))
    begin = time.process_time()
    one.train(Marks())
    return time.process_time() - begin


def decodes_less(answer: ModuleType) -> tuple[float, float]:
    """Slow and fixed take turns, until the least of each is good enough on
    all ranks: whatever else runs here can only add."""
    mended = found(answer, "A")
    before = after = float("inf")
    for _ in range(5):
        before = min(before, cpu_seconds(slow.A))
        after = min(after, cpu_seconds(mended))
        enough = torch.tensor(int(before >= FASTER * after))
        dist.all_reduce(enough, dist.ReduceOp.MIN)
        if enough:
            break
    return before, after


def is_faster(ranks: list[tuple[float, float]]) -> None:
    """On each of them."""
    for rank, (before, after) in enumerate(ranks):
        told = f"rank {rank} of A takes {1e3 * after:.0f} ms of CPU time; slow"
        told = f"{told} it takes {1e3 * before:.0f}, which is not {FASTER} x"
        assert before >= FASTER * after, f"{told} that"


def sent(trainer: type[slow.Trainer]) -> tuple[int, float]:
    """Collectives and bytes of three steps."""
    one = trainer(slow.Store(0))
    one.steps = 3
    with Traffic() as traffic:
        one.train(Marks())
    return len(traffic.calls), traffic.sent


def sends_less_often(answer: ModuleType) -> None:
    """Counted, since the cost of a small one is that it is one."""
    calls, most = sent(slow.B)
    fewer, bytes_ = sent(found(answer, "B"))
    told = f"in 3 steps B has {fewer} collectives and messages; slow, {calls}"
    assert fewer <= calls / FEWER, told
    told = f"in 3 steps a rank of B sends {bytes_:.0f} bytes; slow, {most:.0f}"
    assert bytes_ <= 1.05 * most, told


def multiplies(answer: ModuleType) -> list[int]:
    """Floating-point operations of this rank, step by step."""
    one = found(answer, "C")(slow.Store(0))
    one.steps = 4
    totals = [0]
    with FlopCounterMode(display=False) as counter:
        one.train(Marks(lambda: totals.append(counter.get_total_flops())))
    return [after - before for before, after in pairwise(totals)]


def is_balanced(ranks: list[list[int]]) -> None:
    """In every step, since all wait for the last one in each."""
    for step, work in enumerate(zip(*ranks, strict=True)):
        busiest = max(work) * len(work) / sum(work)
        told = f"in step {step} of C rank {work.index(max(work))} multiplies"
        assert busiest <= BUSIEST, f"{told} {busiest:.2f} times the mean"


class Late(slow.Store):
    """A store that has an object only when its step's `save` is over."""

    def __init__(self, marks: Marks) -> None:
        super().__init__(0)
        self.marks = marks
        self.held: list[str] = []  # what `save` waited for

    def put(self, name: str, data: bytes) -> None:
        step = int(name.removeprefix("step-"))
        if not self.marks.wait_for("save", step, PATIENCE):
            self.held.append(name)
        super().put(name, data)


def saves_beside(answer: ModuleType) -> None:
    """No `save` of it waits for the store."""
    marks = Marks()
    store = Late(marks)
    found(answer, "D")(store).train(marks)
    told = f"D's `save` of {', '.join(store.held)} waits for the store"
    assert not store.held, told


def beside() -> bool:
    """Whether it is another thread than the one that trains."""
    return threading.current_thread() is not threading.main_thread()


class Leaving(slow.Store):
    """A store that takes its time with the last object, in case somebody does
    not wait for it."""

    def __init__(self) -> None:
        super().__init__(0)
        self.left = threading.Event()

    def put(self, name: str, data: bytes) -> None:
        if beside() and name == f"step-{slow.Trainer.steps}":
            self.left.wait(PATIENCE / 4)
        super().put(name, data)


class QuickA(slow.A):
    """A, for those who want its weights alone."""

    decode = cache(slow.A.decode)


def end(trainer: type[slow.Trainer]) -> dict[str, Any]:
    """Its weights, as one more checkpoint beside those that it saved.

    Who saves in another thread finds it slow: it serializes after the next
    update, so what it got must be a copy.
    """
    marks, store, save = Marks(), Leaving(), torch.save

    def saved(*args: Any, **kwargs: Any) -> None:
        if beside():
            update = marks.ended["optimizer"] + 1
            marks.wait_for("optimizer", min(update, one.steps), PATIENCE)
        save(*args, **kwargs)

    one = trainer(store)
    with patch.object(torch, "save", saved):
        one.train(marks)
        objects = dict(store.objects)
        store.left.set()
    found = {k: torch.load(io.BytesIO(data)) for k, data in objects.items()}
    return found | {"weights": {"model": one.model.state_dict()}}


def keeps_results(answer: ModuleType) -> None:
    """Of those that are somebody's own by now."""
    mine: dict[str, type[slow.Trainer]] = {}
    for name in NAMES:
        with suppress(NotImplementedError):
            mine[name] = found(answer, name)
    if not mine:
        raise NotImplementedError
    for name, trainer in mine.items():
        right = end(QuickA if name == "A" else getattr(slow, name))
        got = end(trainer)
        told = f"{name} ends with {sorted(got)}, not {sorted(right)}"
        assert got.keys() == right.keys(), told
        for place, state in right.items():
            what = f"{name}'s {place}"
            told = f"{what} has {sorted(got[place])}, not {sorted(state)}"
            assert got[place].keys() == state.keys(), told
            step = got[place].get("step")
            assert step == state.get("step"), f"{what} is of step {step}"
            alike(got[place]["model"], state["model"], what)


def alike(got: dict[str, Tensor], right: dict[str, Tensor], what: str) -> None:
    """AssertionError, unless they are, but for the order of additions."""
    assert got.keys() == right.keys(), f"{what} has other names"
    for name, weight in right.items():
        off = (got[name] - weight).abs().max() / weight.abs().max()
        told = f"{what}: {name} is off by {off:.1e} of its largest number"
        assert off <= SAME, told


CRITERIA = [
    Criterion(
        "phase timer",
        16,
        "Time since the last turn belongs to who is innermost; wait first.",
        times_phases,
        world=1,
    ),
    Criterion(
        "trace",
        16,
        "Merge spans before you add them up, and cut them at the step's ends.",
        reads_traces,
        world=1,
    ),
    Criterion(
        "diagnosis",
        8,
        "Compare the ranks: who waits is late for nothing.",
        blames,
        world=1,
    ),
    Criterion(
        "trainer A",
        12,
        "What is computed again in each step, and comes out the same?",
        decodes_less,
        is_faster,
        world=2,
    ),
    Criterion(
        "trainer B",
        12,
        "A collective of one byte has a price, too.",
        sends_less_often,
        world=2,
    ),
    Criterion(
        "trainer C",
        12,
        "Equal shares of what? Look at which cost grows how.",
        multiplies,
        is_balanced,
        world=2,
    ),
    Criterion(
        "trainer D",
        12,
        "Who needs the store's answer, and when?",
        saves_beside,
        world=2,
    ),
    Criterion(
        "unchanged",
        12,
        "Mend what is slow by doing the same, elsewhere, or once.",
        keeps_results,
        world=2,
    ),
]
