"""Drill 4: what phases must hold, by a clock that the work itself moves."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch

from lockstep.grading.criteria import Criterion, load

from ..drill_3_resume.grader import is_bitwise
from ..running import configured, folder, launched, needed, rank, told

# Seconds of each; with three micro-batches a step, two steps a window.
LOAD, FORWARD, BACKWARD, OPTIMIZER, SAVE = 1, 10, 100, 1000, 10000
TIMES = (3, 2)


class Slow:
    """A data set that takes its time."""

    def __init__(self, data: Any, act: Any) -> None:
        self.data, self.act = data, act

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: Any) -> Any:
        self.act()
        return self.data[index]


@contextmanager
def clocked(answer: ModuleType, lag: int = 0) -> Iterator[ModuleType]:
    """The answer, loaded once more, in a time that only its work spends; each
    load takes `lag` seconds more on rank 1."""
    now = 0.0

    def spend(seconds: float) -> None:
        nonlocal now
        now += seconds

    with ExitStack() as stack:
        for name in ("", "_ns"):
            for clock in ("perf_counter", "monotonic"):
                read = {"": lambda: now, "_ns": lambda: int(now * 10**9)}[name]
                stack.enter_context(patch(f"time.{clock}{name}", read))
        fresh = load(Path(str(answer.__file__)))
        needed(fresh, "toy", "build", "train")
        toy, build, save = fresh.toy, fresh.build, torch.save

        def slow_toy() -> Any:
            data, held_out = toy()
            seconds = LOAD + lag * rank()
            return Slow(data, lambda: spend(seconds)), held_out

        def slow_build(cfg: Any) -> Any:
            model, optimizer = build(cfg)
            model.register_forward_pre_hook(
                lambda *_: spend(FORWARD) if model.training else None
            )
            *_, last = model.parameters()
            last.register_hook(lambda _: spend(BACKWARD))
            optimizer.register_step_pre_hook(lambda *_: spend(OPTIMIZER))
            return model, optimizer

        def slow_save(*what: Any, **options: Any) -> None:
            spend(SAVE)
            save(*what, **options)

        for owner, name, new in (
            (fresh, "toy", slow_toy),
            (fresh, "build", slow_build),
            (torch, "save", slow_save),
        ):
            stack.enter_context(patch.object(owner, name, new))
        yield fresh


def windows(answer: ModuleType, lag: int = 0) -> list[list[dict[str, float]]]:
    """The phases of steps 2 and 4, each of two steps, as each rank has them."""
    with folder() as path, clocked(answer, lag) as slow:
        cfg = configured(
            slow, path, log_every_steps=2, checkpoint_every_steps=2
        )
        launched(slow, cfg)
        steps = told(path, "step")
    if not any("phases" in one for one in steps):
        raise NotImplementedError
    return [
        [one.get("phases", {}) for one in steps if one.get("rank") == r]
        for r in range(2)
    ]


def phase(answer: ModuleType, due: float, *names: str) -> None:
    """What rank 0 says of its first two steps."""
    phases = windows(answer)[0][0]
    found = sum(phases.get(name, 0) for name in names)
    what = " and ".join(names)
    assert found == due, f"{what} took {due} s, and {found:g} s are logged"


def loads(answer: ModuleType) -> None:
    """The wait for each micro-batch."""
    phase(answer, LOAD * TIMES[0] * TIMES[1], "load")


def computes(answer: ModuleType) -> None:
    """Forward, and backward with its all-reduce."""
    phases = windows(answer)[0][0]
    forward = phases.get("forward", 0)
    due = FORWARD * TIMES[0] * TIMES[1]
    assert forward == due, f"forward took {due} s, and {forward:g} s are logged"
    found = phases.get("backward", 0), phases.get("sync", 0)
    each = BACKWARD * TIMES[1]
    assert found == (2 * each, each), (
        f"backward and sync took {2 * each} and {each} s, and {found} s are"
        " logged"
    )


def updates(answer: ModuleType) -> None:
    """Once a step."""
    phase(answer, OPTIMIZER * TIMES[1], "optimizer")


def saves(answer: ModuleType) -> None:
    """What a save takes is in the window after it."""
    found = sum(one.get("checkpoint", 0) for one in windows(answer)[0])
    assert found == SAVE, f"a save took {SAVE} s, and {found:g} s are logged"


def starts_anew(answer: ModuleType) -> None:
    """Two windows of two steps have the same load."""
    loads = [one.get("load", 0) for one in windows(answer)[0]]
    assert len(loads) == 2, f"steps 2 and 4 of 4 make {len(loads)} windows"
    assert loads[0] == loads[1], f"two windows of two steps load {loads} s"


def every_rank(answer: ModuleType) -> None:
    """A slow loader shows on its rank."""
    own = [one[0].get("load", 0) if one else 0 for one in windows(answer, 4)]
    assert own[0] < own[1], (
        f"rank 1 loads for five times as long, and the ranks log {own} s"
    )


def waits_for_the_device(answer: ModuleType) -> None:
    """A GPU is waited for in a logged step, and in no other."""
    needed(answer, "Log")
    if not hasattr(answer.Log, "phase"):
        raise NotImplementedError
    waits: list[None] = []
    with folder() as path:
        for part in ("events", "samples"):
            (path / part).mkdir()
        log = answer.Log(path, 0, 0, gpu=True)
        found = []
        with patch("torch.cuda.synchronize", lambda *_: waits.append(None)):
            for log.timing in (False, True):
                with log.phase("forward"):
                    pass
                found.append(len(waits))
    assert found[0] == 0, "a step that is not logged waits for the device"
    assert found[1] == 2, (
        f"a logged phase waits for the device {found[1]} times, not twice"
    )


def computes_in(answer: ModuleType) -> None:
    """What is asked for is what computes."""
    needed(answer, "build")
    if not hasattr(answer.TrainConfig(), "precision"):
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
        "Rank 0 cannot see a sick neighbour.",
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
