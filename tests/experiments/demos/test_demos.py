"""The probes show what their pages say of them."""

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.api import CheckpointException

from lockstep.experiments.demos import (
    checkpoint_bit_flip,
    checkpoint_interval,
    ddp_vs_fsdp2,
    mean_of_means,
    number_formats,
    reduction_order,
    torn_checkpoint,
    trainer_runs,
    world_size_drift,
)
from lockstep.planner.questions import ask
from lockstep.trainer.extensions.options import Options
from lockstep.trainer.process import joined
from tests import ranks

# A checkpoint that is torn


def failing(folder: str) -> str:
    """`torn.save`, whose rank 1 fails where it would be killed."""

    def fail(*_: Any) -> None:
        raise OSError("killed")

    torn_checkpoint.os.kill = fail  # type: ignore[assignment]
    with joined(30, ranks.store()):
        try:
            torn_checkpoint.save(folder)
        except CheckpointException as error:
            return str(error)
    return ""


def test_a_torn_checkpoint_loads_without_an_error(tmp_path: Path) -> None:
    """Rank 1 dies while step 2 is saved into the folder of step 1. A load then
    returns rank 0's half of step 2 and rank 1's half of step 1."""
    said = ranks.run_ranks(2, failing, str(tmp_path))
    assert all("killed" in text for text in said)  # who saves is told
    assert torn_checkpoint.load(str(tmp_path)).tolist() == [2, 2, 1, 1]


# A bit that is turned


def test_no_reader_finds_a_turned_bit(tmp_path: Path) -> None:
    weights = torch.arange(1.0, 65.0)
    wrong = weights.clone()
    wrong[0] = 0.25
    found = checkpoint_bit_flip.read_back(tmp_path, weights)
    assert [*found] == ["torch.load", "safetensors", "dcp.load"]
    for tensor in found.values():
        assert torch.equal(tensor, wrong)


def test_the_file_itself_has_the_checksum(
    capsys: pytest.CaptureFixture[str],
) -> None:
    checkpoint_bit_flip.main()
    assert capsys.readouterr().out.endswith("bad CRC in w/data/0\n")


# The order of additions


def unlike() -> int:
    with joined(30, ranks.store()):
        return reduction_order.unlike()


@pytest.mark.parametrize(("world", "alike"), [(2, True), (3, False)])
def test_a_sum_over_more_than_two_ranks_depends_on_its_place(
    world: int, alike: bool
) -> None:
    found = ranks.run_ranks(world, unlike)
    assert len(set(found)) == 1
    assert (found[0] == 0) is alike


# Means


def test_a_mean_of_means_is_right_for_equal_shares_alone() -> None:
    """The mean of two ranks' means is the mean of all values if both have
    equally many. If one has more it is another number, and if one has none it
    is NaN."""
    assert mean_of_means.mean_of_means([[1, 2], [3, 10]]) == 4
    assert mean_of_means.mean_of_means([[1, 2, 3], [10]]) == 6
    assert math.isnan(mean_of_means.mean_of_means([[1, 2, 3, 10], []]))


@pytest.mark.parametrize(
    "shares", [[[1, 2], [3, 10]], [[1, 2, 3], [10]], [[1, 2, 3, 10], []]]
)
def test_a_global_mean_is_that_of_one_process(
    shares: list[list[float]],
) -> None:
    assert mean_of_means.global_mean(shares) == 4


# Formats


def test_fp16_loses_small_gradients_and_bf16_small_updates() -> None:
    assert number_formats.held(1e-8, torch.float16) == 0
    assert number_formats.held(1e-8, torch.bfloat16) > 0
    assert number_formats.held(7e4, torch.float16) == math.inf
    assert number_formats.held(1.001, torch.bfloat16) == 1
    scaled = number_formats.held(1e-8 * 65536, torch.float16)
    assert scaled / 65536 == pytest.approx(1e-8, rel=1e-3)


# Losses that drift apart


def test_the_greatest_relative_difference() -> None:
    assert world_size_drift.apart(
        [1.0, 2.0, 3.0], [1.0, 2.5, 3.0]
    ) == pytest.approx(0.2)
    assert world_size_drift.apart([1.0], [1.0]) == 0
    with pytest.raises(ValueError, match="zip"):
        world_size_drift.apart([1.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("difference", "text"),
    [(0.0, "< 1e-6"), (3e-7, "< 1e-6"), (4e-7, "< 1e-5"), (2e-2, "< 1e-1")],
)
def test_a_bound_leaves_room(difference: float, text: str) -> None:
    assert world_size_drift.bound(difference) == text


def test_runs_are_compared_until_two_of_their_steps(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As short runs would be: what differs is the last loss on four ranks."""
    ends = {1: 1.0, 2: 1.0, 4: 1.0000004}
    monkeypatch.setattr(
        world_size_drift, "losses", lambda _, world: [2.0] * 399 + [ends[world]]
    )
    world_size_drift.main()
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["ranks", "1", "2", "4"],
        ["loss", "at", "20", "2.000", "2.000", "2.000"],
        ["apart", "until", "then", *["<", "1e-6"] * 2],
        ["loss", "at", "400", "1.000", "1.000", "1.000"],
        ["apart", "until", "then", "<", "1e-6", "<", "1e-5"],
    ]


def events_of_four_steps(run_dir: str) -> list[dict[str, Any]]:
    settings = world_size_drift.SETTINGS | {"max_steps": 4}
    return trainer_runs.trained(2, Path(run_dir), Options(), **settings)


def test_a_run_leaves_the_loss_of_every_step(tmp_path: Path) -> None:
    (events,) = ranks.run_ranks(1, events_of_four_steps, str(tmp_path))
    steps = [e["step"] for e in events if e["event"] == "step"]
    assert steps == [1, 2, 3, 4]
    assert events[0]["world_size"] == 2


@pytest.mark.parametrize("probe", [mean_of_means, number_formats])
def test_a_probe_speaks(probe: Any, capsys: pytest.CaptureFixture[str]) -> None:
    probe.main()
    assert len(capsys.readouterr().out.splitlines()) >= 3


def both_strategies(folder: str) -> list[str]:
    return [
        ddp_vs_fsdp2.weights(Path(folder, options.strategy), options, 1e6)
        for options in ddp_vs_fsdp2.STRATEGIES
    ]


def test_two_ranks_end_alike_with_both_strategies(tmp_path: Path) -> None:
    """Unclipped: a norm is summed in another order over shards."""
    ((ddp, fsdp2),) = ranks.run_ranks(1, both_strategies, str(tmp_path))
    assert ddp == fsdp2
    assert len(ddp) == 16


# How often to save


def test_more_gpus_fail_more_often_and_save_more_often(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """More GPUs fail more often and save more often, and lose the share of time
    that the planner's goodput leaves. At 16,384 GPUs a restart of 10 minutes
    loses more time than saves and repeated steps together."""
    found = checkpoint_interval.rows(save=1, restart=60)
    assert found[-1][:2] == (16384, pytest.approx(3.09 * 3600, rel=0.01))
    for fewer, more in itertools.pairwise(found):
        assert fewer[1] / more[1] == pytest.approx(more[0] / fewer[0])
        assert fewer[2] > more[2]
        assert fewer[3] < more[3]
    for gpus, mtbf, _, lost in found:
        costs = {"save_seconds": 1, "restart_seconds": 60}
        given = {"gpus": gpus, "gpu_mtbf_hours": mtbf * gpus / 3600, **costs}
        assert lost == pytest.approx(1 - ask("goodput", given)["goodput"].value)
    at_once, assumed = (
        checkpoint_interval.rows(save=7.3, restart=restart)[-1][3]
        for restart in (0, checkpoint_interval.RESTART_SECONDS)
    )
    assert assumed > 2 * at_once
    checkpoint_interval.main()
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 1 + 2 * (2 + len(found))
    waits = [float(line.split()[6]) for line in said if "costs" in line]
    assert waits[0] > waits[1] > 0


def test_what_steps_lose_beside_a_write_is_a_cost_of_the_save() -> None:
    """A write of 6 s beside steps that take 1.5 times as long: 4 s of work."""
    saves = {"slowdown": 1.5, "write": {"median": 6}}
    saves |= {"foreground": {"median": 7}, "background": {"median": 0.5}}
    found = checkpoint_interval.costs(saves)
    assert found == {"foreground": 7, "background": pytest.approx(2.5)}
