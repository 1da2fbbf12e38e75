"""What the measurements come to, and whether the trainer holds its limits."""

from collections.abc import Iterable, Iterator
from statistics import median, quantiles
from typing import Any

from lockstep.bench.settings import LIMIT

PEERS = "accelerate", "fabric"


def spread(values: Iterable[float]) -> dict[str, float]:
    """Median, and lower and upper quartile."""
    q1, middle, q3 = quantiles(values, n=4, method="inclusive")
    return {"median": middle, "q1": q1, "q3": q3}


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """Per model and loop: `seconds` per step, and `extra` seconds and `ratio`
    beside the bare loop in the same round. Per model: a checkpoint's `wall` and
    `cpu` seconds and its `bytes`. Per sampler and length: medians."""
    return {
        "steps": {
            model: {
                name: beside(seconds, loops["bare"])
                for name, seconds in loops.items()
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
    for model, loops in summed["steps"].items():
        ratio = {name: loop["ratio"]["median"] for name, loop in loops.items()}
        ours = ratio["lockstep"]
        if ours > LIMIT:
            yield f"{model}: {ours:.4f} of the bare loop, over {LIMIT}"
        for peer in PEERS:
            if ours >= (its := ratio[peer]):
                yield f"{model}: {ours:.4f}, not below {peer}'s {its:.4f}"
