"""The interview cut under the check of each of the seventeen defects.

The checks are those that Lockstep's trainer passes and the faulty copies fail;
only how the cut is brought under each of them is here.
"""

from __future__ import annotations

import os
import time
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from lockstep import interview
from lockstep.exercises.bugs.probes import (
    count_host_reads_per_step,
    count_samples_per_step,
    see_dropout_masks,
    see_output_dtypes,
)
from lockstep.exercises.silent import d06_sampler_pads as d06
from lockstep.exercises.silent import d10_save_onto_the_final_name as d10
from lockstep.exercises.silent import d11_unsynchronized_timers as d11
from lockstep.exercises.silent.toy import CLASSES
from tests import cut, ranks
from tests.trainer.defects import test_checkpoint_defects as checkpoints
from tests.trainer.defects import test_order_defects as order
from tests.trainer.defects import test_setup_defects as setup
from tests.trainer.defects import test_step_defects as steps
from tests.trainer.defects import test_telemetry_defects as telemetry
from tests.trainer.defects.probes import (
    events,
    stream,
)


def test_01_every_epoch_trains_on_every_sample(tmp_path: Path) -> None:
    """The one-file trainer trains on every sample in each of three epochs."""
    cut.launch(2, tmp_path, max_steps=188)  # of 64: three epochs, and a bit
    ids = torch.tensor(stream(tmp_path, 2, attempt=0))
    epochs = [[epoch] for epoch in ids.split(cut.SAMPLES)][:3]
    order.check_every_epoch_trains_on_every_sample(epochs, cut.SAMPLES)


def test_02_progress_ignores_prefetch(tmp_path: Path) -> None:
    """The one-file trainer's position counts what was trained on, not what its
    workers have read ahead."""
    same = {"max_steps": 63, "num_workers": 2}
    last = cut.launch(2, tmp_path, stop_at_step=5, **same)[0]
    cut.launch(2, tmp_path, **same)
    trained = stream(tmp_path, 2, attempt=0)
    rest = stream(tmp_path, 2, attempt=1)[: cut.SAMPLES - len(trained)]
    assert len(trained) == 5 * cut.BATCH
    order.check_progress_ignores_prefetch(
        trained, last["position"], rest, cut.SAMPLES
    )


def drawn_around_a_restore(cfg: interview.TrainConfig) -> list[Any]:
    """What torch draws after each save, and again once that is restored. The
    cut says that it leaves out Python's generator and NumPy's."""
    save, found = interview.save, []

    def save_and_restore(r: Any, state: Any) -> None:
        save(r, state)
        expected = torch.rand(()).item()
        interview.restore(r)
        found.append(((0, 0, expected), (0, 0, torch.rand(()).item())))

    interview.save = save_and_restore
    cut.train(cfg)
    return found


def test_03_checkpoint_restores_with_weights_only(tmp_path: Path) -> None:
    cfg = cut.config(2, tmp_path, max_steps=2)
    for found in chain(*ranks.run_ranks(2, drawn_around_a_restore, cfg)):
        checkpoints.check_checkpoint_restores_with_weights_only(*found)


def test_04_identity_is_equal_in_every_process() -> None:
    setup.check_digest_is_equal_in_every_process(
        "lockstep.interview", "TrainConfig(Path('run'), seed=3).identity()"
    )


def identity() -> str:
    return str(interview.TrainConfig().identity())


def test_05_identity_is_equal_on_every_rank() -> None:
    setup.check_digest_is_equal_on_every_rank(identity)


def test_06_no_sample_twice_without_padding() -> None:
    """Batches of two straddle the end of an epoch of 1,001: the last sample
    that rank 1 would train on belongs to the epoch after it."""
    cfg = interview.TrainConfig(
        global_batch_size=2, micro_batch_size=1, max_steps=501
    )
    shares = [
        [i for ids in interview.sampler(cfg, rank, 2, d06.ODD, 0) for i in ids]
        for rank in range(2)
    ]
    order.check_no_sample_twice_without_padding(
        [shares[0], shares[1][:-1]], d06.ODD
    )


def accuracy_of_the_cut() -> float:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rank, world, device = interview.join(
        store=ranks.store(), rank=rank, world_size=world
    )
    r = SimpleNamespace(
        rank=rank, world=world, device=device, ddp=d06.RightOnSampleZero()
    )
    return interview.evaluate(r, *d06.one_right_of(d06.ODD))


def test_06_metric_counts_every_sample_once() -> None:
    """The one-file trainer's accuracy counts each sample of an odd number once,
    on two ranks."""
    for accuracy in ranks.run_ranks(2, accuracy_of_the_cut):
        order.check_metric_counts_every_sample_once(accuracy, 1, d06.ODD)


def seen_by(probe: Any, cfg: interview.TrainConfig) -> Any:
    seen = probe()
    cut.train(cfg)
    return seen


def test_07_accumulation_trains_the_stated_batch(tmp_path: Path) -> None:
    cfg = cut.config(2, tmp_path, micro_batch_size=8, max_steps=5)
    mine, other = ranks.run_ranks(2, seen_by, count_samples_per_step, cfg)
    trained = [a + b for a, b in zip(mine, other, strict=True)]
    assert len(trained) == 5
    steps.check_accumulation_trains_the_stated_batch(
        cfg.global_batch_size, trained
    )


def test_08_fp32_means_fp32(tmp_path: Path) -> None:
    cfg = cut.config(1, tmp_path, max_steps=2)
    steps.check_fp32_means_fp32(
        ranks.run_ranks(1, seen_by, see_output_dtypes, cfg)[0]
    )


def test_09_ranks_draw_and_resume_with_their_own_dropout(
    tmp_path: Path,
) -> None:
    def masks(run_dir: str, **settings: Any) -> list[Any]:
        cfg = cut.config(2, tmp_path / run_dir, max_steps=8, **settings)
        return ranks.run_ranks(2, seen_by, see_dropout_masks, cfg)

    whole = masks("whole")
    steps.check_ranks_draw_different_dropout(whole)
    masks("stopped", stop_at_step=4)
    resumed = masks("stopped")
    # Of the pass that DDP's buckets cost, no mask is drawn: it is no training.
    assert len(resumed[0]) == 4 * 2
    steps.check_ranks_resume_with_their_own(whole, resumed)


LIMIT = 16 * 1024  # bytes: less than the cut's weights and what Adam keeps


def die_in_the_second_save(cfg: interview.TrainConfig) -> None:
    save, saves = interview.save, []

    def dying(r: Any, state: Any) -> None:
        if saves:
            d10.die_mid_write(LIMIT)
        saves.append(save(r, state))

    interview.save = dying
    cut.train(cfg)


def test_10_a_kill_mid_write_leaves_no_checkpoint_that_latest_picks(
    tmp_path: Path,
) -> None:
    """Killed in its second save, the one-file trainer restores the first."""
    cfg = cut.config(1, tmp_path, max_steps=12, checkpoint_every_steps=5)
    checkpoints.died_mid_write(
        tmp_path, die_in_the_second_save, cfg, limit=LIMIT
    )

    def restore_latest() -> int:
        ranks.run_ranks(1, cut.train, cfg)
        return int(events(tmp_path, 0, 1, "checkpoint_restored")[0]["step"])

    checkpoints.check_a_kill_mid_write_leaves_no_checkpoint_that_latest_picks(
        restore_latest, last_good=5
    )


def log_on_a_gpu(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[interview.Log, telemetry.Gpu]:
    for part in ("events", "samples"):
        (run_dir / part).mkdir()
    gpu = telemetry.Gpu(monkeypatch)
    return interview.Log(run_dir, 0, 0, gpu=True), gpu


def test_11_phases_hold_their_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, gpu = log_on_a_gpu(tmp_path, monkeypatch)
    log.timing = True
    d11.run(log.phase, gpu.work, gpu.synchronize)
    telemetry.check_phases_hold_their_kernels(log.seconds, telemetry.EXACT)


def test_11_one_host_read_per_step(tmp_path: Path) -> None:
    """A plain step of the one-file trainer reads one value back from the
    device."""
    rare = {"log_every_steps": 100, "checkpoint_every_steps": 100}
    cfg = cut.config(2, tmp_path, max_steps=6, **rare)
    for reads in ranks.run_ranks(2, seen_by, count_host_reads_per_step, cfg):
        assert reads[1:] == [1] * 5  # the first is after all that comes before
        telemetry.check_one_host_read_per_step(reads[1:])


def test_11_a_plain_step_never_waits_for_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, gpu = log_on_a_gpu(tmp_path, monkeypatch)
    d11.run(log.phase, gpu.work, lambda: None)
    assert time.perf_counter() < 0.01  # three launches of 1 ms, no kernel


def join_as_the_cut() -> float:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    interview.join(store=ranks.store(), rank=rank, world_size=world)
    return setup.ranks_counted()


@pytest.mark.skipif(
    torch.cuda.device_count() == 1, reason="two ranks need two GPUs, or none"
)
def test_12_default_backend_runs_here() -> None:
    setup.check_default_backend_runs_here(join_as_the_cut)


def refusal(cfg: interview.TrainConfig) -> str | None:
    try:
        cut.train(cfg)
    except SystemExit as stop:
        return str(stop.code)
    return None


def test_13_incompatible_checkpoint_is_refused(tmp_path: Path) -> None:
    ranks.run_ranks(1, cut.train, cut.config(1, tmp_path, stop_at_step=4))
    checkpoints.check_incompatible_checkpoint_is_refused(
        {
            name: ranks.run_ranks(
                1, refusal, cut.config(1, tmp_path, **{name: value})
            )[0]
            for name, value in checkpoints.CHANGES.items()
        }
    )


def train_with_a_late_listing(cfg: interview.TrainConfig) -> None:
    checkpoints.rank_1_lists_late(newest=8)
    cut.train(cfg)


def test_14_all_ranks_restore_the_same_step(tmp_path: Path) -> None:
    """When one rank lists the checkpoints late, both ranks of the one-file
    trainer restore the same step."""
    same = {"max_steps": 12, "checkpoint_every_steps": 4}
    cut.launch(2, tmp_path, stop_at_step=8, **same)
    cfg = cut.config(2, tmp_path, **same)
    ranks.run_ranks(2, train_with_a_late_listing, cfg)
    restored = [
        events(tmp_path, rank, 1, "checkpoint_restored")[0]["step"]
        for rank in range(2)
    ]
    assert restored[0] == 8
    checkpoints.check_all_ranks_restore_the_same_step(restored)


def test_15_all_phases_are_measured_on_every_rank(tmp_path: Path) -> None:
    often = {"log_every_steps": 1, "checkpoint_every_steps": 2}
    cut.launch(2, tmp_path, max_steps=4, **often)
    for rank in range(2):
        seconds: dict[str, float] = {}
        for step in events(tmp_path, rank, 0, "step"):
            seconds |= step["phases"]
        telemetry.check_all_phases_are_measured(seconds)


def test_16_every_rank_logs_and_the_loss_is_global(tmp_path: Path) -> None:
    plain = {"dropout": 0.0, "log_every_steps": 1, "max_steps": 3}
    cut.launch(2, tmp_path, **plain)
    losses = [
        [event["loss"] for event in events(tmp_path, rank, 0, "step")]
        for rank in range(2)
    ]
    cfg = cut.config(1, tmp_path, micro_batch_size=cut.BATCH, **plain)
    ids = next(interview.sampler(cfg, 0, 1, cut.SAMPLES, 0))
    _, x, y = interview.toy()[0][ids]
    with torch.random.fork_rng(devices=[]):
        model, _ = interview.build(cfg)
    assert len(losses[0]) == 3
    telemetry.check_every_rank_logs(losses)
    telemetry.check_the_loss_is_global(
        losses, F.cross_entropy(model(x), y).item()
    )


def held_out_loss(cfg: interview.TrainConfig) -> float:
    evaluate, found = interview.evaluate, []

    def seen(r: Any, x: torch.Tensor, y: torch.Tensor) -> float:
        right = evaluate(r, x, y)
        with torch.no_grad():
            found.append(F.cross_entropy(r.ddp(x), y).item())
        return right

    interview.evaluate = seen
    cut.train(cfg)
    return found[0]


def test_17_labels_can_be_learned(tmp_path: Path) -> None:
    cfg = cut.config(1, tmp_path, max_steps=150)
    loss = ranks.run_ranks(1, held_out_loss, cfg)[0]
    telemetry.check_labels_can_be_learned(loss, CLASSES)
