"""Drill 3: what must hold of a run that was killed, on two ranks."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from lockstep.grading.criteria import Criterion

from ..running import (
    built,
    configured,
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
    assert hasattr(answer.TrainConfig(), "stop_at_step"), (
        "TrainConfig lacks stop_at_step"
    )
    usual = {"max_steps": 6, "checkpoint_every_steps": 3}
    return configured(answer, path, **usual | settings)


def held(optimizer: torch.optim.Optimizer) -> list[float]:
    """What it holds for its parameters, in a row."""
    states = optimizer.state_dict()["state"].values()
    parts = [part for one in states for part in one.values()]
    return torch.cat([p.flatten() for p in parts]).tolist() if parts else []


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
    for stops in ((0,), (3, 0)):
        with folder() as path, built(answer) as made:
            for stop in stops:
                settings = {"stop_at_step": stop, "dropout": 0.5}
                launched(answer, short(answer, path, **settings))
            ends.append(weights(made.model))
    whole, parts = map(np.array, ends)
    far = np.abs(whole - parts).max()
    assert (whole == parts).all(), (
        f"after a stop a weight is {far:.2g} away from the unbroken run's"
    )


@contextmanager
def late(step: str) -> Iterator[None]:
    """A listing of a folder does not show this one yet."""
    scan, names = os.scandir, os.listdir

    class Listing:
        def __init__(self, path: Any = ".") -> None:
            with scan(path) as found:
                seen = [one for one in found if step not in one.name]
            self.found = iter(seen)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def __iter__(self) -> Any:
            return self.found

        def __next__(self) -> Any:
            return next(self.found)

        def close(self) -> None:
            pass

    def listed(path: Any = ".") -> list[Any]:
        return [name for name in names(path) if step not in str(name)]

    with patch("os.scandir", Listing), patch("os.listdir", listed):
        yield


def one_decides(answer: ModuleType) -> None:
    """Rank 1's listing of the folder is late."""
    with folder() as path:
        launched(answer, short(answer, path))

        def trains(*_: Any) -> None:
            raise AssertionError(
                f"rank {rank()} takes an older checkpoint than the others"
            )

        with patch.object(answer, "train_step", trains):
            if rank() == 1:
                with late("step-00000006"):
                    launched(answer, short(answer, path))
            else:
                launched(answer, short(answer, path))


def waits_for_all(answer: ModuleType) -> None:
    """Rank 1 writes late, and looks whether anybody has published."""
    save = torch.save
    with folder() as path:
        cfg = short(answer, path, stop_at_step=3)

        def slow(what: Any, file: Any, **options: Any) -> None:
            final = path / "checkpoints" / "step-00000003"
            until = time.monotonic() + 0.5
            while rank_1 and time.monotonic() < until:
                assert not final.exists(), (
                    "the checkpoint has its final name while rank 1 writes"
                )
            save(what, file, **options)

        rank_1 = rank() == 1
        with patch("torch.save", slow):
            launched(answer, cfg)
        files = sorted(p.name for p in path.glob("checkpoints/step-*/*"))
    assert len(files) >= 2, f"of two ranks the checkpoint has {files}"


def refuses(answer: ModuleType) -> None:
    """What decides the training is what it was; the rest may differ."""
    with folder() as path:
        cfg = short(answer, path, stop_at_step=3)
        launched(answer, cfg)
        with torchrun(2):
            joined = answer.join()
            try:
                answer.train(replace(cfg, seed=1), *joined)
            except (SystemExit, Exception) as error:
                said = str(error)
            else:
                said = "nothing"
        assert "seed" in said, f"about another seed it says {said}"
        launched(answer, replace(cfg, checkpoint_every_steps=2))


def keeps_the_logs(answer: ModuleType) -> None:
    """Both launches are told of, by number."""
    with folder() as path:
        launched(answer, short(answer, path, stop_at_step=3))
        launched(answer, short(answer, path))
        events = told(path, "run_started")
        restored = told(path, "checkpoint_restored")
    found = sorted((one.get("attempt"), one.get("rank")) for one in events)
    due = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert found == due, f"attempts and ranks that started are {found}"
    steps = [one.get("step") for one in restored]
    assert steps == [3, 3], f"the ranks say that they restored steps {steps}"


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
        "Position and batch are the run's; only random states are a rank's.",
        on_another_world,
        world=2,
        needs={"position": ""},
    ),
]
