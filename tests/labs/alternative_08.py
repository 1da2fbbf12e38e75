"""Lab 08 once more, in another style: minima, slopes between sizes, formulas
written out, messages in place of collectives."""

import itertools
import time
from typing import NamedTuple

import torch
import torch.distributed as dist


class Link(NamedTuple):
    alpha: float
    beta: float


class Cluster(NamedTuple):
    nodes: int
    ranks_per_node: int
    inner: Link
    outer: Link

    @property
    def size(self):
        return self.nodes * self.ranks_per_node


class Axis(NamedTuple):
    degree: int
    sent: float


def ping_pong(sizes, rounds, group=None, device="cpu", clock=time.perf_counter):
    me = dist.get_rank(group)
    times = {}
    for nbytes in sizes:
        ball = torch.zeros(nbytes, dtype=torch.int8, device=device)
        times[nbytes] = []
        for _ in range(rounds):
            if me == 0:
                start = clock()
                back = dist.irecv(ball.clone(), group=group, group_src=1)
                dist.isend(ball, group=group, group_dst=1).wait()
                back.wait()
                times[nbytes].append(0.5 * (clock() - start))
            if me == 1:
                dist.irecv(ball, group=group, group_src=0).wait()
                dist.isend(ball, group=group, group_dst=0).wait()
    box = [times]
    dist.broadcast_object_list(box, group=group, group_src=0)
    return box[0]


def fit(times):
    """Of the fastest messages; the slope of the median pair of sizes."""
    best = sorted((nbytes, min(each)) for nbytes, each in times.items())
    slopes = [
        (b - a) / (n - m)
        for (m, a), (n, b) in itertools.combinations(best, 2)
        if n >= 64 * m
    ]
    beta = max(sorted(slopes)[len(slopes) // 2], 1e-15)
    left = sorted(took - beta * nbytes for nbytes, took in best[:3])
    return Link(max(left[1], 0.0), beta)


def levels(ranks):
    """How often ranks are halved until one is left."""
    return (ranks - 1).bit_length()


def predict(algorithm, nbytes, cluster):
    nodes, each, (a, b), (wide, per_byte) = cluster
    if nodes == 1:
        wide = per_byte = 0.0
    pace = max(b, per_byte / each)
    if algorithm == "ring":
        hops = 2 * (cluster.size - nodes) * a + 2 * (nodes - 1) * wide
        return hops + pace * nbytes * 2 * (cluster.size - 1) / cluster.size
    if algorithm == "tree":
        return 2 * (levels(each) * a + levels(nodes) * wide + nbytes * pace)
    one_way = (each - 1) * (a + nbytes / each * b)
    one_way += (nodes - 1) * (wide + nbytes / cluster.size * per_byte)
    return 2 * one_way


def choose(nbytes, cluster):
    took = [
        (predict(algorithm, nbytes, cluster), algorithm)
        for algorithm in ("tree", "hierarchical", "ring")
    ]
    return min(took)[1]


def swap(out, into, peer):
    work = dist.irecv(into, peer), dist.isend(out, peer)
    for one in work:
        one.wait()


def hierarchical_all_reduce(tensor, inner, outer):
    """Everybody sends everybody their part, in the node and between nodes."""
    flat = tensor.flatten()
    parts = flat.tensor_split(dist.get_world_size(inner))
    mine = add_up(parts, inner)
    pieces = mine.tensor_split(dist.get_world_size(outer))
    hand_out(pieces, add_up(pieces, outer), outer)
    hand_out(parts, mine, inner)
    tensor.copy_(flat.view(tensor.shape))


def others(group):
    ranks = dist.get_process_group_ranks(group)
    me = dist.get_rank(group)
    return me, [(at, rank) for at, rank in enumerate(ranks) if at != me]


def add_up(parts, group):
    me, peers = others(group)
    got = [torch.empty_like(parts[me]) for _ in peers]
    for (at, rank), into in zip(peers, got, strict=True):
        swap(parts[at], into, rank)
    for into in got:
        parts[me].add_(into)
    return parts[me]


def hand_out(parts, mine, group):
    for at, rank in others(group)[1]:
        swap(mine, parts[at], rank)


def mesh_order(axes, ranks_per_node):
    return min(
        itertools.permutations(axes),
        key=lambda order: leaving(order, axes, ranks_per_node),
    )


def leaving(order, axes, ranks_per_node):
    ranges = [range(axes[name].degree) for name in order]
    number = {at: rank for rank, at in enumerate(itertools.product(*ranges))}
    total = 0.0
    for at, rank in number.items():
        for i, name in enumerate(order):
            next_ = (at[i] + 1) % axes[name].degree
            to = number[*at[:i], next_, *at[i + 1 :]]
            if rank // ranks_per_node != to // ranks_per_node:
                total += axes[name].sent
    return total
