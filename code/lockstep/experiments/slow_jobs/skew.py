"""A late rank: one has the long samples, and the other waits for it."""

from typing import Any

from lockstep.experiments.slow_jobs.rig import by_rank, flops, lab, table
from lockstep.labs.lab_11_profiling import slow, solution

RANKS = 2


# --8<-- [start:swapped]
class Swapped(slow.C):
    """The move: each rank takes the other one's share."""

    def share(self, ids: list[int]) -> list[int]:
        part = len(ids) // self.world
        return ids[part * (self.world - 1 - self.rank) :][:part]


# --8<-- [end:swapped]
ROWS = {"slow": slow.C, "swapped": Swapped, "mended": solution.C}


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
