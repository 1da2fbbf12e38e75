"""Drill 1: what a trainer on one process must hold."""

from collections import Counter
from dataclasses import FrozenInstanceError, is_dataclass, replace
from itertools import chain, count
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.nn.functional import one_hot

from lockstep.grading.criteria import Criterion

from ..running import (
    built,
    close,
    configured,
    each_as_often,
    folder,
    needed,
    replayed,
    told,
)

SETTINGS = (
    *("run_dir", "seed", "global_batch_size", "max_steps"),
    *("learning_rate", "warmup_steps", "dropout"),
)


def a_frozen_config(answer: ModuleType) -> None:
    """The settings have names, and keep their values."""
    needed(answer, "TrainConfig")
    known = is_dataclass(answer.TrainConfig)
    assert known, "TrainConfig is no dataclass"
    cfg = configured(answer, Path())
    missing = [name for name in SETTINGS if not hasattr(cfg, name)]
    assert not missing, f"TrainConfig lacks {', '.join(missing)}"
    try:
        cfg.seed = 1
    except FrozenInstanceError:
        return
    raise AssertionError("a setting can be changed while the run goes on")


def a_truth_to_learn(answer: ModuleType) -> None:
    """A linear model of the training set predicts what is held out."""
    needed(answer, "toy")
    (data, (x, y)), (again, _) = answer.toy(), answer.toy()
    ids, inputs, labels = data[:]
    assert torch.equal(ids, torch.arange(len(data))), "a sample's id is lost"
    alike = all(map(torch.equal, data[:], again[:]))
    assert alike, "two calls of toy() give different samples"
    linear = torch.linalg.lstsq(inputs, one_hot(labels).float()).solution
    right = ((x @ linear).argmax(1) == y).float().mean().item()
    assert right > 0.5, f"{right:.0%} of the held-out labels can be learned"
    seen = {tuple(row) for row in inputs.tolist()}
    leaked = sum(tuple(row) in seen for row in x.tolist())
    assert not leaked, f"{leaked} of {len(x)} held-out samples are trained on"


def drawn(answer: ModuleType, n: int, batch: int, steps: int) -> Any:
    """The ids of each step, of an epoch of `n` samples."""
    needed(answer, "TrainConfig", "sampler")
    asked = {"global_batch_size": batch, "max_steps": steps}
    cfg = configured(answer, Path(), **asked)
    return [np.asarray(ids).tolist() for ids in answer.sampler(cfg, n)]


def each_once_an_epoch(answer: ModuleType) -> None:
    """Two epochs of three batches."""
    batches = drawn(answer, 48, 16, 6)
    for epoch in (0, 1):
        ids = Counter(chain(*batches[3 * epoch : 3 * epoch + 3]))
        twice = sum(times > 1 for times in ids.values())
        assert set(ids) == set(range(48)), (
            f"epoch {epoch} has {len(ids)} of 48 samples, {twice} of them twice"
        )
    assert batches[:3] != batches[3:], "each epoch has the same order"
    assert batches == drawn(answer, 48, 16, 6), "the order is drawn anew"


def full_batches(answer: ModuleType) -> None:
    """Epochs of 40 samples, batches of 16."""
    batches = drawn(answer, 40, 16, 5)
    sizes = [len(ids) for ids in batches]
    assert sizes == [16] * 5, f"5 batches of 16 have sizes {sizes}"
    each_as_often(batches, 40)


def seeded(answer: ModuleType) -> None:
    """The config decides on the first weights, and the optimizer has them."""
    needed(answer, "TrainConfig", "build")
    cfg = configured(answer, Path())
    (model, optimizer), (other, _) = answer.build(cfg), answer.build(cfg)
    another, _ = answer.build(replace(cfg, seed=cfg.seed + 1))

    def alike(one: Any, two: Any) -> bool:
        pairs = zip(one.parameters(), two.parameters(), strict=True)
        return all(torch.equal(*pair) for pair in pairs)

    assert alike(model, other), "two builds of one config differ"
    assert not alike(model, another), "the seed does not decide on the weights"
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    all_held = held == {id(p) for p in model.parameters()}
    assert all_held, "the optimizer holds other parameters than the model's"


def the_rate(answer: ModuleType) -> None:
    """At the first step, the end of the warm-up, and the last."""
    needed(answer, "TrainConfig", "learning_rate")
    asked = {"max_steps": 100, "warmup_steps": 10, "learning_rate": 1.0}
    cfg = configured(answer, Path(), **asked)
    # By hand: 1/11; 0.55 + 0.45 cos(pi/10); 0.55 + 0.45 cos(99 pi/100).
    for step, due in ((0, 0.090909), (10, 0.977975), (99, 0.100222)):
        rate = answer.learning_rate(cfg, step)
        assert abs(rate - due) < 1e-5, f"at step {step} it is {rate}, not {due}"


def trains(answer: ModuleType) -> None:
    """Each step's loss is that of a plain loop."""
    with folder() as path:
        cfg = configured(answer, path)
        needed(answer, "sampler", "train")
        n = len(answer.toy()[0])
        order = np.concatenate(list(answer.sampler(cfg, n)))
        _, expected = replayed(answer, cfg, order)
        answer.train(cfg)
        losses = [one["loss"] for one in told(path, "step")]
    assert len(losses) == 4, f"4 steps have {len(losses)} step events"
    assert close(losses, expected), f"losses are {losses}, not {expected}"


class Killed(BaseException):
    """What no run expects."""


def tells(answer: ModuleType) -> None:
    """A run that dies in its fifth step has told of four."""
    needed(answer, "build", "train")
    build, passes = answer.build, count()

    def dying(*_: Any) -> None:
        if next(passes) == 4:
            raise Killed

    def mortal(cfg: Any) -> Any:
        model, optimizer = build(cfg)
        model.register_forward_pre_hook(dying)
        return model, optimizer

    events: list[dict[str, Any]] = []
    with folder() as path, patch.object(answer, "build", mortal):
        cfg = configured(answer, path, max_steps=9)
        try:
            answer.train(cfg)
        except Killed:
            events = told(path)  # its file is still open
    names = [one["event"] for one in events]
    expected = ["run_started"] + 4 * ["step"]
    assert names == expected, f"killed in step 5, the log has {names}"
    for step, one in enumerate(events[1:], 1):
        rate = answer.learning_rate(cfg, step - 1)
        said = [one.get(k) for k in ("step", "position", "learning_rate")]
        due = [step, step * cfg.global_batch_size, rate]
        alike = None not in said and close(said, due)
        assert alike, f"step, position and rate are {said}, not {due}"


def evaluates(answer: ModuleType) -> None:
    """The accuracy is that of the weights at the end."""
    needed(answer, "train")
    with folder() as path, built(answer) as made:
        last = answer.train(configured(answer, path, dropout=0.9))
    assert "accuracy" in last, "train() does not return an accuracy"
    x, y = answer.toy()[1]
    with torch.no_grad():
        right = made.model.eval()(x).argmax(1) == y
    due, found = right.sum().item() / len(y), last["accuracy"]
    assert abs(found - due) < 1e-6, f"the accuracy is {found}, not {due}"


CRITERIA = [
    Criterion(
        "config",
        10,
        "What a run is does not change while it runs.",
        a_frozen_config,
        world=1,
    ),
    Criterion(
        "toy data",
        15,
        "Let a teacher label, from a generator with a seed of its own.",
        a_truth_to_learn,
        world=1,
    ),
    Criterion(
        "sampler",
        15,
        "A permutation for each epoch, of the seed and the epoch alone.",
        each_once_an_epoch,
        world=1,
    ),
    Criterion(
        "model",
        10,
        "Seed before the layers are made.",
        seeded,
        world=1,
    ),
    Criterion(
        "learning rate",
        10,
        "It is a function of the step alone.",
        the_rate,
        world=1,
    ),
    Criterion(
        "loop",
        15,
        "Set the rate, step, forget the gradients; log the batch's mean loss.",
        trains,
        world=1,
        needs={"toy data": "", "model": ""},
    ),
    Criterion(
        "metrics",
        10,
        "A line for each step, handed over at once; a position is in samples.",
        tells,
        world=1,
    ),
    Criterion(
        "evaluation",
        5,
        "All that is held out, once, without dropout.",
        evaluates,
        world=1,
        needs={"toy data": "", "model": ""},
    ),
    Criterion(
        "full batches",
        10,
        "Count in samples: a position has an epoch and an index in it.",
        full_batches,
        world=1,
        needs={"sampler": ""},
    ),
]
