"""Lab 08: topology and communication.

Bytes are those of the whole buffer, as `lockstep plan collective` has them;
times are seconds. `group` is None for all ranks, or a process group. Any
function of torch's may be used.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

Group = dist.ProcessGroup | None


class Link(NamedTuple):
    """What a message of one rank to another costs: alpha + bytes * beta."""

    alpha: float  # seconds, whatever its size
    beta: float  # seconds for each byte: 1 / bandwidth


class Cluster(NamedTuple):
    """Nodes of equal size; each rank has a link of its own to each kind of
    peer, as a GPU has its NVLink and its network card."""

    nodes: int
    ranks_per_node: int
    inner: Link  # to a rank of the same node
    outer: Link  # to a rank of another node


class Axis(NamedTuple):
    """One dimension of a mesh."""

    degree: int  # ranks in each of its groups
    sent: float  # bytes that a rank sends along it in a step


def ping_pong(
    sizes: Sequence[int],
    rounds: int,
    group: Group = None,
    device: torch.device | str = "cpu",
    clock: Callable[[], float] = time.perf_counter,
) -> dict[int, list[float]]:
    """What a single message takes between the group's ranks 0 and 1. Every
    rank calls it.

    Args:
        sizes: of the messages, in bytes.
        rounds: how often each size is measured.
        device: where the messages lie.
        clock: says the time in seconds, and is the only one that you ask. On a
            GPU it waits for what was launched.

    Returns:
        For each size `rounds` times, one way, on rank 0's clock. They are the
        same on all ranks of the group, whose next decision must be one.
    """
    raise NotImplementedError  # TODO: one rank's clock, and a message that ends


def fit(times: Mapping[int, Sequence[float]]) -> Link:
    """The link that messages went over.

    Errors count relative to the time: 10 % of a small message as much as 10 %
    of a large one. Neither number is below 0.

    Args:
        times: seconds of single messages, by size in bytes. The first of a size
            may be cold, a few may have met a busy processor; most did not.
    """
    raise NotImplementedError  # TODO: two numbers that no outlier moves


def predict(algorithm: str, nbytes: float, cluster: Cluster) -> float:
    """Seconds of an all-reduce over all ranks of the cluster.

    The model: α for each hop that a part of the buffer makes in a row, and β
    for the bytes that a rank sends, as the planner counts both.

    - ring: all ranks in a row, node after node. Of its 2 (ranks - 1) hops
      2 (nodes - 1) are between nodes.
    - tree: up and down, within the nodes and between them. That is twice
      log2, rounded up, of a node's ranks, and of the nodes. It sends
      2 · bytes, in small pieces.
    - Both leave a node over the links of all its ranks at once, and no rank
      is faster than its inner link: the slower of the two sets the pace. In a
      cluster of one node there is no outer link.
    - hierarchical: rings within the nodes, then between ranks of equal number,
      then within the nodes again; one after the other.

    Args:
        algorithm: ring, tree or hierarchical.
        nbytes: of the buffer on each rank.
    """
    raise NotImplementedError  # TODO: hops and bytes, for each kind of link


def choose(nbytes: float, cluster: Cluster) -> str:
    """ring, tree or hierarchical: what is fastest for such a buffer here."""
    raise NotImplementedError  # TODO: as predicted


def hierarchical_all_reduce(tensor: Tensor, inner: Group, outer: Group) -> None:
    """`tensor` becomes the sum over all ranks, in place.

    Args:
        tensor: of any shape, dtype and length that can be added.
        inner: the ranks of this node.
        outer: this rank and its likes, one of each node.
    """
    raise NotImplementedError  # TODO: a rank sends one part between nodes


def mesh_order(
    axes: Mapping[str, Axis], ranks_per_node: int
) -> tuple[str, ...]:
    """The order of axes in which the fewest bytes leave their node in a step,
    of all ranks together.

    Along each axis every rank sends to the next rank of its group, and the last
    one to the first. Ranks fill one node after the other; degrees need not
    divide a node.

    Returns:
        The names as `init_device_mesh` takes them: along the last axis, ranks
        of a group are neighbors.
    """
    raise NotImplementedError  # TODO: count, for every order there is
