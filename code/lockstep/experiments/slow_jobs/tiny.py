"""Many small operations: each costs its call, whatever it computes."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lockstep.experiments.slow_jobs.measuring import Operations

RANKS = 1
LAYERS, WIDTH, BATCH = 64, 16, 8
ROUNDS = 15
Step = Callable[[], None]


def stepper(layers: int, width: int, batch: int, fused: bool) -> Step:
    """A training step of an MLP: forward, backward, AdamW."""
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)))
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    x: Tensor = torch.randn(batch, width)

    def step() -> None:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def measured(folder: str) -> dict[str, Any]:
    """Operations of a step, and least CPU seconds: all take turns."""
    steps = {
        "slow": stepper(LAYERS, WIDTH, BATCH, False),
        "slow, twice the batch": stepper(LAYERS, WIDTH, 2 * BATCH, False),
        "mended": stepper(LAYERS, WIDTH, BATCH, True),
        "wide": stepper(2, 512, 256, True),
        "wide, twice the batch": stepper(2, 512, 512, True),
    }
    seconds = dict.fromkeys(steps, float("inf"))
    counts = {}
    for name, step in steps.items():
        step()  # which makes the optimizer's state
        with Operations() as seen:
            step()
        counts[name] = seen.counts.total()
    for _ in range(ROUNDS):
        for name, step in steps.items():
            begin = time.process_time()
            step()
            took = time.process_time() - begin
            seconds[name] = min(seconds[name], took)
    return {"operations": counts, "seconds": seconds}


def told(ranks: list[dict[str, Any]]) -> list[str]:
    """A line for each, and what twice the batch costs."""
    (found,) = ranks
    counts, seconds = found["operations"], found["seconds"]
    lines = [
        f"{name:24}{counts[name]:6,} operations{1e3 * s:9.2f} ms of CPU"
        for name, s in seconds.items()
    ]
    for name in ("slow", "wide"):
        ratio = seconds[name + ", twice the batch"] / seconds[name]
        most = "less" if ratio < 1.4 else "more"
        lines.append(f"{name}: twice the batch costs {most} than 1.4 times")
    return lines
