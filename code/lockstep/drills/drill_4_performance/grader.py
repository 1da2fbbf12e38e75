"""Drill 4: what phases must hold, by a clock that the work itself moves."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset

from lockstep.grading.criteria import Criterion, load
from lockstep.instruments.fake_gpu import FakeGpu

from ..drill_3_resume.grader import is_bitwise
from ..running import (
    agreed,
    configured,
    folder,
    launched,
    needed,
    rank,
    told,
)

# Seconds of each; with three micro-batches a step, two steps a window.
LOAD, FORWARD, BACKWARD, OPTIMIZER, SAVE = 1, 10, 100, 1000, 10000
REDUCE = 2  # an all-reduce that the answer itself calls
TIMES = (3, 2)


class Slow(TensorDataset):
    """A data set that takes its time."""

    def __init__(self, data: TensorDataset, act: Any) -> None:
        super().__init__(*data.tensors)
        self.act = act

    def __getitem__(self, index: Any) -> Any:
        self.act()
        return super().__getitem__(index)


class SpentClock:
    """A clock that moves only when work spends time, by the work's kind."""

    def __init__(self, spent: Counter[int]) -> None:
        self.spent = spent

    def spend(self, kind: int, more: int = 0) -> None:
        """Let work of a kind take its seconds, and maybe more."""
        self.spent[kind] += kind + more

    def seconds(self) -> float:
        """Stand in for time.time and its like."""
        return float(self.spent.total())

    def nanoseconds(self) -> int:
        """Stand in for time.time_ns and its like."""
        return self.spent.total() * 10**9


class SlowWork:
    """What an answer calls to work, each call with its time on a clock.

    Args:
        answer: the answer whose `toy` and `build` take time.
        clock: spends the time.
        lag: seconds that each load takes more on rank 1.
    """

    def __init__(self, answer: ModuleType, clock: SpentClock, lag: int) -> None:
        self.clock, self.lag = clock, lag
        self.real_toy, self.real_build = answer.toy, answer.build
        self.real_save, self.real_all_reduce = torch.save, dist.all_reduce

    def toy(self) -> Any:
        """Return the data sets, of which the first is slow."""
        data, held_out = self.real_toy()
        more = self.lag * rank()
        return Slow(data, lambda: self.clock.spend(LOAD, more)), held_out

    def build(self, cfg: Any) -> Any:
        """Return a model and an optimizer that are slow."""
        spend = self.clock.spend
        model, optimizer = self.real_build(cfg)
        model.register_forward_pre_hook(
            lambda *_: spend(FORWARD) if model.training else None
        )
        *_, last = model.parameters()
        last.register_hook(lambda _: spend(BACKWARD))
        optimizer.register_step_pre_hook(lambda *_: spend(OPTIMIZER))
        return model, optimizer

    def save(self, *what: Any, **options: Any) -> None:
        """Stand in for torch.save."""
        self.clock.spend(SAVE)
        self.real_save(*what, **options)

    def all_reduce(self, tensor: Any, *how: Any, **options: Any) -> Any:
        """Stand in for torch.distributed.all_reduce."""
        if tensor.numel() > 9:  # gradients, and no metrics
            self.clock.spend(REDUCE)
        return self.real_all_reduce(tensor, *how, **options)


@contextmanager
def clocked(
    answer: ModuleType, spent: Counter[int], lag: int = 0
) -> Iterator[ModuleType]:
    """Load the answer once more, in a time that only its work spends; each
    load takes `lag` seconds more on rank 1."""
    clock = SpentClock(spent)
    with ExitStack() as stack:
        for name in "perf_counter", "monotonic", "time":
            stack.enter_context(patch(f"time.{name}", clock.seconds))
            stack.enter_context(patch(f"time.{name}_ns", clock.nanoseconds))
        stack.enter_context(patch("timeit.default_timer", clock.seconds))
        fresh = load(Path(str(answer.__file__)))
        needed(fresh, "toy", "build", "train")
        work = SlowWork(fresh, clock, lag)
        for owner, name in (
            (fresh, "toy"),
            (fresh, "build"),
            (torch, "save"),
            (dist, "all_reduce"),
        ):
            new = patch.object(owner, name, getattr(work, name))
            stack.enter_context(new)
        yield fresh


def windows(
    answer: ModuleType, spent: Counter[int] | None = None, lag: int = 0
) -> list[list[dict[str, float]]]:
    """The phases of steps 2 and 4, each of two steps, as each rank has them;
    `spent` gets the seconds of this rank's work, by its kind."""
    spent = Counter() if spent is None else spent
    with folder() as path, clocked(answer, spent, lag) as slow:
        cfg = configured(
            slow, path, log_every_steps=2, checkpoint_every_steps=2
        )
        launched(slow, cfg)
        steps = [one for one in told(path, "step") if "phases" in one]
    if not steps:
        raise NotImplementedError
    return [
        [one["phases"] for one in steps if one.get("rank") == r]
        for r in range(2)
    ]


def loads(answer: ModuleType) -> None:
    """The wait for each micro-batch, whatever it reads at once."""
    spent: Counter[int] = Counter()
    found = windows(answer, spent)[0][0].get("load", 0)
    due = agreed(spent[LOAD]) / 2  # of two windows
    assert 0 < found == due, f"load took {due:g} s, and {found:g} s are logged"


def computes(answer: ModuleType) -> None:
    """Forward, and backward with its all-reduce."""
    phases = windows(answer)[0][0]
    forward = phases.get("forward", 0)
    due = FORWARD * TIMES[0] * TIMES[1]
    assert forward == due, f"forward took {due} s, and {forward:g} s are logged"
    found = phases.get("backward", 0), phases.get("sync", 0)
    each = BACKWARD * TIMES[1]
    # DDP reduces in the last pass; other answers do so after all three.
    alone = found[0] == 3 * each and 0 < found[1] < BACKWARD
    assert found == (2 * each, each) or alone, (
        f"backward and sync took {2 * each} and {each} s, and {found} s are"
        " logged"
    )


def updates(answer: ModuleType) -> None:
    """Once a step."""
    found = windows(answer)[0][0].get("optimizer", 0)
    due = OPTIMIZER * TIMES[1]
    assert found == due, f"updates took {due} s, and {found:g} s are logged"


def saves(answer: ModuleType) -> None:
    """What a save takes is in its window, or in the one after it."""
    found = sum(one.get("checkpoint", 0) for one in windows(answer)[0])
    whole = found > 0 and found % SAVE == 0  # the last may come too late
    assert whole, f"a save took {SAVE} s, and {found:g} s are logged"


def starts_anew(answer: ModuleType) -> None:
    """Two windows of two steps have the same load."""
    loads = [one.get("load", 0) for one in windows(answer)[0]]
    assert len(loads) == 2, f"steps 2 and 4 of 4 make {len(loads)} windows"
    assert loads[0] == loads[1], f"two windows of two steps load {loads} s"


def every_rank(answer: ModuleType) -> None:
    """A slow loader shows on its rank."""
    ranks = windows(answer, lag=4)
    own = [one[0].get("load", 0) if one else 0 for one in ranks]
    assert own[0] < own[1], (
        f"rank 1 loads for five times as long, and the ranks log {own} s"
    )


def waits_for_the_device(answer: ModuleType) -> None:
    """A GPU is waited for in a logged step, and in no other."""
    needed(answer, "Log")
    if not hasattr(answer.Log, "phase"):
        raise NotImplementedError
    # One of four steps is logged, or each. Half of a logged step's waits in the
    # others, at the beginning of each phase, is a fault as well.
    rare, often = waits(answer, 4), waits(answer, 1)
    assert rare, "no step that is logged waits for the device"
    assert 2 * rare <= often, "a step that is not logged waits for the device"


def waits(answer: ModuleType, log_every_steps: int) -> int:
    """How often a run waits for the device, if its log has one."""
    gpu = FakeGpu()

    class OnGpu(answer.Log):  # type: ignore[name-defined]
        def __init__(self, run_dir: Path, rank: int, attempt: int, gpu: bool):
            super().__init__(run_dir, rank, attempt, True)

    with folder() as path, patch.object(answer, "Log", OnGpu), gpu.installed():
        cfg = configured(answer, path, log_every_steps=log_every_steps)
        launched(answer, cfg)
    return gpu.waits


def computes_in(answer: ModuleType) -> None:
    """What is asked for is what computes."""
    needed(answer, "build")
    if not hasattr(configured(answer, Path()), "precision"):
        raise NotImplementedError
    build, seen = answer.build, set()

    def watched(cfg: Any) -> Any:
        model, optimizer = build(cfg)
        model.register_forward_hook(
            lambda *found: seen.add(found[-1].dtype) if model.training else None
        )
        return model, optimizer

    for name, due in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        seen.clear()
        with folder() as path, patch.object(answer, "build", watched):
            launched(answer, configured(answer, path, precision=name))
        assert seen == {due}, f"with {name} the model computes in {seen}"


CRITERIA = [
    Criterion(
        "loader wait",
        15,
        "Time the wait for a micro-batch, each of them.",
        loads,
        world=2,
    ),
    Criterion(
        "forward and backward",
        15,
        "The last backward pass waits for the all-reduce: call it sync.",
        computes,
        world=2,
    ),
    Criterion(
        "optimizer",
        10,
        "Clipping and the update are a phase.",
        updates,
        world=2,
    ),
    Criterion(
        "checkpoint",
        10,
        "A save is a phase as well.",
        saves,
        world=2,
    ),
    Criterion(
        "windows",
        10,
        "Seconds are of the steps since the last line.",
        starts_anew,
        world=2,
    ),
    Criterion(
        "every rank",
        10,
        "Rank 0 cannot see a sick neighbor.",
        every_rank,
        world=2,
        needs={"loader wait": ""},
    ),
    Criterion(
        "device",
        10,
        "A kernel that has only been launched has no time to measure.",
        waits_for_the_device,
        world=1,
    ),
    Criterion(
        "still bitwise",
        10,
        "What was added must draw nothing from the model's generator.",
        is_bitwise,
        world=3,
    ),
    Criterion(
        "precision",
        10,
        "The setting switches autocast; a disabled scaler is not None.",
        computes_in,
        world=2,
    ),
]
