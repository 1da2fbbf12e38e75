"""What the pages of the foundations show: seams, groups, orders of samples."""

import math
from collections import Counter
from contextlib import redirect_stdout
from datetime import timedelta
from importlib import import_module
from io import StringIO
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.utils.data import DistributedSampler

from lockstep.experiments.demos import (
    data_mixtures,
    data_streams,
    device_meshes,
    process_groups,
    sampler_sharding,
    trainer_observer,
    whoami,
)
from lockstep.trainer.order import GlobalOrder
from lockstep.trainer.process import joined
from tests import ranks


def in_a_group(work: Any, *args: Any) -> Any:
    with joined(60, ranks.store()):
        return work(*args)


def spoken(name: str) -> list[str]:
    with redirect_stdout(StringIO()) as out:
        import_module(name).main()
    return out.getvalue().splitlines()


# The seams of the trainer


def diary(folder: str) -> list[str]:
    return trainer_observer.one_step(ranks.store(), folder)


def test_an_observer_is_told_each_phase_and_event(tmp_path: Path) -> None:
    """An observer of a short run is told every phase and event in order, from
    the start to the end."""
    (told,) = ranks.run_ranks(1, diary, str(tmp_path))
    step = ["load", "h2d", "forward", "backward"] * 2 + ["optimizer"]
    assert told == [
        "[run_started]",
        *step,
        "[committed 64 ids]",
        "[step]",
        "checkpoint",
        "[checkpoint_saved]",
        "[run_finished]",
    ]


# Names


def test_a_rank_says_what_its_launcher_told_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for i, name in enumerate(whoami.NAMES):
        monkeypatch.setenv(name, str(i))
    whoami.main()
    assert capsys.readouterr().out.startswith("RANK=0 LOCAL_RANK=1 GROUP_RANK")


# Meshes


@pytest.fixture(scope="module")
def eight() -> list[dict[str, device_meshes.Groups]]:
    return ranks.run_ranks(
        device_meshes.RANKS, in_a_group, device_meshes.of_all
    )


def test_the_last_axis_of_a_mesh_varies_fastest(
    eight: list[dict[str, device_meshes.Groups]],
) -> None:
    """In a device mesh the last axis varies fastest: its groups are of
    neighboring ranks, in each order of three axes."""
    whole = np.arange(8).reshape(2, 2, 2)
    for order in device_meshes.ORDERS:
        found = [orders[order] for orders in eight]
        for dim, axis in enumerate(order.split()):
            lines = np.moveaxis(whole, dim, -1).reshape(-1, 2).tolist()
            assert device_meshes.distinct(found, axis) == sorted(lines)


def test_the_outermost_axis_alone_leaves_the_node(
    eight: list[dict[str, device_meshes.Groups]],
) -> None:
    for order in device_meshes.ORDERS:
        found = [orders[order] for orders in eight]
        first, *others = order.split()
        assert device_meshes.leaves(device_meshes.distinct(found, first))
        for axis in others:
            assert not device_meshes.leaves(device_meshes.distinct(found, axis))


def test_a_lost_node_breaks_one_replica_if_they_are_outermost(
    eight: list[dict[str, device_meshes.Groups]],
) -> None:
    """With data parallelism outermost, losing a node breaks one replica of two.
    With pipeline or tensor parallelism outermost it breaks both."""
    broken = {
        order: device_meshes.broken([orders[order] for orders in eight])
        for order in device_meshes.ORDERS
    }
    assert broken == {"dp pp tp": 1, "pp dp tp": 2, "tp pp dp": 2}


# Groups


def test_groups_that_all_ranks_make_sum_their_members() -> None:
    """When every rank makes every group, each group sums its own members."""
    found = ranks.run_ranks(4, in_a_group, process_groups.by_rule)
    assert found == [11, 11, 1100, 1100]


def test_groups_that_members_alone_make_may_sum_strangers() -> None:
    """When ranks make only the groups they belong to, two ranks of different
    groups sum each other's values, and the two others get no result."""
    first, *strangers, last = ranks.run_ranks(
        4, in_a_group, process_groups.own_alone
    )
    assert math.isnan(first)
    assert math.isnan(last)
    assert strangers == [110, 110]  # rank 1's 10 and rank 2's 100


def test_groups_that_are_named_by_their_members_need_nobody_else() -> None:
    """With groups named by their members, ranks may make only their own, and
    each sums its members."""
    found = ranks.run_ranks(4, in_a_group, process_groups.own_alone, True)
    assert found == [11, 11, 1100, 1100]


def test_groups_made_in_another_order_are_each_other() -> None:
    """Two ranks that create two process groups in opposite order each use the
    other's group without an error, and both sums are of the wrong group."""
    found = ranks.run_ranks(2, in_a_group, process_groups.swapped)
    assert found == [[101, 101], [101, 101]]  # and not 2 and 200


def test_a_group_forgets_the_time_out_of_its_job() -> None:
    """A job that set a timeout of 60 s has process groups, made later, with
    torch's default of 1,800 s."""
    found = ranks.run_ranks(4, in_a_group, process_groups.patience)
    waits = {"job": 60, "new group": 1800, "axis of a mesh": 1800}
    assert found == [waits] * 4


def test_only_the_backend_string_nccl_waits_ten_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torch's default timeout is NCCL's, ten minutes, for the backend string
    "nccl" alone. It is 30 minutes for "cpu:gloo,cuda:nccl", for "gloo", and for
    a job that names no backend."""
    ten = timedelta(minutes=10)
    # A build without CUDA has no constant for NCCL.
    monkeypatch.setattr(c10d, "default_pg_nccl_timeout", ten)
    minutes = {
        name: c10d._get_default_timeout(dist.Backend(name))
        / timedelta(minutes=1)
        for name in ("nccl", "cpu:gloo,cuda:nccl", "gloo", "undefined")
    }
    assert minutes == {
        "nccl": 10,
        "cpu:gloo,cuda:nccl": 30,
        "gloo": 30,
        "undefined": 30,
    }


# Samples


@pytest.mark.parametrize("position", range(0, 40, 4))
def test_a_step_has_the_same_samples_on_any_number_of_ranks(
    position: int,
) -> None:
    """The samples of a step, dealt to two or four ranks, are those of one rank,
    every second or fourth to each."""
    (alone,) = sampler_sharding.dealt(position, 1)
    for world in (2, 4):
        dealt = sampler_sharding.dealt(position, world)
        assert [alone[rank::world] for rank in range(world)] == dealt


def test_steps_run_on_into_the_next_epoch() -> None:
    ids = [
        i for at in range(0, 20, 4) for i in sampler_sharding.dealt(at, 1)[0]
    ]
    assert sorted(ids[:10]) == sorted(ids[10:]) == [*range(10)]


@pytest.mark.parametrize("world", [1, 7, 64, 512])
def test_torchs_sampler_pads_or_drops_what_ranks_do_not_divide(
    world: int,
) -> None:
    """`DistributedSampler` repeats samples of 1,001 until the ranks divide
    them, or with `drop_last` leaves the rest out."""
    assert sampler_sharding.torchs(1001, world, False) == (-1001 % world, 0)
    assert sampler_sharding.torchs(1001, world, True) == (0, 1001 % world)


@pytest.mark.parametrize(("drop", "length"), [(False, 12), (True, 8)])
def test_torch_pads_an_epoch_with_the_head_of_itself(
    drop: bool, length: int
) -> None:
    """Four ranks and ten samples, in the order in which they are dealt."""
    data: Any = range(10)
    own = [[*DistributedSampler(data, 4, r, drop_last=drop)] for r in range(4)]
    dealt = [i for step in zip(*own, strict=True) for i in step]
    assert len(dealt) == length
    assert len({*dealt}) == min(10, length)
    assert dealt[10:] == dealt[: max(0, length - 10)]


def test_two_seeds_of_torchs_sampler_share_their_orders() -> None:
    """It seeds with seed + epoch."""
    one, two = (
        DistributedSampler(range(100), 1, 0, seed=seed)  # type: ignore[arg-type, var-annotated]
        for seed in (0, 1)
    )
    one.set_epoch(1)
    assert [*one] == [*two]
    first, other = GlobalOrder(100, 0), GlobalOrder(100, 1)
    index = np.arange(100)
    assert (first.permute(index, 1) != other.permute(index, 0)).any()


def test_workers_of_a_stream_repeat_it_unless_they_divide_it() -> None:
    for workers in (0, 2):
        ids = [i for b in data_streams.batches(workers, False) for i in b]
        assert Counter(ids) == {i: max(1, workers) for i in range(10)}


def test_workers_that_divide_a_stream_change_its_order_and_its_batches() -> (
    None
):
    """Two loader workers that divide a stream of ten return six batches in
    another order, where one process returns five."""
    alone, two = data_streams.batches(0, True), data_streams.batches(2, True)
    assert alone == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert two == [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]]


def test_a_worker_that_divides_takes_every_other_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        data_streams,
        "get_worker_info",
        lambda: SimpleNamespace(id=1, num_workers=2),
    )
    assert [*data_streams.Stream(divided=True)] == [1, 3, 5, 7, 9]
    assert [*data_streams.Stream(divided=False)] == [*range(10)]


def test_a_buffer_brings_no_sample_forward_by_more_than_its_size() -> None:
    """A shuffle buffer of 100 returns every sample once, and none comes more
    than 100 places early."""
    found = [*data_streams.buffered(range(2000), 100)]
    assert sorted(found) == [*range(2000)]
    assert found != [*range(2000)]
    forward = max(i - at for at, i in enumerate(found))
    assert 90 < forward <= 100


def test_packs_hold_what_fits() -> None:
    assert data_streams.packs([300, 200, 300, 512]) == 3
    assert data_streams.packs([512]) == 1
    lengths = data_streams.documents()
    dealt = [data_streams.packs(lengths[rank::4]) for rank in range(4)]
    assert len({*dealt}) > 1  # ranks that pack have unequal shares


def test_a_batch_of_a_sorted_stream_has_what_is_near_alone() -> None:
    assert data_streams.classes(range(990, 1010)) == 2
    near = [*data_streams.buffered(range(10_000), 500)][:100]
    assert data_streams.classes(near) == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_mixture_keeps_its_quota_and_leaves_nothing_out(seed: int) -> None:
    """Each block of ten samples has exactly its quota of each source, and each
    source's samples come equally often, give or take one."""
    mixture = data_mixtures.Mixture([100, 40, 8], [5, 3, 2], seed)
    sources, ids = mixture(np.arange(2000))
    for block in sources.reshape(-1, 10):
        assert np.bincount(block).tolist() == [5, 3, 2]
    for i, size in enumerate([100, 40, 8]):
        mine = ids[sources == i]
        times = Counter(mine.tolist()).values()
        assert len(times) == size
        assert max(times) - min(times) <= 1
    blocks = [tuple(b) for b in sources.reshape(-1, 10)]
    assert any(a != b for a, b in pairwise(blocks))


def test_a_mixture_is_a_function_of_the_position() -> None:
    """Any range of positions of a mixture has the samples that the whole
    mixture has there."""
    mixture = data_mixtures.Mixture([100, 40, 8], [5, 3, 2], 7)
    whole = np.stack(mixture(np.arange(300)))
    for start, stop in ((0, 1), (150, 151), (37, 211)):
        part = np.stack(mixture(np.arange(start, stop)))
        assert (part == whole[:, start:stop]).all()


@pytest.mark.parametrize(
    "probe",
    [
        trainer_observer,
        device_meshes,
        process_groups,
        sampler_sharding,
        data_streams,
        data_mixtures,
    ],
)
def test_a_probe_speaks(probe: Any) -> None:
    (lines,) = ranks.run_ranks(1, spoken, probe.__name__)
    assert len(lines) >= 4
