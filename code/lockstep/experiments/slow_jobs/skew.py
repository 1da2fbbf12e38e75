"""A late rank: one has the long samples, and the other waits for it."""

from typing import Any

from lockstep.experiments.slow_jobs.measuring import by_rank, flops, lab, table
from lockstep.instruments import slow_trainers as slow

RANKS = 2


# --8<-- [start:swapped]
class Swapped(slow.C):
    """The move: each rank takes the other one's share."""

    def share(self, ids: list[int]) -> list[int]:
        part = len(ids) // self.world
        return ids[part * (self.world - 1 - self.rank) :][:part]


# --8<-- [end:swapped]
class Mended(slow.C):
    """Deals the longest samples first, each to the rank with the least work."""

    def share(self, ids: list[int]) -> list[int]:
        work = {i: self.lengths[i] ** 2 for i in ids}
        shares: list[list[int]] = [[] for _ in range(self.world)]
        for i in sorted(ids, key=lambda i: -work[i]):
            min(shares, key=lambda s: sum(work[j] for j in s)).append(i)
        return shares[self.rank]


ROWS = {"slow": slow.C, "swapped": Swapped, "mended": Mended}


def measured(folder: str) -> dict[str, Any]:
    """On a rank: phases, and FLOPs of all steps."""
    work = {name: sum(flops(one)) for name, one in ROWS.items()}
    return {"phases": lab(ROWS, turns=12), "flops": work}


def busiest(ranks: list[dict[str, Any]], name: str) -> tuple[int, float]:
    """Which rank has most to compute, and how many times the mean."""
    work = [rank["flops"][name] for rank in ranks]
    return work.index(max(work)), max(work) * len(work) / sum(work)


def told(ranks: list[dict[str, Any]]) -> list[str]:
    """The table, and who has how much to compute."""
    lines = table(by_rank([rank["phases"] for rank in ranks]), "checkpoint")
    for name in ROWS:
        who, times = busiest(ranks, name)
        lines.append(f"{name}: rank {who} multiplies {times:.2f} x the mean")
    return lines
