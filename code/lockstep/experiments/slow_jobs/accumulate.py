"""All-reduces for nothing: gradients are reduced after each micro-batch."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from torch.nn.utils import parameters_to_vector

from lockstep.experiments.slow_jobs.measuring import Committed, train
from lockstep.instruments.traffic import Call, Traffic
from lockstep.trainer.model import DataParallel

RANKS = 2
MICRO_BATCHES, STEPS = 4, 6


# --8<-- [start:every]
class EveryTime(DataParallel):
    """Each backward pass communicates: no one has called `no_sync`."""

    def sync_on(self, last: bool) -> AbstractContextManager:
        return nullcontext()


# --8<-- [end:every]
ROWS: dict[str, type[DataParallel]] = {
    "slow": EveryTime,
    "mended": DataParallel,
}


def measured(folder: str) -> dict[str, Any]:
    """On a rank: the all-reduces of one step, in bytes; and the weights."""
    found: dict[str, Any] = {"weights": {}}
    for name, strategy in ROWS.items():
        traffic, one = Traffic(), strategy()
        mark = Committed(lambda to=traffic: to.events.append("step"))  # type: ignore[misc]
        with traffic:
            train(
                Path(folder, name),
                mark,
                strategy=one,
                max_steps=STEPS,
                micro_batch_size=8,
                grad_accum_steps=MICRO_BATCHES,
            )
        found[name] = reduced(traffic)
        weights = parameters_to_vector(one.module.parameters())
        found["weights"][name] = weights.tolist()
    return found


def reduced(traffic: Traffic) -> list[int]:
    """Bytes of each all-reduce between the last two commits, but for the loss,
    which is one number."""
    *_, begin, end = (i for i, e in enumerate(traffic.events) if e == "step")
    calls = (e for e in traffic.events[begin:end] if isinstance(e, Call))
    return [c.bytes for c in calls if c.op == "all_reduce" and c.bytes > 4]


def told(ranks: list[dict[str, Any]]) -> list[str]:
    """The counts."""
    return [
        f"{name}: a step of {MICRO_BATCHES} micro-batches reduces gradients"
        f" {len(sizes)} x, {sum(sizes):,} bytes"
        for name, sizes in ((name, ranks[0][name]) for name in ROWS)
    ]
