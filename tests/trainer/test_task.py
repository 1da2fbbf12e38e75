"""A model and data of one's own: what `--task module:factory` promises."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from lockstep.trainer import data as core_data
from lockstep.trainer.__main__ import summary
from lockstep.trainer.checkpoint import published
from lockstep.trainer.config import ConfigError, TrainConfig, require_same
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.options import Options
from lockstep.trainer.extensions.task_check import check_task
from lockstep.trainer.model import Task, make_task
from lockstep.trainer.order import GlobalOrder
from tests import ranks
from tests.jobs import command, events, train, work

SETTINGS: dict[str, Any] = {
    "task": f"{__name__}:regression",
    "global_batch_size": 12,
    "micro_batch_size": 3,
    "max_steps": 20,
    "checkpoint_every_steps": 4,
    "log_every_steps": 1,
    "warmup_steps": 0,
    "learning_rate": 0.02,
}
NOISE = 0.1


class Points:
    """(m, 3) to numbers (m, 1), with noise that each epoch draws anew."""

    def __init__(self, n: int, cfg: TrainConfig, noise: float = NOISE) -> None:
        rng = np.random.default_rng(n)
        self.x = torch.from_numpy(rng.normal(size=(n, 3))).float()
        self.y = self.x.sum(1, keepdim=True) + 1
        self.seed, self.noise, self.fingerprint = cfg.seed, noise, str(n)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: np.ndarray) -> core_data.Batch:
        epochs, ids = index
        drawn = core_data.uniform(self.seed, epochs, ids, 3)
        x = self.x[ids] + self.noise * torch.from_numpy(drawn).float()
        return torch.from_numpy(ids), x, self.y[ids]


def squares(out: Tensor, y: Tensor) -> Tensor:
    return (out - y).square().sum()


def ones(out: Tensor, y: Tensor) -> Tensor:
    """Of a mean over samples: 1, if each is counted once."""
    CALLS.append(len(out))
    return torch.tensor(len(y))


CALLS: list[int] = []


def regression(cfg: TrainConfig) -> Task:
    return Task(
        nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.1), nn.Linear(4, 1)),
        data=Points(50, cfg),
        held_out=Points(25, cfg, noise=0.0),
        loss=squares,
        metrics={"squares": squares, "ones": ones},
    )


def at_once(cfg: TrainConfig) -> Task:
    """Without dropout, so that a loss can be computed by hand."""
    return regression(cfg)._replace(model=nn.Linear(3, 1))


def refusing(cfg: TrainConfig) -> Task:
    raise ConfigError("MY_DATA has to name a folder")


def settings(folder: Path, **others: Any) -> dict[str, Any]:
    return {**SETTINGS, "run_dir": folder, **others}


def test_loss_and_metrics_are_the_tasks_own(tmp_path: Path) -> None:
    """On two ranks in micro-batches: the loss of the first step is the mean of
    the task's loss over the batch, and the last event has the mean of each
    metric over the held-out samples, and no other metric."""
    given = settings(tmp_path, task=f"{__name__}:at_once")
    last = train(2, **given)
    cfg = TrainConfig(**given)
    task, n = make_task(cfg), len(Points(50, cfg))
    ids = GlobalOrder(n, cfg.seed)(np.arange(12))
    _, x, y = task.data[np.stack([0 * ids, ids])]
    first = events(tmp_path, 0)[1]
    assert first["event"] == "step"
    assert first["loss"] == pytest.approx(squares(task.model(x), y).item() / 12)
    assert last["squares"] == pytest.approx(by_hand(cfg))
    assert "accuracy" not in last
    assert "squares" in summary(last)
    assert "accuracy" not in summary(last)


def by_hand(cfg: TrainConfig) -> float:
    """The mean square on the held-out samples, by the newest checkpoint."""
    task, newest = make_task(cfg), published(cfg.run_dir / "checkpoints")[0]
    task.model.load_state_dict(load_file(newest / "model.safetensors"))
    held = task.held_out
    return squares(task.model.eval()(held.x), held.y).item() / len(held)


def counted(given: dict[str, Any]) -> tuple[float, list[int]]:
    return work(given)["ones"], CALLS


@pytest.mark.parametrize("world", [1, 2, 4])
def test_every_held_out_sample_is_counted_once(
    world: int, tmp_path: Path
) -> None:
    """25 samples on one, two and four ranks: the mean of 1 is 1, and all ranks
    call the model equally often, on a micro-batch at most."""
    given = settings(tmp_path, max_steps=1)
    found = ranks.run_ranks(world, counted, given)
    assert [mean for mean, _ in found] == [1.0] * world
    assert len({len(calls) for _, calls in found}) == 1
    assert max(m for _, calls in found for m in calls) <= 3
    assert sum(m for _, calls in found for m in calls) == 25


def test_a_task_resumes_bitwise(tmp_path: Path) -> None:
    """Stopped in the middle of an epoch between two checkpoints' steps and
    launched again, on as many ranks: the same weights as undisturbed, and the
    audit finds each sample as often as the epochs say. Dropout, which training
    needs its random states for, is off in the evaluation."""
    calm = train(2, **settings(tmp_path / "calm"))
    whole = by_hand(TrainConfig(**settings(tmp_path / "calm")))
    assert calm["squares"] == pytest.approx(whole)
    train(2, **settings(tmp_path / "run", stop_at_step=7))
    last = train(2, **settings(tmp_path / "run"))
    assert last["weights_sha256"] == calm["weights_sha256"]
    found = audit(tmp_path / "run")
    assert found.proven
    assert found.restarts == 1


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ("nowhere_at_all:task", "No module named 'nowhere_at_all'"),
        ("json:nothing", "has no attribute 'nothing'"),
        ("no name", "invalid format: 'no name'"),
        ("json", "a function that returns a Task, not module"),
        ("math:pi", "a function that returns a Task, not float"),
        ("builtins:repr", "a function that returns a Task, not str"),
        (f"{__name__}:refusing", "error: MY_DATA has to name a folder"),
    ],
    ids=["module", "name", "words", "no function", "number", "text", "own"],
)
def test_what_is_no_task_is_refused_in_a_line(
    task: str, says: str, tmp_path: Path
) -> None:
    """A module that is not there, a name that it has not, what is no function
    and what returns something else: exit code 2 and one line."""
    code, said = command("--task", task, "--run-dir", str(tmp_path))
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("error: ")
    assert says in said
    if "refusing" not in task:
        assert said.startswith(f"error: --task is {task!r}; it must be ")
    # Nothing has begun, so a task that is right may follow.
    assert not (tmp_path / "run.json").exists()


def test_a_task_that_is_none_is_refused_on_every_rank(tmp_path: Path) -> None:
    with pytest.raises(ranks.RankError, match="returns a Task, not float"):
        train(2, **settings(tmp_path, task="math:pi"))


class Two(Points):
    """Returns no ids."""

    def __getitem__(self, index: np.ndarray) -> Any:
        return super().__getitem__(index)[1:]


class Wrong(Points):
    """Returns other samples than it was asked for."""

    def __getitem__(self, index: np.ndarray) -> core_data.Batch:
        return super().__getitem__(index + 1)


class Anonymous(Points):
    """Has no fingerprint."""

    def __init__(self, n: int, cfg: TrainConfig) -> None:
        super().__init__(n, cfg)
        del self.fingerprint


class Drawn(Points):
    """Draws noise from the global RNG."""

    def __getitem__(self, index: np.ndarray) -> core_data.Batch:
        ids, x, y = super().__getitem__(index)
        return ids, x + torch.rand_like(x), y


def mean_squares(out: Tensor, y: Tensor) -> Tensor:
    return (out - y).square().mean()


def each_square(out: Tensor, y: Tensor) -> Tensor:
    return (out - y).square().sum(1)


FAULTY: dict[str, Callable[[TrainConfig], Task]] = {
    "two": lambda cfg: Task(nn.Linear(3, 1), Two(9, cfg), Points(9, cfg)),
    "held": lambda cfg: Task(nn.Linear(3, 1), Points(9, cfg), Two(9, cfg)),
    "ids": lambda cfg: Task(nn.Linear(3, 1), Wrong(9, cfg), Points(9, cfg)),
    "print": lambda cfg: Task(
        nn.Linear(3, 1), Anonymous(9, cfg), Points(9, cfg)
    ),
    "drawn": lambda cfg: Task(nn.Linear(3, 1), Drawn(9, cfg), Points(9, cfg)),
    "mean": lambda cfg: regression(cfg)._replace(loss=mean_squares),
    "each": lambda cfg: regression(cfg)._replace(loss=each_square),
}


def faulty(cfg: TrainConfig) -> Task:
    return FAULTY[os.environ["FAULTY_TASK"]](cfg)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("two", "data[epochs, ids] is (ids, x, y), not 2"),
        ("held", "held_out[epochs, ids] is (ids, x, y), not 2"),
        ("ids", "for [0, 1, 2, 3] it returned [1, 2, 3, 4]"),
        ("print", "data has a fingerprint, a str that changes"),
        ("drawn", "gives the same samples each time"),
        ("mean", "a sum over samples: 4 samples give "),
        ("each", "a tensor without dimensions, not (4,)"),
    ],
)
def test_a_faulty_task_is_refused_in_a_line(
    name: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the first step, with what would be right."""
    monkeypatch.setenv("FAULTY_TASK", name)
    refused = f"--task is '{__name__}:faulty'; it must be a task whose .*"
    with pytest.raises(ConfigError, match=refused + re.escape(says)):
        check_task(
            TrainConfig(tmp_path, task=f"{__name__}:faulty"),
            torch.device("cpu"),
        )


def averaged(cfg: TrainConfig) -> Task:
    return FAULTY["mean"](cfg)


def test_a_launch_checks_its_task_before_it_begins(tmp_path: Path) -> None:
    with pytest.raises(ranks.RankError, match="a sum over samples"):
        train(2, **settings(tmp_path, task=f"{__name__}:averaged"))
    assert not (tmp_path / "run.json").exists()


def test_changed_data_name_the_settings_they_come_from(tmp_path: Path) -> None:
    """No flag is called --dataset-fingerprint."""
    with pytest.raises(ConfigError) as refused:
        require_same({"dataset_fingerprint": "a"}, {"dataset_fingerprint": "b"})
    assert str(refused.value) == (
        "--dataset or --task: fingerprint is 'a'; it must be 'b', as when this"
        " run began"
    )


def test_the_task_is_part_of_the_identity(tmp_path: Path) -> None:
    """A run that began with one task goes on with no other and with no data
    set, and says which it began with."""
    given = settings(tmp_path, stop_at_step=4)
    train(1, **given)
    began = json.loads((tmp_path / "run.json").read_text())["identity"]
    assert began["task"] == SETTINGS["task"]
    for other in (f"{__name__}:at_once", ""):
        refused = f"--task is '{other}'; it must be '{SETTINGS['task']}'"
        with pytest.raises(ranks.RankError, match=refused):
            train(1, **given | {"task": other})


def test_a_factory_finds_torch_seeded(tmp_path: Path) -> None:
    """Weights are a function of the run's seed, whatever was drawn before."""

    def weights(seed: int, before: Callable[[], object]) -> list[float]:
        before()
        task = make_task(TrainConfig(**settings(tmp_path, seed=seed)))
        return [
            x for p in task.model.parameters() for x in p.flatten().tolist()
        ]

    with torch.random.fork_rng(devices=[]):
        one = weights(3, lambda: torch.manual_seed(1))
        assert weights(3, lambda: torch.rand(5)) == one
        assert weights(4, lambda: torch.manual_seed(1)) != one


def test_layers_are_recomputed_where_they_can_be_told_apart(
    tmp_path: Path,
) -> None:
    """A model that is no nn.Sequential is refused, and one that is trains to
    the same bits as without."""
    options = Options(activation_checkpointing=True)
    plain = train(1, **settings(tmp_path / "plain"))
    given = settings(tmp_path / "again")
    (last,) = ranks.run_ranks(1, work, given, options)
    assert last["weights_sha256"] == plain["weights_sha256"]
    given = settings(tmp_path / "none", task=f"{__name__}:at_once")
    with pytest.raises(ranks.RankError, match=r"nn\.Sequential.*not a Linear"):
        ranks.run_ranks(1, work, given, options)
