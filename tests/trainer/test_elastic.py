"""Another number of ranks at each launch: the same samples, the same batch."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist

from lockstep.trainer.config import ConfigError
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.sample_record import read_samples
from tests import ranks
from tests.jobs import (
    PATIENCE,
    events,
    kill,
    only,
    rank_process,
    running,
    saved,
    train,
    until,
    warm_torchrun,
    work,
)

# 2 x 1,437 samples in batches of 64: an epoch ends within step 23, the run with
# a short batch, of 58. Dropout masks are a rank's own; without them all that
# another world size may change is the order of additions.
SAME: dict[str, Any] = {
    "global_batch_size": 64,
    "micro_batch_size": 16,
    "max_epochs": 2,
    "log_every_steps": 1,
    "hidden_size": 32,
    "dropout": 0.0,
    "timeout_seconds": 30.0,
}
WORLDS = {4: 11, 2: 23, 1: 34}  # ranks, and the step they stop at


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on four ranks that nothing disturbed."""
    run_dir = tmp_path_factory.mktemp("whole")
    train(4, run_dir=run_dir, **SAME)
    return run_dir


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run on 4, 2, 1 and 4 ranks in turn."""
    run_dir = tmp_path_factory.mktemp("changed")
    for world, stop in WORLDS.items():
        train(world, run_dir=run_dir, stop_at_step=stop, **SAME)
    train(4, run_dir=run_dir, **SAME)
    return run_dir


def attempts(run_dir: Path) -> range:
    return range(len(list(run_dir.glob("events/attempt-*-rank-0.jsonl"))))


def global_batches(run_dir: Path) -> dict[int, list[int]]:
    """The sample ids of each step, in the global order: rank r of w wrote down
    every w-th of them, from the r-th."""
    batches = {}
    for attempt in attempts(run_dir):
        (started,) = only("run_started", run_dir, attempt)
        world = started["world_size"]
        shares = [
            read_samples(run_dir / f"samples/attempt-{attempt}-rank-{rank}.bin")
            for rank in range(world)
        ]
        for parts in zip(*shares, strict=True):
            ids = np.empty(sum(len(part.ids) for part in parts), np.int64)
            for rank, part in enumerate(parts):
                ids[rank::world] = part.ids
            assert parts[0].step not in batches
            batches[parts[0].step] = ids.tolist()
    return batches


def steps(run_dir: Path) -> Iterator[dict[str, Any]]:
    for attempt in attempts(run_dir):
        yield from only("step", run_dir, attempt)


def test_the_global_order_is_the_same(whole: Path, changed: Path) -> None:
    """Step by step, across an epoch's end, and to the short last batch."""
    report = audit(changed)
    assert report.proven
    assert (report.restarts, report.epochs, report.finished) == (3, 2, True)
    batches = global_batches(changed)
    assert batches == global_batches(whole)
    assert [len(batches[step]) for step in (1, 44, 45)] == [64, 64, 58]


def test_the_loss_is_the_same_up_to_rounding(
    whole: Path, changed: Path
) -> None:
    """Sums in fp32 of the same 64 gradients in a different order differ in the
    last bits, some 1e-7 of the whole, which a few steps may multiply."""
    pairs = list(zip(steps(whole), steps(changed), strict=True))
    assert [now["step"] for _, now in pairs] == list(range(1, 46))
    for was, now in pairs:
        assert now["loss"] == pytest.approx(was["loss"], rel=1e-5)
        assert now["learning_rate"] == was["learning_rate"]


def test_other_ranks_derive_their_random_state(changed: Path) -> None:
    """From (seed, rank, step), and each says so: a saved state fits one rank
    of as many."""
    worlds = [*WORLDS, 4]
    assert not only("random_state_derived", changed, 0)
    for attempt, stop in enumerate(WORLDS.values(), 1):
        for rank in range(worlds[attempt]):
            (said,) = only("random_state_derived", changed, attempt, rank)
            assert said["key"] == [0, rank, stop]
            assert said["saved"] == worlds[attempt - 1]


def refusal(settings: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as refused:
        work(settings)
    return str(refused.value)


def test_a_batch_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    """Every rank refuses a launch whose ranks can't make up the batch, and
    names settings that keep it; a launch with those settings resumes."""
    run = SAME | {"run_dir": tmp_path}
    train(2, stop_at_step=3, **run)
    other = run | {"micro_batch_size": 24}
    for world, settings in ((3, run), (4, other)):
        said = ranks.run_ranks(world, refusal, settings)
        assert said == said[:1] * world
        assert "is not the run's global batch of 64" in said[0]
        kept = said[0].partition("to keep it: ")[2]
        if world == 3:
            assert kept == "a number of ranks that divides 64"
    named = shlex.split(kept)
    assert named == ["--micro-batch-size", "16", "--grad-accum-steps", "1"]
    again = other | {"micro_batch_size": 16, "grad_accum_steps": 1}
    assert train(4, stop_at_step=6, **again)["step"] == 6
    assert audit(tmp_path).proven


# A rank's death is noticed by its neighbor's failed collective at once; what
# takes time is that the agents agree on who is left. A dead agent counts as
# there until five of its heartbeats are missing (by default 15 s), and while
# there is room the others wait for late comers (30 s).
AGREE = "keep_alive_interval=1,keep_alive_max_attempt=5,last_call_timeout=5"


def agent(port: int, run_dir: Path) -> list[str]:
    """One node's torchrun, of one rank; a store at `port` is the meeting
    place."""
    return [
        *warm_torchrun(
            *("--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=3"),
            *("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}"),
            *("--rdzv-id=elastic", f"--rdzv-conf=is_host=false,{AGREE}"),
        ),
        *("--run-dir", str(run_dir), "--max-steps", "300"),
        *("--global-batch-size", "64", "--checkpoint-every-steps", "20"),
    ]


@pytest.mark.weekly
@pytest.mark.timeout(4 * PATIENCE)
def test_a_job_goes_on_when_one_of_two_nodes_is_gone(
    tmp_path: Path,
) -> None:
    """The one that rank 0 was on: the other takes its place, and does the work
    of both."""
    server = dist.TCPStore("127.0.0.1", 0, is_master=True)  # ends with us
    command = agent(server.port, tmp_path)
    with running(command) as first, running(command) as second:
        until(lambda: saved(tmp_path), "a checkpoint")
        lost, left = first, second
        if rank_process(first, 0) is None:
            lost, left = second, first
        kill([*lost.children(recursive=True), lost])
        assert left.wait(2 * PATIENCE) == 0
    worlds = [
        only("run_started", tmp_path, attempt)[0]["world_size"]
        for attempt in attempts(tmp_path)
    ]
    assert worlds == [2, 1]
    assert events(tmp_path, 1)[-1]["event"] == "run_finished"
    shares = read_samples(tmp_path / "samples/attempt-1-rank-0.bin")
    assert {len(share.ids) for share in shares} == {64}
    assert audit(tmp_path).proven
