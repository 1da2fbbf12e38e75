"""What the measurements come to, and whether the trainer holds its limits."""

from collections.abc import Iterable, Iterator
from math import sqrt
from statistics import median, quantiles
from typing import Any

from lockstep.experiments.benchmarks.settings import LIMIT

RIVALS = "bare", "fabric", "accelerate"


def spread(values: Iterable[float]) -> dict[str, float]:
    """Median, and lower and upper quartile."""
    q1, middle, q3 = quantiles(values, n=4, method="inclusive")
    return {"median": middle, "q1": q1, "q3": q3}


def interval(values: Iterable[float]) -> dict[str, float]:
    """Median, and its 95 % confidence interval: the order statistics between
    which a fair coin puts it, whatever the distribution."""
    ordered = sorted(values)
    outside = max(0, int(len(ordered) / 2 - 0.98 * sqrt(len(ordered))))
    low, high = ordered[outside], ordered[-1 - outside]
    return {"median": median(ordered), "low": low, "high": high}


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """Per model and loop: `seconds` per step, and `extra` seconds and `ratio`
    beside the bare loop in the same round. Per model: the trainer's seconds
    `over` each rival's in the same round, and a checkpoint's `wall` and
    `cpu` seconds and its `bytes`. Per sampler and length: medians."""
    return {
        "steps": {
            model: {
                name: beside(seconds, loops["bare"])
                for name, seconds in loops.items()
            }
            for model, loops in found["steps"].items()
        },
        "over": {
            model: {
                rival: interval(
                    ours / theirs
                    for ours, theirs in zip(
                        loops["lockstep"], loops[rival], strict=True
                    )
                )
                for rival in RIVALS
            }
            for model, loops in found["steps"].items()
        },
        "checkpoints": {
            model: {
                "wall": spread(save["wall"] for save in saves),
                "cpu": spread(save["cpu"] for save in saves),
                "bytes": median(save["bytes"] for save in saves),
            }
            for model, saves in found["checkpoints"].items()
        },
        "orders": [
            {
                key: median(value) if isinstance(value, list) else value
                for key, value in row.items()
            }
            for row in found["orders"]
        ],
    }


def beside(seconds: list[float], bare: list[float]) -> dict[str, Any]:
    """One loop's cost, paired round by round with the bare loop's."""
    pairs = list(zip(seconds, bare, strict=True))
    return {
        "seconds": spread(seconds),
        "extra": spread(its - other for its, other in pairs),
        "ratio": spread(its / other for its, other in pairs),
    }


def broken(summed: dict[str, Any]) -> Iterator[str]:
    """Each limit that does not hold, in a sentence."""
    for model, over in summed["over"].items():
        for rival, ratio in over.items():
            if not held(rival, ours := ratio["median"]):
                limit = f"at most {LIMIT}" if rival == "bare" else "below 1"
                yield f"{model}: {ours:.4f} of {rival}, not {limit}"


def held(rival: str, ratio: float) -> bool:
    """The trainer may take a little more than the bare loop, and has to take
    less than a peer."""
    return ratio <= LIMIT if rival == "bare" else ratio < 1
