"""What the rows that the planner gets wrong have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from lockstep.experiments.published_runs.compare import (
    Comparison,
    low_precision,
    shape,
)
from lockstep.experiments.published_runs.rows import Row

# The first Megatron-LM and V100 reports; flash attention came in 2022.
OLD = re.compile(r"Narayanan|Korthikanti|bigscience|OneFlow", re.I)
NARROW = 4096
LONG = 32768  # tokens
MANY = 1024  # GPUs


def _crosses(name: str) -> Callable[[Row], bool]:
    """Return whether a group of a row's ranks is larger than a node."""

    def crosses(row: Row) -> bool:
        found = shape(row)
        ranks = found["tp"] * (found["cp"] * found["ep"] if name == "ep" else 1)
        return bool(found[name] > 1 and ranks > found["gpus_per_node"])

    return crosses


def _width(found: dict[str, Any]) -> float:
    """Return the narrower of the model's width and its experts' width."""
    narrow = found["hidden"]
    if found["experts"]:
        narrow = min(narrow, found["expert_ffn"] or found["ffn"])
    return narrow


CAUSES: dict[str, Callable[[Row], bool]] = {
    "matmuls in FP8 or FP4": low_precision,
    f"a width below {NARROW:,}": lambda row: _width(shape(row)) < NARROW,
    "experts across nodes": _crosses("ep"),
    "tensor parallelism across nodes": _crosses("tp"),
    f"sequences of {LONG:,} tokens or more": (
        lambda row: row.given["sequence"] >= LONG
    ),
    f"more than {MANY:,} GPUs": lambda row: row.given["gpus"] > MANY,
    "software of 2021 and 2022": lambda row: bool(OLD.search(row.source)),
    "network unknown": lambda row: bool(
        re.search(r"network[^;]*(not stated|taken as)", row.assumed)
    ),
}


def by_cause(
    found: Iterable[Comparison],
) -> dict[str, tuple[list[Comparison], list[Comparison]]]:
    """Split the comparisons by each cause into those that have it and the
    others, and at the end into those without any cause and the others."""
    every = [*found]
    split = {
        cause: (
            [one for one in every if touches(one.row)],
            [one for one in every if not touches(one.row)],
        )
        for cause, touches in CAUSES.items()
    }
    none = [
        one
        for one in every
        if not any(touches(one.row) for touches in CAUSES.values())
    ]
    split["none of these"] = none, [one for one in every if one not in none]
    return split
