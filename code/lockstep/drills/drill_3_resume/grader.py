"""Drill 3: what must hold of a run that was killed, on two ranks."""

import io
import re
import shutil
import time
from collections import Counter
from contextlib import (
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from lockstep.grading.criteria import Criterion
from lockstep.instruments.late_listing import listed_late

from ..running import (
    agreed,
    built,
    configured,
    every,
    folder,
    launched,
    needed,
    rank,
    told,
    torchrun,
    trained,
    weights,
)

NAMES = ("save", "restore", "sampler", "Log")


def short(answer: ModuleType, path: Path, **settings: Any) -> Any:
    """Six steps, a checkpoint after every third."""
    needed(answer, *NAMES)
    usual = {"max_steps": 6, "checkpoint_every_steps": 3}
    cfg = configured(answer, path, **usual | settings)
    assert hasattr(cfg, "stop_at_step"), "TrainConfig lacks stop_at_step"
    return cfg


def held(optimizer: torch.optim.Optimizer) -> list[float]:
    """What it holds for its parameters, in a row."""
    states = optimizer.state_dict()["state"].values()
    parts = [part for one in states for part in one.values()]
    flat = [torch.as_tensor(part).flatten() for part in parts]
    return torch.cat(flat).tolist() if flat else []


def brings_back(answer: ModuleType) -> None:
    """A launch that has nothing left to do ends with what was saved."""
    with folder() as path, built(answer) as made:
        cfg = short(answer, path, stop_at_step=3)
        launched(answer, cfg)
        before = weights(made.model), held(made.optimizer)
        launched(answer, cfg)
        after = weights(made.model), held(made.optimizer)
    assert before[0] == after[0], "the weights are not those that were saved"
    assert before[1] == after[1], "the optimizer's state is not what was saved"


def goes_on(answer: ModuleType) -> None:
    """The samples after a stop are those of a run that never stopped."""
    with folder() as one, folder() as two:
        launched(answer, short(answer, one))
        launched(answer, short(answer, two, stop_at_step=3))
        launched(answer, short(answer, two))
        whole = {step: ids for (_, step), ids in trained(one).items()}
        parts = trained(two)
    steps = [step for _, step in parts]
    assert steps == [*whole], f"stopped after step 3, it trains {steps}"
    for (_, step), ids in parts.items():
        assert ids == whole[step], f"step {step} trains on other samples"


def is_bitwise(answer: ModuleType) -> None:
    """With dropout, on three ranks, whose additions have an order."""
    ends = []
    for stops in ([], [3]):
        with folder() as path, built(answer) as made:
            for asked in [*({"stop_at_step": at} for at in stops), {}]:
                launched(answer, short(answer, path, dropout=0.5, **asked))
            ends.append(weights(made.model))
    whole, parts = map(np.array, ends)
    far = np.abs(whole - parts).max()
    assert (whole == parts).all(), (
        f"after a stop a weight is {far:.2g} away from the unbroken run's"
    )


def is_step_6(name: str) -> bool:
    """Return whether a folder's name is that of the checkpoint at step 6."""
    return re.fullmatch("step-0*6", name) is not None


def one_decides(answer: ModuleType) -> None:
    """Rank 1's listing of the folder is late."""
    with folder() as path:
        launched(answer, short(answer, path, stop_at_step=3))
        launched(answer, short(answer, path))
        restore = answer.restore

        def compared(r: Any) -> Any:
            found = restore(r)
            first, *others = every(weights(made.model))
            alike = all(one == first for one in others)
            assert alike, "ranks take different checkpoints"
            return found

        with patch.object(answer, "restore", compared), built(answer) as made:
            if rank() == 1:
                with listed_late(is_step_6):
                    launched(answer, short(answer, path))
            else:
                launched(answer, short(answer, path))


def samples(path: Path) -> Counter[int]:
    """How many each step has trained on, over all launches."""
    found: Counter[int] = Counter()
    for (_, step), ids in trained(path).items():
        found[step] += len(ids)
    return found


def waits_for_all(answer: ModuleType) -> None:
    """Killed while any rank writes, rank 1 late, a run goes on from before."""
    save, copies = torch.save, count()
    with folder() as path, folder() as killed:

        def slow(what: Any, file: Any, **options: Any) -> None:
            time.sleep(0.5 * rank())
            if not hasattr(file, "write"):
                Path(file).write_bytes(b"half")
            # What the others move meanwhile may be lost on the way.
            with suppress(shutil.Error, OSError):
                shutil.copytree(path, killed / f"{rank()}-{next(copies)}")
            save(what, file, **options)

        launched(answer, short(answer, path, stop_at_step=3))
        with patch("torch.save", slow):
            launched(answer, short(answer, path))
        for copy in agreed(sorted(killed.iterdir())):
            before = samples(copy)
            try:
                launched(answer, short(answer, copy, stop_at_step=4))
            except (SystemExit, Exception) as error:
                raise AssertionError(
                    f"killed while a rank writes, it ends with {error!r}"
                ) from None
            steps = [*(samples(copy) - before)]
            assert steps == [4], (
                "killed while a rank writes the checkpoint of step 6, it does"
                f" not go on after step 3, but trains steps {steps}"
            )


def refuses(answer: ModuleType) -> None:
    """What decides the training is what it was; the rest may differ."""
    with folder() as path:
        cfg = short(answer, path, stop_at_step=3)
        launched(answer, cfg)
        said, heard = "nothing", io.StringIO()
        with torchrun(2), redirect_stdout(heard), redirect_stderr(heard):
            joined = answer.join()
            try:
                other = replace(cfg, seed=cfg.seed + 1)
                answer.train(other, *joined)
            except (SystemExit, Exception) as error:
                said = f"{heard.getvalue()}{error}"
        assert "seed" in said, f"about another seed it says {said}"
        asked = {"stop_at_step": 3, "checkpoint_every_steps": 2}
        launched(answer, short(answer, path, **asked))


def keeps_the_logs(answer: ModuleType) -> None:
    """Both launches are told of, by number."""
    with folder() as path:
        launched(answer, short(answer, path, stop_at_step=3))
        launched(answer, short(answer, path))
        events, steps = told(path, "run_started"), told(path, "step")
        records = list(trained(path))
    found = [(one.get("attempt"), one.get("rank")) for one in events]
    due = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert sorted(found, key=str) == due, (
        f"attempts and ranks that started are {found}"
    )
    due = [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5), (1, 6)]
    assert records == due, f"attempts and steps of the records are {records}"
    for r in (0, 1):
        own = [one for one in steps if one.get("rank") == r]
        found = [(one.get("attempt"), one.get("step")) for one in own]
        assert sorted(found, key=str) == due, (
            f"attempts and steps of rank {r}'s events are {found}"
        )


def on_another_world(answer: ModuleType) -> None:
    """Three steps on two ranks, three on one: the batches stay."""
    with folder() as one, folder() as two:
        launched(answer, short(answer, one))
        launched(answer, short(answer, two, stop_at_step=3))
        launched(answer, short(answer, two), world=1)
        whole = {step: ids for (_, step), ids in trained(one).items()}
        parts = {step: ids for (_, step), ids in trained(two).items()}
    for step in range(1, 7):
        assert parts.get(step) == whole[step], (
            f"of step {step} one rank has {parts.get(step)}, not {whole[step]}"
        )


CRITERIA = [
    Criterion(
        "state",
        20,
        "Load all that was saved: the weights, and what the optimizer holds.",
        brings_back,
        world=2,
    ),
    Criterion(
        "position",
        15,
        "A sampler begins at a position; a checkpoint knows which.",
        goes_on,
        world=2,
    ),
    Criterion(
        "bitwise",
        15,
        "Each rank draws its own dropout; DDP regroups after its first pass.",
        is_bitwise,
        world=3,
        needs={"state": "", "position": ""},
    ),
    Criterion(
        "one decision",
        10,
        "One rank looks, and all hear what it found.",
        one_decides,
        world=2,
        needs={"state": ""},
        seconds=20,
    ),
    Criterion(
        "all have written",
        10,
        "The final name says that every rank's file is there.",
        waits_for_all,
        world=2,
    ),
    Criterion(
        "another config",
        10,
        "Compare what was saved with what is asked, and name the difference.",
        refuses,
        world=2,
    ),
    Criterion(
        "logs",
        10,
        "A launch has a number, and files of its own.",
        keeps_the_logs,
        world=2,
    ),
    Criterion(
        "another world size",
        10,
        "Position and batch are the run's; only RNG states are a rank's.",
        on_another_world,
        world=2,
        needs={"position": ""},
    ),
]
