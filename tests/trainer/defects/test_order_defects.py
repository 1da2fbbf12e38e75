"""Which samples are trained on: defects 1, 2 and 6, and that we lack them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from lockstep.exercises.silent import d01_counter_is_never_reset as d01
from lockstep.exercises.silent import d02_progress_counts_draws as d02
from lockstep.exercises.silent import d06_sampler_pads as d06
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.data import Samples
from lockstep.trainer.extensions.sampler import (
    ResumeAwareDistributedSampler,
)
from lockstep.trainer.loop import evaluate
from lockstep.trainer.model import DataParallel, Task
from lockstep.trainer.precision import make_scaler
from lockstep.trainer.step import Replica
from tests import ranks
from tests.trainer.defects.probes import SAMPLES, group, launch_on, stream

MakeSampler = Callable[[Any], Any]  # from a data set
ALONE: dict[str, Any] = {"num_replicas": 1, "rank": 0}
N = 20_000  # 1,250 batches of 16


def commit_to(sampler: Any) -> Callable[[int], None]:
    """How a loop tells `sampler` of a finished step; the copies count by
    themselves."""
    return getattr(sampler, "commit", lambda samples: None)


# 1: every epoch trains on every sample


def check_every_epoch_trains_on_every_sample(
    epochs: list[list[Tensor]], n: int
) -> None:
    """`epochs`: of each, the batches of sample ids that were trained on."""
    batches = [len(epoch) for epoch in epochs]
    for epoch in epochs:
        ids = torch.cat(epoch).tolist() if epoch else []
        assert sorted(ids) == list(range(n)), f"batches by epoch: {batches}"


def three_epochs(make: MakeSampler) -> list[list[Tensor]]:
    """The plainest training loop, over a loader with `make`'s sampler."""
    sampler = make(range(N))
    commit = commit_to(sampler)
    epochs: list[list[Tensor]] = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        epochs.append([])
        for batch in DataLoader(cast(Dataset, range(N)), 16, sampler=sampler):
            epochs[-1].append(batch)
            commit(len(batch))
    return epochs


def test_every_epoch_trains_on_every_sample_with_the_drop_in() -> None:
    epochs = three_epochs(partial(ResumeAwareDistributedSampler, **ALONE))
    check_every_epoch_trains_on_every_sample(epochs, N)


def test_every_epoch_trains_on_every_sample_in_the_trainer(
    tmp_path: Path,
) -> None:
    """The trainer trains on every sample in each of three epochs."""
    launch_on(2, tmp_path, max_epochs=3)
    ids = torch.tensor(stream(tmp_path, 2, attempt=0))
    epochs = [[epoch] for epoch in ids.split(SAMPLES)]
    assert len(epochs) == 3
    check_every_epoch_trains_on_every_sample(epochs, SAMPLES)


def test_counter_that_is_never_reset_empties_later_epochs() -> None:
    epochs = three_epochs(partial(d01.ResumableSampler, **ALONE))
    with pytest.raises(AssertionError, match=r"by epoch: \[1250, 0, 0\]"):
        check_every_epoch_trains_on_every_sample(epochs, N)


def test_counter_that_is_never_reset_is_restored_as_it_is() -> None:
    data = cast(Dataset, range(20))
    first, second = (d01.ResumableSampler(data, **ALONE) for _ in range(2))
    assert len([*first]) == 20
    second.load_state_dict(first.state_dict())
    assert len(second) == 0


# 2: progress is what was trained on, whatever workers have fetched


def check_progress_ignores_prefetch(
    trained: list[int], progress: int, rest: list[int], n: int
) -> None:
    """`rest` is what a run that goes on from `progress` trains on."""
    skipped = n - len({*trained, *rest})
    said = f"{progress} recorded, {len(trained)} trained, {skipped} skipped"
    assert progress == len(trained), said
    assert sorted(trained + rest) == list(range(n)), said


def interrupted(
    make: MakeSampler, steps: int = 200
) -> tuple[list[int], int, list[int]]:
    """`steps` of 16 with two workers, each two batches ahead; then the rest
    of the epoch, from the sampler's state."""
    sampler = make(range(N))
    commit, trained = commit_to(sampler), []
    loader = DataLoader(
        cast(Dataset, range(N)),
        batch_size=16,
        sampler=sampler,
        num_workers=2,
        prefetch_factor=2,
    )
    for batch in islice(loader, steps):
        trained += batch.tolist()
        commit(len(batch))
    state = sampler.state_dict()
    again = make(range(N))
    again.load_state_dict(state)
    return trained, state["consumed"], list(again)


def test_progress_ignores_prefetch_with_the_drop_in() -> None:
    make = partial(ResumeAwareDistributedSampler, **ALONE)
    trained, progress, rest = ranks.run_ranks(1, interrupted, make)[0]
    check_progress_ignores_prefetch(trained, progress, rest, N)


def test_progress_ignores_prefetch_in_the_trainer(tmp_path: Path) -> None:
    """Stopped after five steps with workers that read ahead, the trainer
    resumes at the sample after the last one it trained on."""
    same: dict[str, Any] = {"max_epochs": 1, "num_workers": 2}
    progress = launch_on(2, tmp_path, stop_at_step=5, **same)[0]["position"]
    launch_on(2, tmp_path, **same)
    trained = stream(tmp_path, 2, attempt=0)
    rest = stream(tmp_path, 2, attempt=1)
    assert len(trained) == 5 * 64
    check_progress_ignores_prefetch(trained, progress, rest, SAMPLES)


def test_progress_that_counts_draws_skips_what_was_prefetched() -> None:
    """Two workers that each hold two batches of 16 ahead are 64 samples ahead.
    A counter behind its `yield` has recorded 63 of them, and a resume skips
    those."""
    make = partial(d02.ResumableSampler, **ALONE)
    trained, progress, rest = ranks.run_ranks(1, interrupted, make)[0]
    seen = "3263 recorded, 3200 trained, 63 skipped"
    with pytest.raises(AssertionError, match=seen):
        check_progress_ignores_prefetch(trained, progress, rest, N)


def test_a_reset_by_draws_comes_before_the_last_step() -> None:
    """After 1,249 of 1,250 steps, the epoch would be trained again."""
    make = partial(d02.ResumableSampler, **ALONE)
    trained, progress, rest = ranks.run_ranks(1, interrupted, make, 1249)[0]
    assert (len(trained), progress, len(rest)) == (N - 16, 0, N)
    ours = partial(ResumeAwareDistributedSampler, **ALONE)
    trained, progress, rest = ranks.run_ranks(1, interrupted, ours, 1249)[0]
    check_progress_ignores_prefetch(trained, progress, rest, N)


# 6: nothing is padded, in training or in evaluation


def check_no_sample_twice_without_padding(
    shares: list[list[int]], n: int
) -> None:
    """`shares`: of each rank, the sample ids of an epoch."""
    ids = [i for share in shares for i in share]
    twice = len(ids) - len(set(ids))
    assert not twice, f"{twice} twice, shares of {[len(s) for s in shares]}"
    assert sorted(ids) == list(range(n))


def check_metric_counts_every_sample_once(
    accuracy: float, right: int, n: int
) -> None:
    """`right` of `n` answers were right."""
    # Exact, but for the rounding of a float32.
    said = f"{accuracy * n:.3f} counted as right"
    assert accuracy == pytest.approx(right / n, rel=1e-6), said


def test_no_sample_twice_without_padding() -> None:
    """`ResumeAwareDistributedSampler` gives two ranks shares of an odd number
    of samples with none twice."""
    data = cast(Dataset, range(d06.ODD))
    shares = [
        list(ResumeAwareDistributedSampler(data, 2, rank)) for rank in range(2)
    ]
    check_no_sample_twice_without_padding(shares, d06.ODD)


def test_padding_trains_on_a_sample_twice() -> None:
    data = cast(Dataset, range(d06.ODD))
    shares = [list(d06.make_sampler(data, 2, rank)) for rank in range(2)]
    with pytest.raises(
        AssertionError, match=r"1 twice, shares of \[501, 501\]"
    ):
        check_no_sample_twice_without_padding(shares, d06.ODD)


def accuracy_of_lockstep() -> float:
    cfg = TrainConfig(Path())
    x, y = (part.numpy() for part in d06.one_right_of(d06.ODD))
    me = group()
    scaler = make_scaler("fp32", me.device)
    optimizer = torch.optim.SGD([torch.zeros(1)])
    model = d06.RightOnSampleZero()
    whole = Samples(x, y.astype(np.int64), replace(cfg, feature_dropout=0.0))
    task = Task(model, whole, whole)
    replica = Replica(cfg, me, task, DataParallel(), model, optimizer, scaler)
    return evaluate(replica)["accuracy"]


def accuracy_with_padding() -> float:
    group()
    return d06.accuracy()


def test_metric_counts_every_sample_once() -> None:
    """The trainer's accuracy counts each sample of an odd number once, on two
    ranks."""
    for accuracy in ranks.run_ranks(2, accuracy_of_lockstep):
        check_metric_counts_every_sample_once(accuracy, 1, d06.ODD)


def test_padding_in_evaluation_makes_a_wrong_metric() -> None:
    """One right answer of 1,001 becomes two of 1,002."""
    accuracy = ranks.run_ranks(2, accuracy_with_padding)[0]
    assert accuracy == pytest.approx(2 / 1002, rel=1e-6)
    with pytest.raises(AssertionError, match=r"1\.998 counted as right"):
        check_metric_counts_every_sample_once(accuracy, 1, d06.ODD)
