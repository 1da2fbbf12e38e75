"""Lockstep's trainer and the interview cut have none of the seventeen defects.

Both pass the checks by which a reader's fix of a bug is graded, and stricter
ones where a fix may behave differently.
"""

import os
import random
from collections.abc import Callable
from math import log
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.optim.optimizer import register_optimizer_step_post_hook

from lockstep import interview
from lockstep.debugging.bugs.checks import (
    CHANGES,
    CHECKS,
    SHORT,
    Check,
    Trainer,
    first_failure,
    watched,
)
from lockstep.debugging.bugs.rig import left_in
from lockstep.debugging.silent import d06_sampler_pads as d06
from lockstep.trainer import loop
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.data import Samples
from lockstep.trainer.model import DataParallel, Task
from lockstep.trainer.precision import make_scaler
from lockstep.trainer.process import joined
from lockstep.trainer.step import Replica
from tests import ranks
from tests.trainer.defects import lockstep_trainer

pytestmark = pytest.mark.timeout(300)  # a trainer's checks take 10 s together
Verdicts = dict[str, str]  # what is wrong, by defect; empty if nothing is
CUT = Path(interview.__file__)
LOCKSTEP = Path(lockstep_trainer.__file__)


# Stricter checks


def logged_configs_are_equal(trainer: Trainer) -> None:
    """5. Of the settings that a run's checkpoints must agree with."""
    mine, other = (trainer.whole.of("run_started", rank)[0] for rank in (0, 1))
    for name in "config", "config_digest":
        assert mine.get(name) == other.get(name), f"{name} differs by rank"
    assert mine["config"]["seed"] == 0


def nothing_is_damaged(trainer: Trainer) -> None:
    """10. After the kill in a save."""
    again = left_in(trainer.folder / "killed", 1, 1, [])
    assert again.of("checkpoint_restored")
    assert not again.of("checkpoint_damaged")


def refusals_name_the_setting(trainer: Trainer) -> None:
    """13."""
    for name in CHANGES:
        flag = "--" + name.replace("_", "-")
        said = trainer.refusals[name]
        assert flag in said, f"{flag} is not named: {said}"


def the_first_loss_is_the_batchs(trainer: Trainer) -> None:
    """16. As one process computes it from the model as it is built."""
    ids = trainer.plain.samples[1]
    if trainer.file == CUT:
        model, _ = interview.build(interview.TrainConfig(dropout=0.0))
        _, x, y = interview.toy()[0].tensors
    else:
        asked = {"global_batch_size": len(ids), "dropout": 0.0}
        cfg = lockstep_trainer.TrainConfig(trainer.folder, **asked)
        model, data, *_ = loop.make_task(cfg)
        x, y = data.x, data.y
    truth = F.cross_entropy(model(x[ids]), y[ids]).item()
    for rank in range(2):
        loss = trainer.plain.of("step", rank)[0]["loss"]
        # float32, summed in another order
        assert loss == pytest.approx(truth, rel=1e-5), f"rank {rank}: {loss}"


def drawing(module: ModuleType) -> list[tuple[float, float, float]]:
    """Grows by what Python, NumPy and torch draw after each update."""
    drawn: list[tuple[float, float, float]] = []

    def draw(*_: Any) -> None:
        torchs = torch.rand(()).item()
        drawn.append((random.random(), np.random.random(), torchs))

    register_optimizer_step_post_hook(draw)
    return drawn


def all_generators_resume(trainer: Trainer) -> None:
    """3. The cut says that it leaves out Python's generator and NumPy's."""
    whole = trainer.run("draws", watch=drawing, **SHORT)
    stopped = SHORT | {"stop_at_step": 3}
    trainer.run("draws, stopped", watch=drawing, **stopped)
    again = trainer.run("draws, stopped", watch=drawing, **SHORT)
    for drawn, after in zip(whole.seen, again.seen, strict=True):
        assert after == drawn[-2:], "draws differ after a restore"


def all_layers_compute_in_bf16(trainer: Trainer) -> None:
    """8. In the cut the discarded first pass does not."""
    asked = SHORT | {"precision": "bf16", "max_steps": 1}
    seen = trainer.run("all bf16", watch=watched, **asked).seen[0]["dtypes"]
    assert seen == {"torch.bfloat16"}, f"computed in {seen}"


def sick_rank(module: ModuleType) -> None:
    """Rank 1 reads zeros where its features should be."""
    read = Samples.__getitem__

    def zeros(self: Samples, index: np.ndarray) -> Any:
        ids, x, y = read(self, index)
        return ids, x * 0, y

    if os.environ["RANK"] == "1":
        Samples.__getitem__ = zeros  # type: ignore[method-assign]


def a_sick_rank_shows(trainer: Trainer) -> None:
    """The global loss falls on both ranks; rank 1's own stays at a guess."""
    asked = {"global_batch_size": 64, "micro_batch_size": 32, "max_steps": 64}
    run = trainer.run("sick", watch=sick_rank, **asked)
    last = [run.of("step", rank)[-1] for rank in range(2)]
    guess = log(4)
    assert last[0]["loss"] == last[1]["loss"] < 0.95 * guess
    assert last[0]["share_loss"] < 0.85 * guess
    assert last[1]["share_loss"] > 0.95 * guess


OF_BOTH: dict[str, list[Check]] = {
    "05": [logged_configs_are_equal],
    "10": [nothing_is_damaged],
    "13": [refusals_name_the_setting],
    "16": [the_first_loss_is_the_batchs],
}
OF_LOCKSTEP: dict[str, list[Check]] = {
    "03": [all_generators_resume],
    "08": [all_layers_compute_in_bf16],
    "sick rank": [a_sick_rank_shows],
}


# The verdicts


def judged(file: Path, folder: Path) -> Verdicts:
    """In a process of its own, whose forks are the trainer's ranks."""
    trainer = Trainer(file, file, folder)
    more = OF_LOCKSTEP if file == LOCKSTEP else {}
    return {
        name: first_failure(
            [
                *CHECKS.get(name, []),
                *OF_BOTH.get(name, []),
                *more.get(name, []),
            ],
            trainer,
        )
        for name in CHECKS | more
    }


def verdicts(file: Path, folder: Path) -> Verdicts:
    return dict(ranks.run_ranks(1, judged, file, folder, timeout=280)[0])


@pytest.fixture(scope="module")
def lockstep(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """The verdicts on Lockstep's trainer, with all its extensions attached."""
    return verdicts(LOCKSTEP, tmp_path_factory.mktemp("lockstep"))


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """The verdicts on the interview cut."""
    return verdicts(CUT, tmp_path_factory.mktemp("cut"))


# Lockstep's trainer


def test_every_epoch_trains_on_every_sample_in_the_trainer(
    lockstep: Verdicts,
) -> None:
    """The trainer trains on every sample in each of three epochs."""
    assert lockstep["01"] == ""


def test_progress_ignores_prefetch_in_the_trainer(lockstep: Verdicts) -> None:
    """Stopped after three steps with a worker that reads ahead, the trainer
    resumes at the sample after the last one it trained on."""
    assert lockstep["02"] == ""


def test_checkpoint_restores_with_weights_only(lockstep: Verdicts) -> None:
    """The trainer's checkpoint loads with `weights_only=True` and brings back
    all of its state."""
    assert lockstep["03"] == ""


def test_digest_is_equal_in_every_process(lockstep: Verdicts) -> None:
    """The digest of the trainer's settings is the same in processes with
    different hash seeds."""
    assert lockstep["04"] == ""


def test_digest_is_equal_on_every_rank(lockstep: Verdicts) -> None:
    """The digest of the trainer's settings is the same on every rank."""
    assert lockstep["05"] == ""


def test_no_sample_twice_and_one_accuracy_on_any_world_size(
    lockstep: Verdicts,
) -> None:
    """The trainer trains on no sample twice in an epoch, and its accuracy on
    1,000 samples is the same on two ranks as on three."""
    assert lockstep["06"] == ""


def test_accumulation_trains_the_stated_batch(lockstep: Verdicts) -> None:
    """With two micro-batches the trainer trains on as many samples a step as
    it states."""
    assert lockstep["07"] == ""


def test_fp32_layers_compute_in_fp32(lockstep: Verdicts) -> None:
    """In an fp32 run everything that flows between the trainer's layers is
    fp32, and in a bf16 run it is bf16."""
    assert lockstep["08"] == ""


def test_ranks_draw_different_dropout_and_resume_with_their_own(
    lockstep: Verdicts,
) -> None:
    """The trainer's ranks draw different dropout masks, and after a resume each
    draws those that it would have drawn."""
    assert lockstep["09"] == ""


def test_a_kill_mid_write_leaves_no_checkpoint_that_latest_picks(
    lockstep: Verdicts,
) -> None:
    """Killed while it writes a checkpoint, the trainer restores the one
    before."""
    assert lockstep["10"] == ""


def test_phases_hold_their_kernels_and_a_step_reads_one_value(
    lockstep: Verdicts,
) -> None:
    """With a simulated device queue, each phase of the trainer takes the time
    of the kernels that it launched; a step that isn't logged doesn't wait for
    the device, and reads one value, the gradient's norm."""
    assert lockstep["11"] == ""


def test_default_backend_runs_here(lockstep: Verdicts) -> None:
    """The trainer picks a backend that runs without a GPU."""
    assert lockstep["12"] == ""


def test_incompatible_checkpoint_is_refused(lockstep: Verdicts) -> None:
    """The trainer refuses a checkpoint when a setting that decides the training
    has changed, and names the setting."""
    assert lockstep["13"] == ""


def test_all_ranks_restore_the_same_step(lockstep: Verdicts) -> None:
    """When one rank lists the checkpoints late, both ranks of the trainer still
    restore the same step."""
    assert lockstep["14"] == ""


def test_all_phases_are_measured_on_every_rank(lockstep: Verdicts) -> None:
    """Every rank of the trainer logs the seconds of every phase."""
    assert lockstep["15"] == ""


def test_every_rank_logs_and_the_loss_is_global(lockstep: Verdicts) -> None:
    """Both ranks log the same loss, and it is the loss of the whole batch in
    one process."""
    assert lockstep["16"] == ""


def test_a_sick_rank_shows_in_its_log(lockstep: Verdicts) -> None:
    """The global loss falls on both; rank 1's own stays at a guess."""
    assert lockstep["sick rank"] == ""


def test_labels_can_be_learned(lockstep: Verdicts) -> None:
    """After 40 steps the trainer's held-out accuracy is far above a guess."""
    assert lockstep["17"] == ""


# Exactly, on a metric that is known


def accuracy_of_lockstep() -> float:
    cfg = TrainConfig(Path(), feature_dropout=0.0)
    x, y = (part.numpy() for part in d06.one_right_of(d06.ODD))
    model = d06.RightOnSampleZero()
    whole = Samples(x, y, cfg)
    with joined(30, ranks.store()) as me:
        trained = DataParallel(), model, torch.optim.SGD([torch.zeros(1)])
        task, scaler = Task(model, whole, whole), make_scaler("fp32", me.device)
        return loop.evaluate(Replica(cfg, me, task, *trained, scaler))[
            "accuracy"
        ]


def accuracy_of_cut() -> float:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rank, world, device = interview.join(
        store=ranks.store(), rank=rank, world_size=world
    )
    r = SimpleNamespace(
        rank=rank, world=world, device=device, ddp=d06.RightOnSampleZero()
    )
    return interview.evaluate(r, *d06.one_right_of(d06.ODD))


@pytest.mark.parametrize("of", [accuracy_of_lockstep, accuracy_of_cut])
def test_metric_counts_every_sample_once(of: Callable[[], float]) -> None:
    """The accuracy of the trainer and of the one-file trainer counts each
    sample of an odd number once, on two ranks."""
    for accuracy in ranks.run_ranks(2, of):
        assert accuracy == pytest.approx(1 / d06.ODD, rel=1e-6)


# The interview cut


@pytest.mark.parametrize("number", CHECKS)
def test_interview_cut_has_no_defect(number: str, cut: Verdicts) -> None:
    """The one-file trainer passes the checks of all seventeen defects. For
    example, its position counts trained samples and not prefetched samples, a
    plain step reads one value back from the device, and after a kill during the
    second save it restores the first."""
    assert cut[number] == ""
