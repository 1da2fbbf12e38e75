"""The trainer on a store of SMILES: killed, launched again, and audited."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lockstep.bio.datasets import chembl
from lockstep.bio.smiles import train
from lockstep.bio.smiles.prepare import prepare
from lockstep.bio.smiles.store import IGNORED
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.options import Options
from tests import jobs, ranks

SETTINGS = {
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
    train.put(folder)
    return jobs.work(settings, options)


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
    data = train.Training(store / "train")
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
    model = train.build(
        dataclasses.replace(jobs.TrainConfig(Path()), hidden_size=8), 0, 0
    )
    inputs = torch.randint(1, 255, (2, 12), dtype=torch.uint8)
    other = inputs.clone()
    other[:, 7:] = 9
    with torch.no_grad():
        one, two = model(inputs), model(other)
    assert one.shape == (2, train.VOCAB, 12)
    assert one[..., :7].equal(two[..., :7])
    assert not one[..., 7].equal(two[..., 7])


def test_accuracy_counts_tokens_and_no_padding(store) -> None:
    held = train.Held(store / "test")
    assert len(held) == (held.y != IGNORED).sum() < held.y.numel()
    assert len(held.x) == len(np.unique(held.x.numpy(), axis=0))


def test_a_store_has_to_be_named(capsys) -> None:
    assert train.main([]) == train.main(["--run-dir", "x"]) == 2
    assert "first argument is a store" in capsys.readouterr().err
