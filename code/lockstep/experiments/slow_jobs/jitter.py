"""Late in turns: in each step another rank has the long sample."""

from typing import Any

from lockstep.experiments.slow_jobs.measuring import by_rank, flops, lab, table
from lockstep.instruments import slow_trainers as slow

RANKS = 2


# --8<-- [start:jitter]
class Jitter(slow.Trainer):
    """A step has two samples, in the order in which they came."""

    lengths = 64, 512, 512, 64
    batch_size = 2
    samples = 16

    def __init__(self, store: slow.Store) -> None:
        super().__init__(store)
        self.lines = [self.line(i) for i in range(self.samples)]
        self.order = self.dealt()

    def dealt(self) -> list[int]:
        return [*range(self.samples)]

    def load(self, step: int) -> list[slow.Sample]:
        mine = self.order[step * self.batch_size + self.rank]
        return [self.decode(self.lines[mine])]


class Mended(Jitter):
    """The samples of a step are of like length."""

    def dealt(self) -> list[int]:
        return sorted(super().dealt(), key=lambda i: len(self.lines[i]))


# --8<-- [end:jitter]
ROWS = {"slow": Jitter, "mended": Mended}


def measured(folder: str) -> dict[str, Any]:
    """On a rank: phases, and FLOPs step by step."""
    work = {name: flops(one) for name, one in ROWS.items()}
    return {"phases": lab(ROWS, turns=12), "flops": work}


def over_mean(ranks: list[dict[str, Any]], name: str) -> tuple[float, float]:
    """The busiest rank over the mean: of the run's totals, and of each step,
    where all wait for it."""
    work = [rank["flops"][name] for rank in ranks]
    share = sum(map(sum, work)) / len(work)
    steps = zip(*work, strict=True)
    return max(map(sum, work)) / share, sum(map(max, steps)) / share


def told(ranks: list[dict[str, Any]]) -> list[str]:
    """The table, and the two ratios."""
    lines = table(by_rank([rank["phases"] for rank in ranks]), "checkpoint")
    for name in ROWS:
        run, step = over_mean(ranks, name)
        lines.append(
            f"{name}: the busiest rank multiplies {run:.2f} x the mean in all,"
            f" {step:.2f} x step by step"
        )
    return lines
