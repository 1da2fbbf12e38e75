"""Nothing to hide behind: one bucket, which waits for the last gradient."""

from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lockstep.experiments.slow_jobs.measuring import Committed, train
from lockstep.instruments.traffic import Call, Traffic
from lockstep.trainer.model import DataParallel

RANKS = 2
STEPS = 4
MEGABYTES = {"slow": 25.0, "mended": 0.1}  # of a bucket; the model has 0.3


# --8<-- [start:buckets]
class Buckets(DataParallel):
    """DDP with buckets of that size, whose gradients are noted."""

    def __init__(self, megabytes: float, traffic: Traffic) -> None:
        self.megabytes, self.traffic = megabytes, traffic

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        self.module = model.to(device)
        self.ddp = DistributedDataParallel(model, bucket_cap_mb=self.megabytes)
        for parameter in model.parameters():
            parameter.register_hook(self.note)
        return self.ddp

    def note(self, gradient: torch.Tensor) -> None:
        self.traffic.events.append("gradient")


# --8<-- [end:buckets]
def measured(folder: str) -> dict[str, list[str]]:
    """On a rank: gradients and all-reduces of one step, in order."""
    found = {}
    for name, megabytes in MEGABYTES.items():
        traffic = Traffic()
        mark = Committed(lambda to=traffic: to.events.append("step"))  # type: ignore[misc]
        with traffic:
            train(
                Path(folder, name),
                mark,
                strategy=Buckets(megabytes, traffic),
                max_steps=STEPS,
                hidden_size=256,
            )
        found[name] = order(traffic)
    return found


def order(traffic: Traffic) -> list[str]:
    """What happened between the last two commits, but for the loss."""
    *_, begin, end = (i for i, e in enumerate(traffic.events) if e == "step")
    return [
        event if isinstance(event, str) else event.op
        for event in traffic.events[begin + 1 : end]
        if not (isinstance(event, Call) and event.bytes == 4)
    ]


def hidden(events: list[str]) -> tuple[int, int, int]:
    """All-reduces, gradients, and those that are still to come when the first
    all-reduce starts."""
    first = events.index("all_reduce")
    every = events.count("gradient")
    return (
        events.count("all_reduce"),
        every,
        events[first:].count("gradient"),
    )


def told(ranks: list[dict[str, list[str]]]) -> list[str]:
    """The order, as a picture, and the count."""
    lines = []
    for name, events in ranks[0].items():
        drawn = "".join("R" if e == "all_reduce" else "g" for e in events)
        calls, every, later = hidden(events)
        lines.append(
            f"{name:8}{drawn:10}all-reduces: {calls}; after the first"
            f" starts come {later} of {every} gradients"
        )
    return lines
