"""Recompiles: a number that changes is a new program to torch.compile."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lockstep.experiments.demos.torch_compile import fresh

RANKS = 1
CALLS = 20


# --8<-- [start:counter]
class Counter(nn.Module):
    """Warms up by a count that it keeps as a Python number."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.seen = 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += 1
        return self.layer(x) * min(1.0, self.seen / 10)


class Buffer(Counter):
    """Keeps it as a tensor."""

    seen: Any

    def __init__(self) -> None:
        super().__init__()
        del self.seen
        self.register_buffer("seen", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += 1
        return self.layer(x) * (self.seen / 10).clamp(max=1.0)


# --8<-- [end:counter]
class Branch(Counter):
    """Asks the data which way to go: the graph ends there."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return y * 2 if y.sum() > 0 else y - 1


def compiled(
    module: nn.Module, length: Callable[[int], int], **how: Any
) -> tuple[int, int]:
    """Graphs that `CALLS` calls compile, and calls that run any. Nothing is
    generated: the backend runs the graph as it is."""
    graphs = 0
    ran: set[int] = set()
    call = 0

    def backend(graph: Any, inputs: Any) -> Any:
        nonlocal graphs
        graphs += 1

        def run(*args: Any) -> Any:
            ran.add(call)
            return graph.forward(*args)

        return run

    with fresh():
        quick = torch.compile(module, backend=backend, **how)
        for call in range(CALLS):
            quick(torch.ones(length(call), 8))
    return graphs, len(ran)


def measured(folder: str) -> dict[str, tuple[int, int]]:
    """Graphs and calls that ran one."""

    def same(call: int) -> int:
        return 4

    def grows(call: int) -> int:
        return 4 + call

    return {
        "a Python counter": compiled(Counter(), same),
        "a buffer": compiled(Buffer(), same),
        "lengths, dynamic=False": compiled(Buffer(), grows, dynamic=False),
        "lengths": compiled(Buffer(), grows),
        "a branch on data": compiled(Branch(), same),
    }


def told(ranks: list[dict[str, tuple[int, int]]]) -> list[str]:
    """A line for each."""
    (found,) = ranks
    return [
        f"{name:24}{graphs:3} graphs compiled, run in {ran:2} of {CALLS} calls"
        for name, (graphs, ran) in found.items()
    ]
