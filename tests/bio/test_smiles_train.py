"""The trainer on a store of SMILES: killed, launched again, and audited."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lockstep.bio.datasets import chembl
from lockstep.bio.smiles import train
from lockstep.bio.smiles.prepare import prepare
from lockstep.bio.smiles.store import IGNORED, Molecules
from lockstep.trainer.config import ConfigError
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.options import Options
from tests import jobs, ranks

SETTINGS = {
    "task": "lockstep.bio.smiles.train:task",
    "micro_batch_size": 16,
    "hidden_size": 8,
    "learning_rate": 0.1,
    "warmup_steps": 0,
    "checkpoint_every_steps": 3,
    "log_every_steps": 3,
    "max_epochs": 1,
}


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    done = prepare(chembl().smiles[:360], folder, shard=150)
    assert done.test > 0
    return folder


def work(folder: Path, settings: dict[str, Any], options: Options) -> Any:
    os.environ[train.STORE] = str(folder)
    return jobs.work(settings, options)


@pytest.mark.slow
def test_an_epoch_that_was_killed_has_each_molecule_once(
    store, tmp_path
) -> None:
    """A rank is killed in the middle of an epoch and the job launched again.
    The audit finds each molecule trained on exactly once, and the weights are
    those of an undisturbed run."""
    settings = {**SETTINGS, "run_dir": tmp_path / "run"}
    kill = Options(fault=("kill:rank=1,step=8,phase=backward",))
    with pytest.raises(ranks.RankError):
        ranks.run_ranks(2, work, store, settings, kill, timeout=90)
    last, _ = ranks.run_ranks(2, work, store, settings, jobs.PLAIN, timeout=90)
    found = audit(settings["run_dir"])
    data = Molecules(store / "train")
    assert found.proven
    assert found.finished
    assert found.restarts == 1
    assert found.epochs == 1
    assert found.samples == len(data)
    assert (found.duplicates, found.missing) == (0, 0)
    restored = jobs.only("checkpoint_restored", settings["run_dir"], 1)
    assert restored[0]["step"] == 6
    assert 0.1 < last["accuracy"] < 1
    # An undisturbed run ends with the same weights.
    other = {**settings, "run_dir": tmp_path / "other"}
    calm, _ = ranks.run_ranks(2, work, store, other, jobs.PLAIN, timeout=90)
    assert calm["weights_sha256"] == last["weights_sha256"]


def test_another_store_is_another_run(store, tmp_path) -> None:
    settings = {
        **SETTINGS,
        "run_dir": tmp_path / "run",
        "stop_at_step": 1,
    }
    ranks.run_ranks(1, work, store, settings, jobs.PLAIN)
    prepare(chembl().smiles[:361], tmp_path / "more", shard=150)
    with pytest.raises(ranks.RankError, match="dataset"):
        ranks.run_ranks(1, work, tmp_path / "more", settings, jobs.PLAIN)


def test_the_model_sees_no_later_token() -> None:
    model = train.Next(8)
    inputs = torch.randint(1, 255, (2, 12), dtype=torch.uint8)
    other = inputs.clone()
    other[:, 7:] = 9
    with torch.no_grad():
        one, two = model(inputs), model(other)
    assert one.shape == (2, train.VOCAB, 12)
    assert one[..., :7].equal(two[..., :7])
    assert not one[..., 7].equal(two[..., 7])


def test_accuracy_counts_tokens_and_no_padding(store, monkeypatch) -> None:
    """Of a model that is right everywhere accuracy is 1, and of one that is
    right in one molecule it is that molecule's share of all tokens."""
    monkeypatch.setenv(train.STORE, str(store))
    task = train.task(jobs.TrainConfig(Path()))
    held, accuracy = task.held_out, task.metrics["accuracy"]
    assert 0 < len(held) <= train.HELD
    _, _, y = held[np.stack([np.zeros(len(held), int), np.arange(len(held))])]
    sums = [accuracy(sure(row[None]), row[None]) for row in y]
    assert sum(sums) / len(held) == pytest.approx(1)
    tokens = (y != IGNORED).sum(1)
    assert len({*tokens.tolist()}) > 1
    assert torch.stack(sums) / len(held) == pytest.approx(tokens / tokens.sum())


def sure(y: torch.Tensor) -> torch.Tensor:
    """Logits of a model that is right, and says something for padding."""
    wanted = y.where(y != IGNORED, train.VOCAB - 1)
    return torch.nn.functional.one_hot(wanted, train.VOCAB).mT


def test_a_store_has_to_be_named(tmp_path, monkeypatch) -> None:
    for folder in ("", str(tmp_path)):
        monkeypatch.setenv(train.STORE, folder)
        with pytest.raises(ConfigError, match="LOCKSTEP_STORE has to name"):
            train.task(jobs.TrainConfig(tmp_path))
