"""Links, predictions and orders beside the planner's and torch's own."""

from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from lockstep.experiments.benchmarks import links
from lockstep.experiments.demos import bytes_on_wire
from lockstep.instruments.traffic import Traffic
from lockstep.parallel.topology import (
    Axis,
    Cluster,
    Link,
    choose,
    crossing,
    fit,
    hierarchical_all_reduce,
    mesh_order,
    now,
    ping_pong,
    predict,
)
from lockstep.planner.collectives import ALGORITHMS
from lockstep.planner.questions import ask
from lockstep.trainer.process import joined
from tests import ranks

NVLINK, CARD = Link(3.4e-6, 1 / 450e9), Link(14e-6, 1 / 50e9)
H100S = Cluster(8, 8, NVLINK, CARD)
PCIE = Cluster(2, 8, Link(5e-6, 1 / 25e9), Link(14e-6, 1 / 16e9))  # the demo's


def planned(nbytes: float, n: int, **how: Any) -> dict[str, Any]:
    asked = {"op": "all_reduce", "bytes": nbytes, "ranks": n, **how}
    return {
        name: getattr(figure, "value", figure)
        for name, figure in ask("collective", asked).items()
    }


def test_the_clock_waits_for_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[None] = []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(
        torch.accelerator, "synchronize", lambda: waits.append(None)
    )
    assert now() < now()
    assert len(waits) == 2


def played() -> dict[int, list[float]]:
    """In a group in which rank 0 of all has no part."""
    with joined(30, ranks.store()) as me:
        group = dist.new_group([1, 2, 3])
        return ping_pong([8, 2**16], 3, group) if me.rank else {}


def test_all_ranks_of_a_group_have_the_times_of_two() -> None:
    _, *found = ranks.run_ranks(4, played)
    assert found[0] == found[1] == found[2]
    assert [*found[0]] == [8, 2**16]
    for times in found[0].values():
        assert len(times) == 3
        assert min(times) > 0


def test_a_fit_is_the_one_that_the_links_page_shows() -> None:
    """Two ranks broadcast in one message, so there both models are one."""
    sizes = links.Sweep().sizes()
    off = [1.1 if i % 2 else 0.9 for i in range(len(sizes))]
    link = Link(30e-6, 5e-10)
    took = {n: link.seconds(n) * by for n, by in zip(sizes, off, strict=True)}
    found = fit({n: [9.0, t, t, t, t] for n, t in took.items()})
    theirs = links.fit("broadcast", 2, took)
    assert found.alpha == pytest.approx(theirs["latency"])
    assert found.beta == pytest.approx(1 / theirs["bandwidth"])


def test_a_link_is_never_faster_than_at_once() -> None:
    """Large messages that pass for free, or only large ones."""
    assert fit({1000: [2.0], 2000: [2.0], 4000: [1.0]}).beta == 0
    assert fit({1000: [1.0], 2000: [3.0], 4000: [9.0]}).alpha == 0


@pytest.mark.parametrize("nbytes", [0, 64e3, 1e9])
def test_a_prediction_is_the_planners(nbytes: float) -> None:
    """The lab's prediction for ring, tree and hierarchical all-reduce is the
    planner's, for every size."""
    hop = (112 * NVLINK.alpha + 14 * CARD.alpha) / 126  # a ring's, on average
    flat = {"bandwidth": 8 * 50e9}
    ways = {
        "ring": {**flat, "latency": hop},
        "tree": {
            **flat,
            "latency": (NVLINK.alpha + CARD.alpha) / 2,
            "algorithm": "tree",
        },
        "hierarchical": {
            "algorithm": "hierarchical",
            "bandwidth": 50e9,
            "latency": CARD.alpha,
            "gpus_per_node": 8,
            "node_bandwidth": 450e9,
            "node_latency": NVLINK.alpha,
        },
    }
    for algorithm, how in ways.items():
        expected = planned(nbytes, 64, **how)["seconds"]
        found = predict(algorithm, nbytes, H100S)
        assert found == pytest.approx(expected), algorithm


@pytest.mark.parametrize("shape", [(2, 2), (8, 8), (6, 3), (4, 1), (1, 8)])
def test_hierarchical_sends_a_rings_bytes_over_other_links(
    shape: tuple[int, int],
) -> None:
    """A hierarchical all-reduce sends as many bytes per rank as a ring, and
    only 1/GPUs-per-node of them over the network."""
    nodes, each = shape
    n = nodes * each
    ring = planned(1e9, n)["bytes_sent_per_rank"]
    found = planned(1e9, n, algorithm="hierarchical", gpus_per_node=each)
    assert found["bytes_sent_per_rank"] == pytest.approx(ring)
    assert found["network_bytes"] == pytest.approx(
        2 * (nodes - 1) / nodes * 1e9 / each
    )


def test_three_sizes_three_algorithms() -> None:
    """On nodes whose ranks reach each other over PCIe; the best one of three
    changes twice, as the page says."""
    sizes = [10**k for k in (3, 6)] + [20e6, 100e6, 1e9]
    found = [choose(size, PCIE) for size in sizes]
    assert found == ["tree", "tree", "hierarchical", "ring", "ring"]


def test_on_h100s_hierarchical_is_never_the_fastest() -> None:
    """On eight nodes of eight H100s a tree is predicted to be the fastest up to
    a size between 5.5 and 7 GB, and a ring above it. Hierarchical is the
    fastest at no size."""
    sizes = [1e3 * 1.1**k for k in range(200)]
    found = [choose(size, H100S) for size in sizes]
    assert set(found) == {"tree", "ring"}
    (at,) = (
        size
        for size, (one, other) in zip(sizes[1:], pairwise(found), strict=True)
        if one != other
    )
    assert 5.5e9 < at < 7e9
    for one in ALGORITHMS:
        assert predict(one, at, H100S) > 0.02


def summed(nbytes: int) -> dict[str, Any]:
    """Two nodes of two; what is sent, by torch's calls and by the kernel."""
    with joined(30, ranks.store()):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("node", "local"))
        groups = mesh.get_group("local"), mesh.get_group("node")
        found: dict[str, Any] = {}
        for shape in ((7, 3), (2,), (0,)):
            generator = torch.Generator().manual_seed(dist.get_rank())
            ours = torch.randint(9, shape, generator=generator).float()
            theirs = ours.clone()
            hierarchical_all_reduce(ours, *groups)
            dist.all_reduce(theirs)
            found[f"equal {shape}"] = torch.equal(ours, theirs)
        tensor = torch.ones(nbytes // 4)
        with Traffic() as traffic:
            hierarchical_all_reduce(tensor, *groups)
        found["calls"] = [(one.op, one.sent) for one in traffic.calls]
        found["written"] = bytes_on_wire.sent(
            lambda: hierarchical_all_reduce(tensor, *groups)
        )
        return found


def test_a_sum_over_nodes_is_torchs_and_sends_what_is_planned() -> None:
    """A hierarchical all-reduce on two nodes of two ranks has torch's sum and
    sends the planned bytes, with half a buffer more that gloo's reduce-scatter
    adds."""
    nbytes = 2**20
    plan = planned(nbytes, 4, algorithm="hierarchical", gpus_per_node=2)
    for found in ranks.run_ranks(4, summed, nbytes):
        calls, written = found.pop("calls"), found.pop("written")
        assert all(found.values()), found
        (first, inside), (across, outside), (last, back) = calls
        assert [first, across, last] == [
            "reduce_scatter",
            "all_reduce",
            "all_gather",
        ]
        assert inside + back == plan["node_bytes"]
        assert outside == plan["network_bytes"] == nbytes / 2
        # gloo's reduce-scatter sends an all-reduce: half a buffer more.
        assert written == pytest.approx(2 * nbytes, rel=2e-3)


def meshes() -> list[Any]:
    """As torch numbers the ranks."""
    with joined(30, ranks.store()):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        return [
            dist.get_process_group_ranks(mesh.get_group(name))
            for name in ("dp", "tp")
        ]


def test_the_last_axis_has_neighbors() -> None:
    """With two axes on two nodes, the one that sends most is put last, and its
    groups are neighboring ranks, as torch numbers them."""
    axes = {"dp": Axis(2, 1.0), "tp": Axis(2, 100.0)}
    order = mesh_order(axes, 2)
    assert order == ("dp", "tp")
    for rank, found in enumerate(ranks.run_ranks(4, meshes)):
        assert found == [
            [rank % 2, rank % 2 + 2],
            [rank // 2 * 2, rank // 2 * 2 + 1],
        ]
    assert crossing(order, axes, 2) == 4 * 1.0  # each rank of dp's two pairs
    assert crossing(order[::-1], axes, 2) == 4 * 100.0


def test_what_sends_most_goes_outside_when_its_group_fills_two_nodes() -> None:
    """On nodes of eight, context parallelism over 16 ranks is put outside
    tensor parallelism over 8, although it sends more bytes per rank: in this
    order 1,408 GB leave the nodes, in the other 1,456 GB."""
    axes = {"tp": Axis(8, 10e9), "cp": Axis(16, 11e9)}
    assert mesh_order(axes, 8) == ("cp", "tp")
    found = [crossing(order, axes, 8) for order in (("tp", "cp"), ("cp", "tp"))]
    assert found == [1456e9, 1408e9]


def test_an_axis_need_not_divide_a_node() -> None:
    axes = {"tp": Axis(6, 10e9), "dp": Axis(8, 8e9)}
    assert mesh_order(axes, 8) == ("dp", "tp")
    assert crossing(("dp", "tp"), axes, 8) < crossing(("tp", "dp"), axes, 8)
