"""Drill 2: what the lifted trainer must hold on two ranks."""

import io
import runpy
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist

from lockstep.grading.criteria import Criterion, load
from lockstep.instruments.traffic import Traffic

from ..running import (
    BATCH,
    built,
    close,
    configured,
    each_as_often,
    every,
    folder,
    launched,
    needed,
    rank,
    replayed,
    told,
    torchrun,
    torn,
    trained,
    weights,
)


def batches(answer: ModuleType, cfg: Any, world: int, n: int) -> Any:
    """What `world` ranks train on, a row each step: which rank has a sample,
    and when in the step, is free."""
    draws = [
        np.concatenate(list(answer.sampler(cfg, r, world, n)))
        for r in range(world)
    ]
    assert len({len(one) for one in draws}) == 1, "ranks get unequal shares"
    steps = np.stack(draws).reshape(world, cfg.max_steps, -1)
    return np.sort(steps.transpose(1, 0, 2).reshape(cfg.max_steps, -1))


def one_order(answer: ModuleType) -> None:
    """Of 100 samples, two epochs and more."""
    needed(answer, "sampler")
    cfg = configured(answer, Path(), max_steps=5)
    alone = batches(answer, cfg, 1, 100)
    each_as_often(alone, 100)
    for world in (2, 3):
        alike = np.array_equal(batches(answer, cfg, world, 100), alone)
        assert alike, f"{world} ranks train on other batches than one"


def owns_a_device(answer: ModuleType) -> None:
    """The second GPU of the second node, where there is none."""
    needed(answer, "join")
    chosen: list[Any] = []
    with (
        torchrun(1),
        patch.dict("os.environ", RANK="9", LOCAL_RANK="1", WORLD_SIZE="16"),
        patch.multiple(
            dist,
            init_process_group=lambda *_, **__: None,
            get_rank=lambda *_: 9,
            get_world_size=lambda *_: 16,
        ),
        patch("torch.cuda.is_available", lambda: True),
        patch("torch.cuda.device_count", lambda: 8),
        patch("torch.cuda.set_device", chosen.append),
        patch.multiple(
            torch.accelerator,
            is_available=lambda: True,
            device_count=lambda: 8,
            set_device_index=chosen.append,
            current_accelerator=lambda *_: torch.device("cuda"),
        ),
    ):
        found = load(Path(str(answer.__file__))).join()  # imports names again
    place = found[0], found[1], torch.device(found[2])
    due = 9, 16, torch.device("cuda", 1)
    assert place == due, f"rank 9 of 16, local rank 1, is {place}"


def steps_as_one(answer: ModuleType) -> None:
    """Two ranks end with one process's weights."""
    with folder() as path, built(answer, sgd=True) as made:
        cfg = configured(answer, path, micro_batch_size=BATCH // 2)
        launched(answer, cfg)
        found = every(weights(made.model))
        assert close(*found), "the ranks end with different weights"
        n = len(answer.toy()[0])
        alone = configured(answer, path, micro_batch_size=BATCH)
        order = np.concatenate(list(answer.sampler(alone, 0, 1, n)))
        model, _ = replayed(answer, cfg, order, sgd=True)
    due = weights(model)
    far = np.abs(np.subtract(found[rank()], due)).max()
    assert close(found[rank()], due), (
        f"a weight is {far:.2g} away from that of a plain loop on one process"
    )


def accumulates(answer: ModuleType) -> None:
    """Micro-batches make up the same batch, and one all-reduce."""
    cfg = configured(answer, Path())
    needed(answer, "join")
    sizes = [cfg.grad_accum_steps(world) * world * 8 for world in (1, 2, 3)]
    assert sizes == [BATCH] * 3, f"1, 2 and 3 ranks train on {sizes} samples"
    try:
        found = cfg.grad_accum_steps(4)
    except (SystemExit, Exception):
        found = None
    assert found is None, "4 ranks x 8 do not divide 48, and are not refused"
    ends, calls = [], []
    for micro in (BATCH // 2, BATCH // 6):
        with folder() as path, built(answer, sgd=True) as made:
            cfg = configured(answer, path, micro_batch_size=micro)
            with Traffic() as traffic:
                launched(answer, cfg)
        ends.append(weights(made.model))
        reduced = [call for call in traffic.calls if call.op == "all_reduce"]
        calls.append(sum(call.bytes for call in reduced))
    assert close(*ends), "three micro-batches step elsewhere than one"
    assert calls[0] == calls[1], (
        f"with three micro-batches {calls[1]} bytes are reduced, not {calls[0]}"
    )


def tells_of_all(answer: ModuleType) -> None:
    """Loss and accuracy are of all ranks, and each rank says so."""
    with folder() as path, built(answer) as made:
        cfg = configured(answer, path, micro_batch_size=BATCH // 2)
        with patch.object(answer, "toy", uneven(answer)):
            last = launched(answer, cfg)
            n = len(answer.toy()[0])
            alone = configured(answer, path, micro_batch_size=BATCH)
            order = np.concatenate(list(answer.sampler(alone, 0, 1, n)))
            x, y = answer.toy()[1]
            with torch.no_grad():
                right = made.model.cpu().eval()(x).argmax(1) == y
            _, losses = replayed(answer, cfg, order)
        steps = told(path, "step")
    for r in range(2):
        found = [one["loss"] for one in steps if one.get("rank") == r]
        assert len(found) == 4, f"rank {r} tells of {len(found)} steps, not 4"
        assert close(found, losses), f"rank {r} logs {found}, not {losses}"
    due = right.sum().item() / len(y)
    found = last.get("accuracy", -1) if rank() == 0 else due
    assert abs(found - due) < 1e-6, f"the accuracy is {found}, not {due}"


def uneven(answer: ModuleType) -> Any:
    """The toy data, with 101 held-out samples."""
    toy = answer.toy

    def of_101() -> Any:
        data, (x, y) = toy()
        return data, (x[:101], y[:101])

    return of_101


def records(answer: ModuleType) -> None:
    """The ids of both ranks are the step's batch."""
    with folder() as path:
        cfg = configured(answer, path)
        launched(answer, cfg)
        found = trained(path)
        n = len(answer.toy()[0])
        alone = configured(answer, path, micro_batch_size=BATCH)
        whole = batches(answer, alone, 1, n).tolist()
    assert len(found) == 4, f"there are records of {len(found)} steps, not 4"
    for (_, step), ids in found.items():
        due = whole[step - 1]
        assert ids == due, f"step {step} records {ids}, not {due}"


def is_quiet(answer: ModuleType) -> None:
    """As a program: rank 0 prints, the others nothing."""
    needed(answer, "join", "train")
    heard, code = io.StringIO(), None
    with folder() as path:
        flags = ["--run-dir", str(path), "--max-steps", "2"]
        with (
            torchrun(2),
            patch.object(sys, "argv", ["drill.py", *flags]),
            patch("os._exit", sys.exit),
            redirect_stdout(heard),
        ):
            try:
                runpy.run_path(str(answer.__file__), run_name="__main__")
            except SystemExit as done:
                code = done.code
    assert not code, f"it ends with {code}"
    lines = len(heard.getvalue().splitlines())
    if rank() == 0:
        assert lines, "rank 0 prints nothing"
    else:
        assert not lines, f"rank {rank()} prints {lines} lines, not 0"


def published(path: Path) -> dict[int, Path]:
    """The checkpoints, by step."""
    found = path.glob("checkpoints/step-*/rank-0.pt")
    return {int(p.parent.name.removeprefix("step-")): p for p in found}


def within(saved: Any) -> Iterator[dict[Any, Any]]:
    """All dictionaries in it, under whatever names."""
    if isinstance(saved, dict):
        yield saved
        saved = list(saved.values())
    if isinstance(saved, list | tuple):
        for part in saved:
            yield from within(part)


def saves(answer: ModuleType) -> None:
    """What is in the checkpoint fits a model without DDP."""
    needed(answer, "save")
    with folder() as path, built(answer) as made:
        cfg = configured(answer, path, checkpoint_every_steps=2)
        launched(answer, cfg)
        steps = sorted(published(path))
        if hasattr(cfg, "checkpoint_every_steps"):
            assert steps == [2, 4], f"after steps 2 and 4 there are {steps}"
        assert 4 in steps, f"at the end, step 4, there are {steps}"
        # The answer's own program: what it is, it may do when it is loaded.
        saved = torch.load(published(path)[4], "cpu", weights_only=False)
        model, optimizer = answer.build(cfg)
        for part in (model, optimizer):
            due = part.state_dict().keys()
            fits = [one for one in within(saved) if one.keys() == due]
            what = type(part).__name__
            assert fits, f"nothing in it fits the {what} that build() makes"
            part.load_state_dict(fits[0])
        same = weights(model) == weights(made.model)
        assert same, "its weights are not those at the end"


def whole_or_not_there(answer: ModuleType) -> None:
    """Killed while it writes, it leaves no checkpoint."""
    needed(answer, "save")
    with folder() as path:
        cfg = configured(answer, path, checkpoint_every_steps=2)
        with (
            torchrun(1),
            patch("torch.save", side_effect=torn) as save,
            suppress(OSError),
        ):
            answer.train(cfg, *answer.join())
        assert save.called, "a run ends without a torch.save"
        left = [file.parent.name for file in published(path).values()]
    assert not left, f"killed while it writes, a save leaves {left}"


CRITERIA = [
    Criterion(
        "device",
        10,
        "LOCAL_RANK names a device of this node; the rank is a global one.",
        owns_a_device,
        world=1,
    ),
    Criterion(
        "sampler",
        15,
        "Make the global batch first, then take batch[rank::world].",
        one_order,
        world=1,
    ),
    Criterion(
        "gradients",
        15,
        "DDP averages over the ranks: what does each divide its sum by?",
        steps_as_one,
        world=2,
        needs={"sampler": ""},
    ),
    Criterion(
        "metrics",
        15,
        "Add up over the ranks, then divide by the global count.",
        tells_of_all,
        world=2,
        needs={"sampler": "", "gradients": ""},
    ),
    Criterion(
        "record",
        10,
        "A rank writes down what it has trained on, in a file of its own.",
        records,
        world=2,
        needs={"sampler": ""},
    ),
    Criterion(
        "quiet ranks",
        5,
        "People read one rank; files have the others.",
        is_quiet,
        world=2,
    ),
    Criterion(
        "checkpoint",
        10,
        "Save what build() makes, on one rank, under checkpoints/step-N.",
        saves,
        world=2,
    ),
    Criterion(
        "whole or not there",
        10,
        "A checkpoint gets its final name when all of it is written.",
        whole_or_not_there,
        world=1,
    ),
    Criterion(
        "accumulation",
        10,
        "Micro-batches per step follow from the ranks; the last one reduces.",
        accumulates,
        world=2,
        needs={"gradients": ""},
    ),
]
