"""A starved loader: every rank decodes in the loop."""

import time
from functools import cache

from lockstep.experiments.slow_jobs.measuring import (
    Phases,
    by_rank,
    lab,
    leads,
    table,
)
from lockstep.instruments import slow_trainers as slow

RANKS = 2


# --8<-- [start:cached]
class Cached(slow.A):
    """The move: train on one batch again and again."""

    batch: list[slow.Sample] | None = None

    def load(self, step: int) -> list[slow.Sample]:
        self.batch = self.batch or super().load(step)
        return self.batch


# --8<-- [end:cached]
class Mended(slow.A):
    """Decodes a line once."""

    decode = cache(slow.A.decode)


ROWS = {"slow": slow.A, "one batch": Cached, "mended": Mended}


def measured(folder: str) -> dict[str, dict[str, Phases]]:
    """On a rank: phases by the wall's clock, and by this thread's, which runs
    only while the thread does."""
    clocks = {"wall": time.perf_counter, "cpu": time.thread_time}
    return {name: lab(ROWS, clock, turns=2) for name, clock in clocks.items()}


def told(ranks: list[dict[str, dict[str, Phases]]]) -> list[str]:
    """The table, and where a rank computes in `load` most of all."""
    lines = table(by_rank([rank["wall"] for rank in ranks]), "checkpoint")
    cpu = by_rank([rank["cpu"] for rank in ranks])
    where = (name for name, rank in cpu.items() if leads(rank) == "load")
    return [*lines, f"most CPU time is in load: {', '.join(where)}"]
