"""The protein model that ships as an example of a task."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lockstep.bio.tokens import IGNORED, MASK
from lockstep.examples import protein
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions.audit import audit
from tests import jobs

SETTINGS: dict[str, Any] = {
    "task": "lockstep.examples.protein:task",
    "hidden_size": 32,
    "global_batch_size": 32,
    "micro_batch_size": 8,
    "max_steps": 40,
    "warmup_steps": 4,
    "learning_rate": 0.01,
    "checkpoint_every_steps": 10,
}


@pytest.fixture(scope="module")
def data() -> protein.Crops:
    made: protein.Crops = protein.task(TrainConfig(Path(), hidden_size=8)).data
    return made


def crop(data: protein.Crops, epoch: int, *ids: int) -> Any:
    return data[np.stack([np.full(len(ids), epoch), np.array(ids)])]


def test_the_loss_falls_and_a_resume_is_bitwise(tmp_path) -> None:
    """Forty steps on two ranks take the loss below a guess among the twenty
    residues, which is where it begins, and a resume from step 13 ends with the
    same weights."""
    last = jobs.train(2, **SETTINGS, run_dir=tmp_path / "run")
    first = jobs.only("step", tmp_path / "run", 0)[0]
    assert first["loss"] > np.log(20)
    assert last["loss"] < 0.95 * np.log(20)
    assert last["accuracy"] > 1.5 / 20
    jobs.train(2, **SETTINGS, run_dir=tmp_path / "two", stop_at_step=13)
    again = jobs.train(2, **SETTINGS, run_dir=tmp_path / "two")
    assert again["weights_sha256"] == last["weights_sha256"]
    assert audit(tmp_path / "two").proven


def test_a_mask_is_a_function_of_seed_epoch_and_id(data) -> None:
    """A protein's crop and mask are the same in any company and order and in
    a dataset that was made anew, and differ by epoch, seed and protein."""
    _, x, y = crop(data, 3, 5, 9, 700)
    ids, other_x, other_y = crop(data, 3, 700, 5)
    assert ids.tolist() == [700, 5]
    assert other_x.equal(x[[2, 0]])
    assert other_y.equal(y[[2, 0]])
    again = protein.task(TrainConfig(Path(), hidden_size=8)).data
    assert crop(again, 3, 9)[1].equal(x[1:2])
    assert not crop(data, 4, 5)[1].equal(x[:1])
    reseeded = protein.task(TrainConfig(Path(), hidden_size=8, seed=1)).data
    assert not crop(reseeded, 3, 5)[1].equal(x[:1])
    asked = y != IGNORED
    assert 0 < asked.sum() < asked.numel()
    assert (x == MASK)[~asked].sum() == 0
    assert not asked[0].equal(asked[1])


def test_an_empty_micro_batch_has_the_shape_of_the_others(data) -> None:
    ids, x, y = data[np.zeros((2, 0), np.int64)]
    assert ids.shape == (0,)
    assert x.shape == y.shape == (0, data.length)
    logits = torch.zeros(0, 20)
    assert protein.loss(logits, y) == protein.accuracy(logits, y) == 0


def test_each_protein_counts_as_one(data) -> None:
    """Two proteins of which unlike numbers of residues are hidden: the loss is
    the sum of their means, and one of which none is hidden adds nothing."""
    _, _, y = crop(data, 0, 1, 2)
    y[0, 10:] = IGNORED
    y[0, :3] = torch.arange(3)
    hidden = (y != IGNORED).sum(1)
    assert hidden[0] != hidden[1]
    logits = torch.randn(y.numel(), 20)
    means = [
        torch.nn.functional.cross_entropy(part, row, ignore_index=IGNORED)
        for part, row in zip(logits.chunk(2), y, strict=True)
    ]
    assert protein.loss(logits, y) == pytest.approx(sum(means))
    y[1] = IGNORED
    assert protein.loss(logits, y) == pytest.approx(means[0])


def test_no_protein_is_trained_on_and_held_out(data) -> None:
    task = protein.task(TrainConfig(Path(), hidden_size=8))
    held, trained = (
        {one.tobytes() for one in part.proteins}
        for part in (task.held_out, task.data)
    )
    assert len(held) > 100
    assert not held & trained
    assert task.held_out.fingerprint != task.data.fingerprint
