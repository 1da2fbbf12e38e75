"""What is seen: defects 11, 15, 16 and 17, and that we lack them."""

import json
import os
import time
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from lockstep.exercises.bugs.probes import (
    count_host_reads_per_step,
)
from lockstep.exercises.silent import d11_unsynchronized_timers as d11
from lockstep.exercises.silent import d15_three_phases_untimed as d15
from lockstep.exercises.silent import d16_rank0_logs_its_own_loss as d16
from lockstep.exercises.silent import d17_random_labels as d17
from lockstep.exercises.silent.toy import CLASSES, small_model, toy
from lockstep.trainer import loop, telemetry
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.data import Samples
from lockstep.trainer.extensions.timers import PhaseTimers
from lockstep.trainer.model import DataParallel, Task, make_task
from lockstep.trainer.order import GlobalOrder
from tests import ranks
from tests.trainer.defects.probes import (
    SMALL,
    Event,
    events,
    group,
    launch_on,
    launch_rank,
    settings_for,
)

# 11: a phase has the time of its own kernels, and one host read is all

Work = Callable[[float], None]  # queue that many units of it on the device
SHARES = {name: seconds / 7 for name, seconds in d11.KERNELS.items()}


def check_phases_hold_their_kernels(
    seconds: dict[str, float], tolerance: float
) -> None:
    """`seconds`: of the phases of `d11.run`."""
    total = sum(seconds.values())
    found = {name: round(s / total, 2) for name, s in seconds.items()}
    assert found == pytest.approx(SHARES, abs=tolerance), f"shares: {found}"


class Gpu(d11.Gpu):
    """One that stands in for the clock and for CUDA."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(torch.cuda, "synchronize", self.synchronize)
        monkeypatch.setattr(torch.cuda, "Event", lambda **_: GpuEvent(self))


class GpuEvent:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu

    def record(self) -> None:
        self.at = max(self.gpu.now, self.gpu.idle_from)

    def elapsed_time(self, end: "GpuEvent") -> float:
        return (end.at - self.at) * 1e3


def seconds_of_lockstep(
    work: Work, read: Callable[[], Any]
) -> dict[str, float]:
    timers = PhaseTimers(torch.device("cuda"), DataParallel())
    telemetry.attach(timers)
    try:
        d11.run(telemetry.phase, work, read)
    finally:
        telemetry.attach()
    return timers.seconds()


def seconds_unsynchronized(
    work: Work, read: Callable[[], Any]
) -> dict[str, float]:
    timers = d11.PhaseTimers()
    d11.run(timers.phase, work, read)
    return timers.seconds


# Launches take 1 ms each here, of 7 s: shares are exact to two digits.
EXACT = 0.005


def test_phases_hold_their_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a simulated device queue, each phase of the trainer takes exactly
    the time of the kernels that it launched."""
    gpu = Gpu(monkeypatch)
    seconds = seconds_of_lockstep(gpu.work, gpu.synchronize)
    check_phases_hold_their_kernels(seconds, EXACT)


def test_unsynchronized_timers_book_it_all_on_the_phase_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = Gpu(monkeypatch)
    seconds = seconds_unsynchronized(gpu.work, gpu.synchronize)
    with pytest.raises(AssertionError, match=r"'optimizer': 1\.0"):
        check_phases_hold_their_kernels(seconds, EXACT)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_phases_hold_their_kernels_on_a_gpu() -> None:
    """The same on real kernels, whose clock rate may drift by some percent
    within a step: hence a tenth of the whole."""
    a = torch.randn(4096, 4096, device="cuda")
    out = torch.empty_like(a)

    def work(units: float) -> None:
        for _ in range(int(20 * units)):
            torch.mm(a, a, out=out)

    def read() -> float:
        return out[0, 0].item()

    work(1)
    read()  # the library is loaded, the clock is up
    check_phases_hold_their_kernels(seconds_of_lockstep(work, read), 0.1)
    with pytest.raises(AssertionError, match="shares"):
        check_phases_hold_their_kernels(seconds_unsynchronized(work, read), 0.1)


def check_one_host_read_per_step(reads: list[int]) -> None:
    assert reads
    assert max(reads) <= 1, f"host reads by step: {reads}"


def reads_of_lockstep(settings: dict[str, Any]) -> list[int]:
    reads = count_host_reads_per_step()
    launch_rank(settings)
    return reads


def reads_with_item() -> list[int]:
    reads = count_host_reads_per_step()
    model, (x, y) = small_model(), toy(64)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(6):
        d11.train_step(model, optimizer, x, y, d11.PhaseTimers())
    return reads


# The first step is a logged one, and what it reads comes after its update:
# steps from the third on are the plain ones.


def test_one_host_read_per_step(tmp_path: Path) -> None:
    """The gradient's norm; however many micro-batches there are."""
    rare = {"log_every_steps": 100, "checkpoint_every_steps": 100}
    split = {"micro_batch_size": 8, "grad_accum_steps": 4}
    settings = settings_for(2, tmp_path, max_steps=6, **rare, **split)
    for reads in ranks.run_ranks(2, reads_of_lockstep, settings):
        assert reads[2:] == [1] * 4  # and the probe does see that one
        check_one_host_read_per_step(reads[2:])


def test_item_at_every_step_reads_for_the_log(tmp_path: Path) -> None:
    reads = ranks.run_ranks(1, reads_with_item)[0]
    with pytest.raises(AssertionError, match=r"step: \[2, 2, 2, 2\]"):
        check_one_host_read_per_step(reads[2:])


# 15: every phase that the text talks about is measured

PHASES = ["load", "h2d", "forward", "backward", "sync", "optimizer"]
PHASES += ["checkpoint"]


def check_all_phases_are_measured(seconds: dict[str, float]) -> None:
    missing = [name for name in PHASES if seconds.get(name, 0) <= 0]
    assert not missing, f"never measured: {', '.join(missing)}"


def seconds_of_three_phases(folder: Path) -> dict[str, float]:
    group()
    return d15.run(folder)


def test_all_phases_are_measured_on_every_rank(tmp_path: Path) -> None:
    """Every rank of the trainer logs the seconds of every phase."""
    often = {"log_every_steps": 1, "checkpoint_every_steps": 2}
    launch_on(2, tmp_path, max_steps=4, **often)
    for rank in range(2):
        seconds: dict[str, float] = {}
        for step in events(tmp_path, rank, 0, "step"):
            seconds |= step.get("phases", {})
        check_all_phases_are_measured(seconds)


def seconds_beside_a_slow_loader(folder: Path) -> dict[str, float]:
    group()
    return d15.run_with_a_slow_loader_on_rank_1(folder)


def test_untimed_phases_put_a_loaders_time_on_another_ranks_steps(
    tmp_path: Path,
) -> None:
    found = ranks.run_ranks(2, seconds_beside_a_slow_loader, tmp_path)
    # `epoch` is among the values: how much of it was in a phase.
    waiting, slow = (sum(s.values()) / s["epoch"] - 1 for s in found)
    assert slow < 0.5 < waiting
    assert found[0]["backward"] > found[0]["optimizer"]


def test_three_phases_untimed_are_the_ones_that_wait(tmp_path: Path) -> None:
    found = ranks.run_ranks(2, seconds_of_three_phases, tmp_path)
    with pytest.raises(AssertionError, match="load, sync, checkpoint"):
        check_all_phases_are_measured(found[0])


# 16: every rank logs, and the loss is that of the global batch


def check_every_rank_logs(losses: list[list[float]]) -> None:
    """`losses`: of each rank, what it logged, step by step."""
    silent = [rank for rank, logged in enumerate(losses) if not logged]
    assert not silent, f"nothing from ranks {silent}"
    assert len({len(logged) for logged in losses}) == 1


def check_the_loss_is_global(losses: list[list[float]], truth: float) -> None:
    """`truth`: of the first step, over the batch as one process sees it."""
    for rank, logged in enumerate(losses):
        if logged:  # float32, summed in another order
            said = f"rank {rank} logs {logged[0]:.4f}, it is {truth:.4f}"
            assert logged[0] == pytest.approx(truth, rel=1e-5), said


def losses_of_own_shards(folder: Path) -> None:
    group()
    d16.run(folder, *toy())


def test_every_rank_logs_and_the_loss_is_global(tmp_path: Path) -> None:
    """Both ranks log the same loss, and it is the loss of the whole batch in
    one process."""
    plain = {"dropout": 0.0, "feature_dropout": 0.0}  # so the truth is known
    launch_on(2, tmp_path, max_steps=3, log_every_steps=1, **plain)

    def logged(rank: int) -> list[Event]:
        return events(tmp_path, rank, 0, "step")

    losses = [[event["loss"] for event in logged(rank)] for rank in range(2)]
    cfg = TrainConfig(tmp_path, **{**SMALL, **plain})
    with torch.random.fork_rng(devices=[]):
        model, data, *_ = make_task(cfg)
    ids = GlobalOrder(len(data), cfg.seed)(
        np.arange(SMALL["global_batch_size"])
    )
    truth = F.cross_entropy(model(data.x[ids]), data.y[ids]).item()
    assert len(losses[0]) == 3
    check_every_rank_logs(losses)
    check_the_loss_is_global(losses, truth)


def test_rank_0_that_logs_alone_hides_the_others_and_the_loss(
    tmp_path: Path,
) -> None:
    ranks.run_ranks(2, losses_of_own_shards, tmp_path)
    losses: list[list[float]] = [[], []]
    for path in tmp_path.glob("*.jsonl"):
        lines = path.read_text().splitlines()
        losses[int(path.stem)] = [json.loads(line)["loss"] for line in lines]
    x, y = toy()
    with torch.random.fork_rng(devices=[]):
        truth = F.cross_entropy(small_model()(x[:64]), y[:64]).item()
    with pytest.raises(AssertionError, match=r"nothing from ranks \[1\]"):
        check_every_rank_logs(losses)
    with pytest.raises(AssertionError, match="rank 0 logs"):
        check_the_loss_is_global(losses, truth)


def launch_with_a_sick_rank(settings: dict[str, Any]) -> None:
    """Rank 1 reads zeros where its features should be."""
    read = Samples.__getitem__

    def zeros(self: Samples, index: np.ndarray) -> Any:
        ids, x, y = read(self, index)
        return ids, x * 0, y

    if os.environ["RANK"] == "1":
        Samples.__getitem__ = zeros  # type: ignore[method-assign]
    launch_rank(settings)


def test_a_sick_rank_shows_in_its_log(tmp_path: Path) -> None:
    """The global loss falls on both; rank 1's own stays at a guess."""
    settings = settings_for(2, tmp_path, max_steps=64)
    ranks.run_ranks(2, launch_with_a_sick_rank, settings)
    last = [events(tmp_path, rank, 0, "step")[-1] for rank in range(2)]
    chance = log(CLASSES)
    assert last[0]["loss"] == last[1]["loss"] < 0.95 * chance
    assert last[0]["share_loss"] < 0.85 * chance
    assert last[1]["share_loss"] > 0.95 * chance


# 17: there is something to learn, so a trainer that is wrong shows


def check_labels_can_be_learned(loss: float, classes: int) -> None:
    """`loss`: held-out cross-entropy in nats, of the trained model. A guess
    has log(classes); half of that is far from it, and easily reached."""
    chance = log(classes)
    assert loss < chance / 2, f"loss {loss:.2f}, a guess has {chance:.2f}"


def held_out_loss(settings: dict[str, Any], random: bool) -> float:
    """Of the model that our trainer made, on our labels or on the copy's."""
    cfg = TrainConfig(**settings).for_launch(1, {})
    if random:
        copy = d17.ToyClassification()
        whole = next(iter(DataLoader(copy, len(copy))))
        x, y = (part.numpy() for part in whole)
        task = Task(
            make_task(cfg).model,
            Samples(x[:4000], y[:4000], cfg),
            Samples(x[4000:], y[4000:], cfg),
        )
        loop.make_task = lambda cfg: task
    strategy = DataParallel()
    me = group()
    loop.run(cfg, me, strategy=strategy)
    held_out = loop.make_task(cfg).held_out
    with torch.no_grad():
        logits = strategy.module.eval()(held_out.x)
    return F.cross_entropy(logits, held_out.y).item()


@pytest.mark.parametrize(("dataset", "classes"), [("toy", 4), ("digits", 10)])
def test_labels_can_be_learned(
    dataset: str, classes: int, tmp_path: Path
) -> None:
    """After 150 steps the held-out loss is clearly below that of guessing, for
    each data set."""
    settings = settings_for(1, tmp_path, dataset=dataset, max_steps=150)
    loss = ranks.run_ranks(1, held_out_loss, settings, False)[0]
    check_labels_can_be_learned(loss, classes)


def test_random_labels_cannot_be_learned(tmp_path: Path) -> None:
    """The right trainer does no better than a guess."""
    settings = settings_for(1, tmp_path, max_steps=150)
    loss = ranks.run_ranks(1, held_out_loss, settings, True)[0]
    assert loss > log(CLASSES)
    with pytest.raises(AssertionError, match=r"a guess has 1\.39"):
        check_labels_can_be_learned(loss, CLASSES)
