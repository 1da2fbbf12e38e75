"""Lab 08: what measurements and predictions must hold."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from lockstep.grading.criteria import Criterion, named
from lockstep.instruments.traffic import Call, Traffic
from lockstep.parallel import topology as reference
from lockstep.parallel.topology import Axis, Cluster, Link
from lockstep.planner.collectives import ALGORITHMS

KIB = 1024
FACTOR = 4  # between a prediction and what is measured beside it
FAST = Link(3e-6, 1 / 450e9)  # one GPU's NVLink, and cards of two kinds
CARD, SLOW_CARD = Link(14e-6, 1 / 50e9), Link(14e-6, 1 / 12.5e9)
CLUSTERS = [
    Cluster(1, 8, FAST, CARD),
    Cluster(2, 8, FAST, SLOW_CARD),
    Cluster(2, 4, FAST, Link(14e-6, 1 / 112.5e9)),  # four make an NVLink
    Cluster(2, 8, Link(5e-6, 1 / 25e9), Link(14e-6, 1 / 16e9)),  # over PCIe
    Cluster(6, 3, FAST, CARD),
    Cluster(4, 1, FAST, CARD),
]


def near(found: float, expected: float, rel: float = 1e-6) -> bool:
    """Whether two numbers are equal but for a part of the second."""
    return abs(found - expected) <= rel * expected


def told(link: Link) -> str:
    """In units that people use."""
    return f"α = {link.alpha * 1e6:.3g} µs, β = {link.beta * 1e9:.3g} ns/B"


# Measured, or as if.


def fits(answer: ModuleType) -> None:
    """Times of known links: two cold ones, an outlier, and every other size a
    little slower than the model has it."""
    fit = named(answer, "fit")
    sizes = [KIB << step for step in range(0, 13, 2)]
    for link in (Link(50e-6, 1e-9), Link(2e-6, 2e-11)):
        times = {}
        for i, nbytes in enumerate(sizes):
            model = link.seconds(nbytes) * (1.05 if i % 2 else 0.95)
            slower = 60, 20, 1, 1.02, 9, 1.01, 1.02, 1.01, 1
            times[nbytes] = [model * by for by in slower]
        found = fit(times)
        right = near(found.alpha, link.alpha, 0.2)
        right = right and near(found.beta, link.beta, 0.2)
        said = f"times of a link with {told(link)} are fitted by"
        assert right, f"{said} {told(found)}"


@contextmanager
def watched() -> Iterator[Traffic]:
    """What this rank does, with a mark for everything that it waited for."""
    real, traffic = dist.Work.wait, Traffic()

    def wait(work: dist.Work, *args: Any, **given: Any) -> Any:
        found = real(work, *args, **given)
        traffic.events.append("done")
        return found

    with traffic, patch.object(dist.Work, "wait", wait):
        yield traffic


def plays(answer: ModuleType) -> dict[int, list[float]]:
    """On a clock that moves with each message that was waited for, and faster
    on other ranks."""
    act, rank = named(answer, "ping_pong"), dist.get_rank()
    link, sizes, rounds = Link(3e-3, 2e-6), [64, 4 * KIB, KIB], 3
    with watched() as traffic:

        def clock() -> float:
            messages = [one for one in traffic.calls if one.peer is not None]
            done = messages[: traffic.events.count("done")]
            return (1 + rank) * sum(link.seconds(one.bytes) for one in done)

        found = act(sizes, rounds, clock=clock)
    if rank == 1:
        ahead = 0
        for call in traffic.calls:
            ahead += (call.op == "send") - (call.op == "recv")
            assert ahead <= 0, "rank 1 sends before it has received"
    for nbytes in sizes:
        times = list(found[nbytes])
        said = f"{len(times)} times of {nbytes} bytes, not {rounds}"
        assert len(times) == rounds, said
        if rank == 0:
            expected = link.seconds(nbytes)
            said = f"a message of {nbytes} bytes that takes {expected:.4g} s"
            wrong = [one for one in times if not near(one, expected)]
            assert not wrong, f"{said} is said to take {wrong[0]:.4g} s"
    return {nbytes: list(found[nbytes]) for nbytes in sizes}


def agree(found: list[Any]) -> None:
    """All ranks have the same times."""
    for rank, times in enumerate(found):
        said = f"rank {rank} has other times than rank 0"
        assert times == found[0], said


def foresees(answer: ModuleType) -> None:
    """A message of a size that the answer does not measure."""
    asked, predicted, measured = 2048 * KIB, [], []
    for _ in range(5):
        times = answer.ping_pong([4 * KIB << i for i in range(0, 11, 2)], 3)
        link = answer.fit(times)
        predicted.append(link.alpha + asked * link.beta)
        measured += reference.ping_pong([asked], 3)[asked]
    found, least, most = median(predicted), min(measured), median(measured)
    said = f"2 MiB should take {found * 1e6:.0f} µs and took"
    said += f" {least * 1e6:.0f} at least, {most * 1e6:.0f} in the median"
    assert least / FACTOR <= found <= FACTOR * most, said


# Described.


def built(answer: ModuleType, cluster: Cluster) -> Any:
    """The cluster, of the answer's own classes."""
    nodes, each, inner, outer = cluster
    links = answer.Link(*inner), answer.Link(*outer)
    return answer.Cluster(nodes, each, *links)


def worded(nbytes: float, cluster: Cluster) -> str:
    """A question about an all-reduce."""
    nodes, each, inner, outer = cluster
    return (
        f"{nbytes / 1e6:g} MB on {nodes} x {each} ranks"
        f" (inside {told(inner)}; between {told(outer)})"
    )


def predicts(answer: ModuleType) -> None:
    """Latency alone, bytes alone, and both."""
    predict = named(answer, "predict")
    for cluster in CLUSTERS:
        for algorithm in ALGORITHMS:
            for nbytes in (0, 64e3, 25e6, 1e12):
                found = predict(algorithm, nbytes, built(answer, cluster))
                right = reference.predict(algorithm, nbytes, cluster)
                said = f"{algorithm}, {worded(nbytes, cluster)}:"
                said += f" {found * 1e6:.6g} µs, not {right * 1e6:.6g}"
                assert near(found, right), said


def chooses(answer: ModuleType) -> None:
    """On both sides of every crossover, by sound predictions; of two that are
    equally fast, any."""
    choose = named(answer, "choose")
    for cluster in CLUSTERS:
        for nbytes in (1e3 * 1.5**step for step in range(40)):
            took = {
                one: reference.predict(one, nbytes, cluster)
                for one in ALGORITHMS
            }
            best = min(took, key=lambda one: took[one])
            with patch.object(answer, "predict", reference.predict):
                found = choose(nbytes, built(answer, cluster))
            said = f"{worded(nbytes, cluster)}: {found}, but {best} is faster"
            assert near(took[found], took[best], 1e-3), said


# Between nodes.


def nodes_of(each: int) -> DeviceMesh:
    """All ranks, in nodes of so many."""
    shape = dist.get_world_size() // each, each
    return init_device_mesh("cpu", shape, mesh_dim_names=("node", "local"))


def reduces(answer: ModuleType) -> None:
    """Lengths that ranks divide, and others; whole numbers; a transposed
    tensor."""
    act, mesh = named(answer, "hierarchical_all_reduce"), nodes_of(2)
    inner, outer = mesh.get_group("local"), mesh.get_group("node")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for rows, columns, dtype, unit in (
        (2, 4, torch.float64, 1),
        (3, 5, torch.float64, 1),
        (1, 1, torch.float64, 1),
        (3, 2, torch.int64, 2**53 + 1),  # no float64
    ):
        numbers = torch.arange(1, 1 + rows * columns, dtype=dtype)
        numbers = numbers.view(rows, columns).mT * unit
        tensor = numbers * 2**rank
        act(tensor, inner, outer)
        expected = sum(numbers * 2**r for r in range(ranks))
        for i, j in (tensor != expected).nonzero().tolist():
            said = f"of shape {[*tensor.shape]} in {dtype}, [{i}, {j}] is"
            said += f" {tensor[i, j].item()}, not {expected[i, j].item()}"
            raise AssertionError(said)


def crosses_little(answer: ModuleType) -> None:
    """In two nodes of three, so that a group's size says which it is."""
    each, nbytes = 3, 8 * 30
    mesh, node = nodes_of(each), dist.get_rank() // each
    inner, outer = mesh.get_group("local"), mesh.get_group("node")
    with Traffic() as traffic:
        tensor = torch.ones(30, dtype=torch.float64)
        answer.hierarchical_all_reduce(tensor, inner, outer)

    def crosses(call: Call) -> bool:
        if call.peer is None:
            return call.ranks != each
        return call.peer // each != node

    nodes = Cluster(2, each, FAST, CARD)
    plan = reference.planned("hierarchical", nbytes, nodes)
    for where, across, name in (
        ("between nodes", True, "network_bytes"),
        ("within its node", False, "node_bytes"),
    ):
        calls = (one for one in traffic.calls if crosses(one) is across)
        sent, planned = sum(one.sent for one in calls), float(plan[name])
        said = f"of {nbytes} bytes a rank sends {sent:.0f} {where}"
        assert sent <= planned, f"{said}, not {planned:.0f}"


# By axes: the last two numbers are bytes and a node's ranks.
MESHES: list[tuple[Mapping[str, Axis], int]] = [
    ({"dp": Axis(4, 3e9), "pp": Axis(2, 1e8), "tp": Axis(8, 4e10)}, 8),
    # Of small micro-batches, ZeRO-3 gathers more than tensors send.
    ({"dp": Axis(8, 3e10), "pp": Axis(2, 1e8), "tp": Axis(2, 4e9)}, 8),
    # What sends most does not fit into a node.
    ({"dp": Axis(2, 1e9), "cp": Axis(16, 1.1e10), "tp": Axis(8, 1e10)}, 8),
    # What sends most does not divide a node.
    ({"tp": Axis(6, 1e10), "dp": Axis(8, 8e9)}, 8),
]


def orders(answer: ModuleType) -> None:
    """Any order that costs as little as the best."""
    order = named(answer, "mesh_order")
    for axes, each in MESHES:
        own = {name: answer.Axis(*axis) for name, axis in axes.items()}
        found = tuple(order(own, each))
        assert sorted(found) == sorted(axes), f"{found} are not {[*axes]}"
        best = reference.mesh_order(axes, each)
        cost, least = (reference.crossing(o, axes, each) for o in (found, best))
        degrees = ", ".join(f"{n} {a.degree}" for n, a in axes.items())
        said = f"{degrees}, nodes of {each}: with {found} {cost / 1e9:.4g} GB"
        said += f" leave their node, and {least / 1e9:.4g} need to"
        assert cost <= least * (1 + 1e-9), said


CRITERIA = [
    Criterion(
        "fit",
        14,
        "Take what most messages of a size took, and divide each error by the"
        " time.",
        fits,
        world=1,
    ),
    Criterion(
        "ping-pong",
        14,
        "Rank 1 answers what it got, and rank 0 reads its clock when it has the"
        " answer.",
        plays,
        agree,
    ),
    Criterion(
        "measured",
        12,
        "Beside each other: seconds, of one message, of all of its bytes.",
        foresees,
        world=2,
        needs={"fit": "fit", "ping-pong": "ping_pong"},
    ),
    Criterion(
        "predict",
        14,
        "Ask with 0 bytes for the hops and with very many for the links that"
        " carry them.",
        predicts,
        world=1,
    ),
    Criterion(
        "choose",
        10,
        "Sizes where two are equally fast differ from cluster to cluster.",
        chooses,
        world=1,
    ),
    Criterion(
        "hierarchical",
        14,
        "Any length, any strides, and in place: what was filled up, cut or"
        " flattened has to come back.",
        reduces,
        world=4,
    ),
    Criterion(
        "bytes",
        10,
        "Each rank of a node owns a part, and only that part leaves the node.",
        crosses_little,
        world=6,
        needs={"hierarchical": ""},
    ),
    Criterion(
        "mesh order",
        12,
        "Number the ranks, and see which have their next one in another node.",
        orders,
        world=1,
    ),
]
