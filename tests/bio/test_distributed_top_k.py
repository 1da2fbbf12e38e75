"""A plate is the same however the pool is cut."""

import pytest
import torch
import torch.distributed as dist

from lockstep.bio.distributed_top_k import best
from lockstep.trainer.process import joined
from tests.ranks import run_ranks, store

SCORES = torch.tensor([3.0, 9, 9, 1, 7, 9, 8, 2, 6, 5, 4, 9])
CUTS = {
    "in blocks": lambda ids, rank: ids.chunk(3)[rank],
    "dealt": lambda ids, rank: ids[rank::3],
    "all on one": lambda ids, rank: ids if rank == 1 else ids[:0],
}


def picked(cut: str, *counts: int) -> list[list[int]]:
    with joined(30, store()):
        ids = CUTS[cut](torch.arange(12).flip(0), dist.get_rank())
        return [best(SCORES[ids], ids, count).tolist() for count in counts]


@pytest.mark.parametrize("cut", CUTS)
def test_every_rank_has_the_same_best(cut: str) -> None:
    """However the pool is divided among three ranks, each ends with the same
    best candidates, in the same order, as one process."""
    order = sorted(range(12), key=lambda i: (-SCORES[i], i))
    expected = [order[:2], order[:5], order]
    assert run_ranks(3, picked, cut, 2, 5, 12) == [expected] * 3


def share_of_each(count: int) -> list[int]:
    """The wrong way: each rank fills its own part of the plate."""
    with joined(30, store()):
        ids = CUTS["in blocks"](torch.arange(12), dist.get_rank())
        mine = ids[SCORES[ids].topk(count // 3).indices]
        every = [torch.empty_like(mine) for _ in range(3)]
        dist.all_gather(every, mine)
    return sorted(torch.cat(every).tolist())


def test_a_share_for_each_rank_misses_some_of_the_best() -> None:
    """Three ranks that each give their own best find only two of the three best
    of all."""
    shared, *_ = run_ranks(3, share_of_each, 3)
    [whole], *_ = run_ranks(3, picked, "in blocks", 3)
    assert len(set(shared) & set(whole)) == 2


def faulty(kind: str) -> str:
    with joined(30, store()):
        scores = SCORES.chunk(2)[dist.get_rank()].clone()
        ids = torch.arange(12).chunk(2)[dist.get_rank()]
        if kind == "NaN" and dist.get_rank() == 1:
            scores[0] = torch.nan
        try:
            best(scores, ids, 13 if kind == "many" else 3)
        except ValueError as error:
            return str(error)
    return ""


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("NaN", "scores of ranks [1] have a NaN"),
        ("many", "13 are wanted, and the pool has 12"),
    ],
)
def test_what_cannot_be_picked_fails_on_every_rank(kind: str, why: str) -> None:
    assert run_ranks(2, faulty, kind) == [why, why]
