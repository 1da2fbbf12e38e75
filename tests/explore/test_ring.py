"""The picture of the ring beside the ring that the labs build."""

from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from lockstep.explore import ring
from lockstep.explore.settings import read
from lockstep.parallel import collectives
from lockstep.planner.questions import ask
from lockstep.trainer.process import joined
from tests import ranks


def values(text: str) -> dict[str, Any]:
    """All settings, some of them changed."""
    return read(ring.SETTINGS, text)


def watched(world: int) -> tuple[list[tuple[int, int]], list[float]]:
    """What this rank sent in each step of a real ring all-reduce: the chunk,
    and of how many ranks it was the sum; and the result.

    A chunk is a power of two for its rank, whose sum tells who is in it, and
    the chunk's own number, which is added up as often.
    """
    with joined(30, ranks.store()) as me:
        whole = torch.tensor(
            [x for chunk in range(world) for x in (2.0**me.rank, chunk)]
        )
        sent = []
        exchange = collectives.exchange

        def noted(out: Tensor, *more: Any) -> None:
            members, numbers = out.tolist()
            count = int(members).bit_count()
            sent.append((round(numbers / count), count))
            exchange(out, *more)

        with patch.object(collectives, "exchange", noted):
            collectives.ring_all_reduce(whole)
        return sent, whole.tolist()


@pytest.mark.parametrize("world", [2, 3, 4])
def test_each_step_sends_what_a_real_ring_sends(world: int) -> None:
    """On two, three and four gloo ranks a ring all-reduce is watched. In every
    step each rank sends the chunk, summed over as many ranks, that the picture
    says."""
    for rank, (sent, whole) in enumerate(
        ranks.run_ranks(world, watched, world)
    ):
        drawn = [
            ring.sends(world, step, rank) for step in range(1, 2 * world - 1)
        ]
        assert sent == drawn
        assert whole[0] == 2**world - 1


@pytest.mark.parametrize("world", range(2, ring.MOST + 1))
def test_what_arrives_is_what_was_sent(world: int) -> None:
    """After each step a rank has what its neighbor sent, with its own share
    added while sums are still on their way; at the end it has all of it."""
    last = 2 * (world - 1)
    for step in range(1, last + 1):
        held = ring.held(world, step)
        for rank in range(world):
            chunk, count = ring.sends(world, step, (rank - 1) % world)
            mine = 1 if step < world else 0
            assert held[rank][chunk] == count + mine
    assert ring.held(world, last) == [[world] * world] * world


def test_bytes_and_seconds_are_the_planners() -> None:
    """At the last step a rank has sent the bytes, and the time has passed, that
    `lockstep plan collective` says of the whole all-reduce; tree and
    hierarchical take what it says as well."""
    given = values("step:6")
    said = dict(ring.draw(given).numbers)
    asked = {"op": "all_reduce", "bytes": 1e9, "ranks": 4}
    asked |= {"bandwidth": 50e9, "latency": 14e-6}
    plan = ask("collective", asked)
    assert said["a rank has sent"] == ring.size(
        float(plan["bytes_sent_per_rank"])
    )
    assert said["time so far"] == ring.duration(float(plan["seconds"]))
    tree = ask("collective", asked | {"algorithm": "tree"})
    assert said["tree"] == ring.duration(float(tree["seconds"]))
    nodes = {"algorithm": "hierarchical", "gpus_per_node": 2}
    nodes |= {"node_bandwidth": 450e9, "node_latency": 3.5e-6}
    two = ask("collective", asked | nodes)
    assert said["two in a node"] == ring.duration(float(two["seconds"]))


def test_a_tree_wins_for_a_small_buffer() -> None:
    """For 10 kB on eight ranks the ring's 14 hops take longer than a tree's,
    and for 1 GB the ring is faster."""
    small, large = values("ranks:8,bytes:10000"), values("ranks:8")
    assert ring.seconds(small, "tree") < ring.seconds(small, "ring")
    assert ring.seconds(large, "tree") > ring.seconds(large, "ring")
