"""The picture of the divided mask beside masks and rings that are run."""

from typing import Any
from unittest.mock import patch

import pytest
import torch

from lockstep.explore import causal_mask as picture
from lockstep.explore.settings import read
from lockstep.parallel import context_parallel as ours
from lockstep.trainer.process import joined
from tests import ranks

OWN = 64  # tokens of a rank, where a diagonal is 1/64 of a block


def positions(order: str, rank: int, world: int) -> torch.Tensor:
    """Where a rank's tokens stand."""
    whole = torch.arange(OWN * world)
    if order == "zigzag":
        return ours.zigzag_positions(OWN * world, rank, world)
    return (
        whole[rank::world] if order == "striped" else whole.chunk(world)[rank]
    )


@pytest.mark.parametrize("order", ["contiguous", "zigzag", "striped"])
@pytest.mark.parametrize("world", [2, 4, 8])
def test_shares_of_the_mask_are_counted_ones(order: str, world: int) -> None:
    """For 64 tokens on each of two, four and eight ranks, every pair of a
    query and a key that it may see is counted. The picture's share of each
    block is within a 64th of that."""
    for rank in range(world):
        for owner in range(world):
            queries = positions(order, rank, world)
            keys = positions(order, owner, world)
            share = (keys <= queries[:, None]).float().mean().item()
            drawn = picture.seen(order, world, rank, owner)
            assert drawn == pytest.approx(share, abs=1 / OWN)


def around(order: str) -> list[int]:
    """Whose keys this rank had, in the order of its steps."""
    with joined(30, ranks.store()) as me:
        owned = []
        circulate = ours.circulate

        def noted(block: torch.Tensor, group: Any) -> Any:
            for owner, one in circulate(block, group):
                owned.append(owner)
                yield owner, one

        x = torch.randn(1, 1, OWN, 4)
        with patch.object(ours, "circulate", noted):
            ours.ring_attention(
                x, x, x, positions(order, me.rank, me.world_size)
            )
        return owned


def test_steps_are_those_of_a_real_ring() -> None:
    """Four gloo ranks compute ring attention. Each has the keys of the ranks
    in the order that the picture shows."""
    drawn = picture.steps("zigzag", 4, 0.25)
    for own, ring in zip(
        drawn, ranks.run_ranks(4, around, "zigzag"), strict=True
    ):
        assert [owner for _, _, owner in own] == ring


def seconds(text: str) -> float:
    """When the last rank has finished, in blocks."""
    given = read(picture.SETTINGS, text)
    found = picture.steps(given["order"], given["ranks"], given["message"])
    return max(own[-1][1] for own in found)


@pytest.mark.parametrize("world", [2, 4, 8])
def test_zigzag_and_stripes_halve_the_time(world: int) -> None:
    """On n ranks contiguous parts take n - 1/2 blocks, because the last rank
    computes that many, and zig-zag or striped ones n/2."""
    assert seconds(f"ranks:{world}") == world - 0.5
    for order in ("zigzag", "striped"):
        assert seconds(f"order:{order},ranks:{world}") == world / 2


def test_a_message_hides_behind_half_a_block() -> None:
    """In zig-zag order a message that takes half a block costs nothing, and
    one that takes a whole block is waited for in three of four steps."""
    assert seconds("order:zigzag,message:0.5") == 2
    assert seconds("order:zigzag,message:1") == 3.5
