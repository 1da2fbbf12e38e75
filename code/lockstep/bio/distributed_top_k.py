"""The best of a pool that is scored on many ranks: the same on each of them."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


# --8<-- [start:best]
def best(
    scores: Tensor,
    ids: Tensor,
    count: int,
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    """Return the ids of the highest scores on all ranks, best first, [count].

    Each rank sends its own `count` best, since all of the best may lie on one.
    Of equal scores the lower id wins, so that the plate does not depend on how
    the pool was cut.

    Args:
        scores: this rank's [candidates], float.
        ids: of the same candidates, int64, none of them on two ranks.

    Raises:
        ValueError: a score is no number, or the pool has fewer candidates; on
            every rank, as each sees the same.
    """
    bad = -1.0 if scores.isnan().any() else float(len(scores))
    sizes = torch.zeros(dist.get_world_size(group), dtype=torch.float64)
    sizes[dist.get_rank(group)] = bad
    dist.all_reduce(sizes, group=group)
    if (sizes < 0).any():
        wrong = torch.nonzero(sizes < 0).flatten().tolist()
        raise ValueError(f"scores of ranks {wrong} have a NaN")
    if (total := int(sizes.sum())) < count:
        raise ValueError(f"{count} are wanted, and the pool has {total}")
    mine = torch.full((count, 2), -torch.inf, dtype=torch.float64)
    order = _order(scores.double(), ids)[:count]
    mine[: len(order), 0] = scores.double()[order]
    mine[: len(order), 1] = ids.double()[order]  # exact below 2⁵³
    every = [torch.empty_like(mine) for _ in range(len(sizes))]
    dist.all_gather(every, mine, group=group)
    whole = torch.cat(every)
    whole = whole[whole[:, 1] >= 0]
    found = whole[:, 1].long()
    return found[_order(whole[:, 0], found)[:count]]


def _order(scores: Tensor, ids: Tensor) -> Tensor:
    """Highest score first, then lowest id."""
    by_id = torch.argsort(ids)
    return by_id[torch.argsort(scores[by_id], descending=True, stable=True)]


# --8<-- [end:best]
