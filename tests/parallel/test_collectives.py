"""Our collectives beside torch's: the same results, and what they send."""

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.experiments.demos import bytes_on_wire
from lockstep.parallel import collectives as ours
from lockstep.planner.questions import ask
from lockstep.trainer.process import joined
from tests import ranks
from tests.conftest import daily

RANKS = 4
NUMBERS = 1 << 18  # of 4 bytes, in a buffer
# Frames around each message.
SLACK: dict[str, Any] = {"rel": 2e-3, "abs": 256}


def drawn(*shape: int) -> Tensor:
    """Whole numbers, so that the order of a sum does not matter."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    return torch.randint(100, shape, generator=generator).float()


def results(theirs: bool) -> list[Any]:
    """Of every collective, by torch or by ours, on uneven parts."""
    with joined(30, ranks.store()) as me:
        sizes = range(1, me.world_size + 1)
        parts = [drawn(size) for size in sizes]
        whole, copy = drawn(7, 3), drawn(5)
        output = torch.empty(sizes[me.rank])
        gathered = [torch.empty(size) for size in sizes]
        exchanged = [torch.empty(me.rank + 1) for _ in sizes]
        if theirs:
            # gloo scatters and exchanges parts of one size alone.
            sums = [part.clone() for part in parts]
            for part in sums:
                dist.all_reduce(part)
            output = sums[me.rank]
            dist.all_reduce(whole)
            dist.broadcast(copy, me.world_size // 2)
            every: list[Any] = [None] * me.world_size
            dist.all_gather_object(every, parts)
            exchanged = [each[me.rank] for each in every]
            gathered = [each[r] for r, each in enumerate(every)]
        else:
            ours.ring_reduce_scatter(output, parts)
            ours.ring_all_reduce(whole)
            ours.tree_broadcast(copy, me.world_size // 2)
            ours.all_to_all(exchanged, parts)
            ours.ring_all_gather(gathered, parts[me.rank])
        found = [output, whole, copy, *exchanged, *gathered]
        return [one.tolist() for one in found]


@pytest.mark.parametrize("world", daily([1, 3, 4], 3))
def test_the_results_are_torchs(world: int) -> None:
    found = ranks.run_ranks(world, results, False)
    expected = ranks.run_ranks(world, results, True)
    assert found == expected


def batches() -> list[list[str]]:
    """The kinds of messages in each batch of a ring's reduce-scatter."""
    noted = []
    batch = dist.batch_isend_irecv

    def noting(messages: list[dist.P2POp]) -> list[dist.Work]:
        noted.append([message.op.__name__ for message in messages])
        return batch(messages)

    with joined(30, ranks.store()) as me, pytest.MonkeyPatch.context() as patch:
        patch.setattr(dist, "batch_isend_irecv", noting)
        inputs = [drawn(4) for _ in range(me.world_size)]
        ours.ring_reduce_scatter(torch.empty(4), inputs)
    return noted


def test_a_ring_batches_each_send_with_its_receive() -> None:
    """On three ranks a ring's reduce-scatter takes two steps. Each of them is
    one batch of a send and a receive, which NCCL runs at once."""
    steps = [["isend", "irecv"]] * 2
    assert ranks.run_ranks(3, batches) == [steps] * 3


def sent() -> dict[str, int]:
    """Bytes that this rank sends, by the kernel's count."""
    with joined(30, ranks.store()) as me:
        whole = torch.ones(NUMBERS)
        parts = list(whole.chunk(me.world_size))
        mine = torch.empty_like(parts[0])
        others = [torch.empty_like(mine) for _ in parts]
        ours.all_to_all(others, parts)  # connects
        return {
            "all_reduce": bytes_on_wire.sent(
                lambda: ours.ring_all_reduce(whole)
            ),
            "reduce_scatter": bytes_on_wire.sent(
                lambda: ours.ring_reduce_scatter(mine, parts)
            ),
            "all_gather": bytes_on_wire.sent(
                lambda: ours.ring_all_gather(others, mine)
            ),
            "all_to_all": bytes_on_wire.sent(
                lambda: ours.all_to_all(others, parts)
            ),
        }


def test_each_sends_what_is_planned() -> None:
    """Each collective sends the bytes that the planner says; only gloo's own
    reduce-scatter sends an all-reduce."""
    for found in ranks.run_ranks(RANKS, sent):
        for op, count in found.items():
            asked = {"op": op, "bytes": 4 * NUMBERS, "ranks": RANKS}
            planned = ask("collective", asked)["bytes_sent_per_rank"].value
            assert count == pytest.approx(planned, **SLACK), op
