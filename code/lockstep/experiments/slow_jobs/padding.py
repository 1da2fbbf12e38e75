"""Padding: all ranks are busy, and half of what they compute is nothing."""

from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from lockstep.instruments.slow_trainers import C

RANKS = 1
SAMPLES, BATCH, WIDTH = 96, 8, 16


def drawn() -> list[int]:
    """Lengths, in the order of the epoch."""
    return Random(0).choices(C.lengths, k=SAMPLES)


# --8<-- [start:batches]
def in_order(lengths: list[int]) -> list[list[int]]:
    """Batches as the samples come."""
    return [lengths[i : i + BATCH] for i in range(0, len(lengths), BATCH)]


def alike(lengths: list[int]) -> list[list[int]]:
    """Batches of like length, in shuffled order."""
    batches = in_order(sorted(lengths))
    Random(1).shuffle(batches)
    return batches


# --8<-- [end:batches]
def attention(x: Tensor, weight: Tensor) -> Tensor:
    """(batch, length, width) to the same: a product, and attention."""
    h = x @ weight
    return (h @ h.mT).softmax(-1) @ h


def flops(batches: list[list[int]]) -> int:
    """Of one forward pass over all, each batch padded to its longest."""
    weight = torch.ones(WIDTH, WIDTH)
    with FlopCounterMode(display=False) as counter:
        for batch in batches:
            attention(torch.ones(len(batch), max(batch), WIDTH), weight)
    total: int = counter.get_total_flops()
    return total


def measured(folder: str) -> dict[str, Any]:
    """Tokens that are real, over those computed; and FLOPs likewise."""
    lengths = drawn()
    needed = flops([[length] for length in lengths])
    found = {}
    for name, how in {"slow": in_order, "mended": alike}.items():
        batches = how(lengths)
        computed = sum(len(batch) * max(batch) for batch in batches)
        found[name] = sum(lengths) / computed, needed / flops(batches)
    return found


def told(ranks: list[dict[str, Any]]) -> list[str]:
    """The shares."""
    (found,) = ranks
    return [
        f"{name}: of the tokens {tokens:.0%} are real, of the FLOPs {work:.0%}"
        for name, (tokens, work) in found.items()
    ]
