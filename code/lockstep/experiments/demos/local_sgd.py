"""Ranks that agree seldom: what they send, and what they learn.

    python -m lockstep.experiments.demos.local_sgd

Four gloo ranks train a small network on the digits of scikit-learn, each on a
quarter of them, for as many steps and samples whatever they send. A quarter is
a random one, or has two or three of the ten digits.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

from lockstep.instruments.forked import in_a_group
from lockstep.instruments.traffic import Traffic
from lockstep.parallel.local_steps import LocalSteps

RANKS, STEPS, BATCH, HELD_OUT = 4, 240, 16, 360
RATE = 3e-3  # of each rank's AdamW
Keep = Callable[[], None]


class Seen(NamedTuple):
    """What one way of training sent and learned."""

    messages: int
    sent: float  # bytes, over one all-reduce of all weights at every step
    largest: float  # message, over the bytes of all weights
    right: float  # share of held-out digits, by the mean of all ranks' weights
    apart: float  # the same, where each rank has digits of its own


def digits() -> tuple[Tensor, Tensor]:
    """Pixels from 0 to 1, (1797, 64), and labels, in one random order."""
    found = load_digits()
    order = torch.randperm(
        len(found.target), generator=torch.Generator().manual_seed(0)
    )
    pixels = torch.tensor(found.data, dtype=torch.float32) / 16
    return pixels[order], torch.tensor(found.target)[order]


def network() -> nn.Sequential:
    """Alike on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU()),
        nn.Linear(64, 10),
    )


def at_every_step(net: nn.Sequential) -> Keep:
    """Data parallelism: before a step, gradients become their mean."""
    params = list(net.parameters())

    def mean() -> None:
        grads = [p.grad.flatten() for p in params if p.grad is not None]
        flat = torch.cat(grads) / RANKS
        dist.all_reduce(flat)
        for param, part in zip(
            params, flat.split([p.numel() for p in params]), strict=True
        ):
            param.grad = part.view_as(param)

    return mean


def whole(net: nn.Sequential) -> list[list[nn.Parameter]]:
    """One fragment."""
    return [list(net.parameters())]


def by_layer(net: nn.Sequential) -> list[list[nn.Parameter]]:
    """A fragment for each linear layer."""
    layers = (one for one in net if isinstance(one, nn.Linear))
    return [list(layer.parameters()) for layer in layers]


def seldom(
    net: nn.Sequential,
    cut: Callable[[nn.Sequential], list[list[nn.Parameter]]] = whole,
    **settings: Any,
) -> Keep:
    """Local steps."""
    return LocalSteps(cut(net), **settings).after_step


AVERAGED: dict[str, Any] = {"rate": 1.0, "momentum": 0.0}
STREAMED: dict[str, Any] = {"every": 20, "delay": 2, "keep": 0.5}
CASES: dict[str, tuple[bool, Callable[[nn.Sequential], Keep]]] = {
    "gradients, every step": (True, at_every_step),
    "weights, every 20": (False, partial(seldom, every=20, **AVERAGED)),
    "weights, every 60": (False, partial(seldom, every=60, **AVERAGED)),
    "DiLoCo, every 20": (False, partial(seldom, every=20)),
    "streaming, every 20": (False, partial(seldom, cut=by_layer, **STREAMED)),
    "never": (False, partial(seldom, every=STEPS + 1)),
}


def trained(
    before: bool,
    build: Callable[[nn.Sequential], Keep],
    sorted_by_digit: bool,
    watch: Traffic | None = None,
) -> tuple[nn.Sequential, float]:
    """Train this rank's part: the mean of all ranks' networks, and the share of
    held-out digits that it gets right.

    Args:
        before: whether ranks agree before the optimizer's step or after it.
        sorted_by_digit: whether each rank has digits of its own.
    """
    net, (x, y) = network(), digits()
    order = torch.arange(HELD_OUT, len(y))
    if sorted_by_digit:
        mine = order[y[order].argsort(stable=True)].chunk(RANKS)
    else:
        mine = order.chunk(RANKS)
    own = mine[dist.get_rank()]
    keep = build(net)
    optimizer = torch.optim.AdamW(net.parameters(), RATE)
    chance = torch.Generator().manual_seed(dist.get_rank())
    with watch or nullcontext():
        for _ in range(STEPS):
            at = own[torch.randint(len(own), (BATCH,), generator=chance)]
            optimizer.zero_grad()
            F.cross_entropy(net(x[at]), y[at]).backward()
            if before:
                keep()
            optimizer.step()
            if not before:
                keep()
    with torch.no_grad():
        for param in net.parameters():
            dist.all_reduce(param)
            param.div_(RANKS)
        found = net(x[:HELD_OUT]).argmax(1) == y[:HELD_OUT]
    return net, found.float().mean().item()


def both(before: bool, build: Callable[[nn.Sequential], Keep]) -> Seen:
    """One way of training, on either kind of share."""
    traffic = Traffic()
    net, right = trained(before, build, False, traffic)
    _, apart = trained(before, build, True)
    size = 4 * sum(param.numel() for param in net.parameters())
    sizes = [call.bytes for call in traffic.calls]
    return Seen(
        len(sizes),
        sum(sizes) / (size * STEPS),
        max(sizes, default=0) / size,
        right,
        apart,
    )


def seen() -> dict[str, Seen]:
    """Every case, on this rank."""
    return {name: both(*case) for name, case in CASES.items()}


def main() -> None:
    """A line for each case."""
    print(f"{'':23}messages   sent  largest    alike  by digit")
    for name, one in in_a_group(RANKS, seen)[0].items():
        print(
            f"{name:23}{one.messages:8} {one.sent:6.3f} {one.largest:8.2f}"
            f" {one.right:8.0%} {one.apart:9.0%}"
        )


if __name__ == "__main__":
    main()
