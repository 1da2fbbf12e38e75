"""What a message costs on a link, what an all-reduce costs on a cluster of such
links, and where each axis of a mesh belongs.

Bytes are those of the whole buffer, as nccl-tests counts; times are seconds.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from math import ceil, log2, prod
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from lockstep.parallel.collectives import (
    Group,
    all_gather,
    place,
    reduce_scatter,
)
from lockstep.planner.collectives import ALGORITHMS, collective


class Link(NamedTuple):
    """What a message of one rank to another costs (Hockney 1994)."""

    alpha: float  # seconds, whatever its size
    beta: float  # seconds for each byte: 1 / bandwidth

    def seconds(self, nbytes: float) -> float:
        """Return the seconds of a message."""
        return self.alpha + nbytes * self.beta


class Cluster(NamedTuple):
    """Nodes of equal size; each rank has a link of its own to each kind of
    peer, as a GPU has its NVLink and its NIC."""

    nodes: int
    ranks_per_node: int
    inner: Link  # to a rank of the same node
    outer: Link  # to a rank of another node


class Axis(NamedTuple):
    """One dimension of a mesh."""

    degree: int  # ranks in each of its groups
    sent: float  # bytes that a rank sends along it in a step


# --8<-- [start:ping_pong]
def now() -> float:
    """Seconds, once an accelerator has done what it was asked to do."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
    return time.perf_counter()


def ping_pong(
    sizes: Sequence[int],
    rounds: int,
    group: Group = None,
    device: torch.device | str = "cpu",
    clock: Callable[[], float] = now,
) -> dict[int, list[float]]:
    """Measure single messages between the group's ranks 0 and 1.

    All ranks call it, and get rank 0's times. From times of their own they
    might choose two algorithms for one all-reduce, and wait for each other.

    Args:
        sizes: of the messages, in bytes.
        rounds: how often each size is measured.
        device: where the messages lie.
        clock: says the time in seconds, and no other clock is read. On a GPU
            it waits for what was launched.

    Returns:
        For each size, the seconds of one message, one way, in each round.
    """
    rank, _ = place(group)
    took = torch.zeros(rounds, len(sizes), dtype=torch.float64)
    balls = [torch.ones(n, dtype=torch.uint8, device=device) for n in sizes]
    for turn in range(rounds if rank < 2 else 0):
        for i, ball in enumerate(balls):
            began = clock()
            if rank == 0:
                dist.send(ball, group=group, group_dst=1)
                dist.recv(ball, group=group, group_src=1)
            else:
                dist.recv(ball, group=group, group_src=0)
                dist.send(ball, group=group, group_dst=0)
            took[turn, i] = (clock() - began) / 2
    took = took.to(device)
    dist.broadcast(took, group=group, group_src=0)
    return dict(zip(sizes, took.T.tolist(), strict=True))


# --8<-- [end:ping_pong]
# --8<-- [start:fit]
def fit(times: Mapping[int, Sequence[float]]) -> Link:
    """Fit the link that messages went over; neither of its numbers is below 0.

    Errors count relative to the time: 10 % of a small message as much as 10 %
    of a large one.

    Args:
        times: seconds of single messages, by size in bytes; two sizes or more.
            The first of a size may be cold, a few may have met a busy
            processor; most did not.
    """
    # The least squared relative error to the medians, which no outlier moves.
    took = {nbytes: median(each) for nbytes, each in times.items()}
    rows = [[1 / t, nbytes / t] for nbytes, t in took.items()]
    (alpha, beta), *_ = np.linalg.lstsq(rows, np.ones(len(rows)))
    return Link(max(0.0, float(alpha)), max(0.0, float(beta)))


# --8<-- [end:fit]
# --8<-- [start:predict]
def planned(algorithm: str, nbytes: float, cluster: Cluster) -> dict:
    """Return the planner's bytes for an all-reduce, without times."""
    nodes, each, _, _ = cluster
    asked = {"op": "all_reduce", "bytes": nbytes, "algorithm": algorithm}
    asked |= {"ranks": nodes * each, "gpus_per_node": each}
    return collective(asked | {"bandwidth": 0, "latency": 0, "node_latency": 0})


def predict(algorithm: str, nbytes: float, cluster: Cluster) -> float:
    """Seconds of an all-reduce over all ranks.

    A part of the buffer pays α for each hop on its way. A flat ring or tree
    leaves a node over all of its ranks' links at once, and its slower kind of
    link sets the pace; hierarchical has its phases one after the other.

    Args:
        algorithm: ring, tree or hierarchical.
    """
    nodes, each, inner, outer = cluster
    hops_inside, hops_outside = {
        "ring": (nodes * (each - 1), nodes - 1),
        "tree": (ceil(log2(each)), ceil(log2(nodes))),
        "hierarchical": (each - 1, nodes - 1),
    }[algorithm]
    latency = 2 * (hops_inside * inner.alpha + hops_outside * outer.alpha)
    plan = planned(algorithm, nbytes, cluster)
    if algorithm == "hierarchical":
        inside = float(plan["node_bytes"]) * inner.beta
        return latency + inside + float(plan["network_bytes"]) * outer.beta
    pace = max(inner.beta, outer.beta / each) if nodes > 1 else inner.beta
    return latency + float(plan["bytes_sent_per_rank"]) * pace


def choose(nbytes: float, cluster: Cluster) -> str:
    """ring, tree or hierarchical: what is fastest for such a buffer here."""
    return min(ALGORITHMS, key=lambda one: predict(one, nbytes, cluster))


# --8<-- [end:predict]
# --8<-- [start:hierarchical]
def hierarchical_all_reduce(tensor: Tensor, inner: Group, outer: Group) -> None:
    """`tensor` becomes the sum over all ranks, in place.

    Args:
        tensor: of any shape, dtype and length that can be added; zeros fill it
            up where the node's ranks do not divide its length.
        inner: the ranks of this node.
        outer: this rank and its likes, one of each node.
    """
    each = dist.get_world_size(inner)
    whole = F.pad(tensor.reshape(-1), (0, -tensor.numel() % each))
    part = whole.new_empty(whole.numel() // each)
    reduce_scatter(part, whole, group=inner)
    dist.all_reduce(part, group=outer)
    all_gather(whole, part, group=inner)
    tensor.copy_(whole[: tensor.numel()].view_as(tensor))


# --8<-- [end:hierarchical]
# --8<-- [start:mesh_order]
def crossing(
    order: Sequence[str], axes: Mapping[str, Axis], ranks_per_node: int
) -> float:
    """Bytes that leave their node in a step, of all ranks together, where each
    sends to the next of its group, and the last to the first.

    Args:
        order: the axes as `init_device_mesh` takes them: the last one's groups
            are neighbors.
    """
    degrees = [axes[name].degree for name in order]
    node = torch.arange(prod(degrees)).view(degrees) // ranks_per_node
    return sum(
        axes[name].sent * int((node != node.roll(-1, dim)).sum())
        for dim, name in enumerate(order)
    )


def mesh_order(
    axes: Mapping[str, Axis], ranks_per_node: int
) -> tuple[str, ...]:
    """Return the order of axes in which the fewest bytes leave their node."""
    return min(
        permutations(axes),
        key=lambda order: crossing(order, axes, ranks_per_node),
    )


# --8<-- [end:mesh_order]
