"""What the planner predicts for each published run, next to what was measured.

A ratio is predicted over published speed, so the planner is too fast above 1.
Sources publish one of four figures, and the comparison takes the first that a
row has, because each later one depends on a convention:

- tokens a second per GPU, and seconds of a step, which are the same figure
- TFLOP/s per GPU: the peak times the planner's MFU, or times the other share
  that the row says its source counts. As in Megatron-LM, from which nearly all
  of these figures come, the table that tokens are looked up in doesn't count.
- MFU, or that other share

Memory is the fullest rank's, in GB of 10⁹ bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from math import log
from statistics import median
from typing import Any

from lockstep.experiments.published_runs.rows import Row, rows
from lockstep.planner.figures import PlanError, plain
from lockstep.planner.models import params
from lockstep.planner.questions import QUESTIONS, cluster_of

THROUGHPUT = "tokens_per_s_per_gpu", "step_s", "tflops_per_gpu", "mfu"
UNITS = {
    "tokens_per_s_per_gpu": "tokens/s per GPU",
    "step_s": "s per step",
    "tflops_per_gpu": "TFLOP/s per GPU",
    "mfu": "MFU",
    "memory_gb": "GB",
}
# Runs of which the planner says "does not fit", though they ran, and why: their
# sources leave open what the memory depends on.
EARLY = (
    "the paper frees tensors early, in ways that it doesn't list, to train"
    " without recomputing"
)
XLA = "nobody published what XLA keeps of a micro-batch's logits"
LEFT_OPEN = {
    "llama3-405b-8192-cp1": EARLY,
    "llama3-405b-16384-cp1": EARLY,
    "trillium-llama3-8b-8": XLA,
    "trillium-llama3-70b-256": XLA,
}
Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """One figure of one run: `published`, `predicted`, and the ends of the
    prediction's 90 % interval, in the unit of the source. `rate` is the
    prediction in the unit in which all runs can be compared: TFLOP/s per GPU
    of the model's operations, or GB."""

    row: Row
    figure: str
    published: float
    predicted: float
    rate: float
    interval: tuple[float, float]

    @property
    def ratio(self) -> float:
        """Return predicted over published; for a duration, the inverse."""
        ratio = self.predicted / self.published
        return 1 / ratio if self.figure == "step_s" else ratio

    @property
    def error(self) -> float:
        """Return the ratio's distance from 1 in the logarithm, so that twice is
        as far as half."""
        return abs(log(self.ratio))

    @property
    def measured_rate(self) -> float:
        """Return what was published, in the unit of `rate`."""
        return self.rate / self.ratio

    @property
    def rates(self) -> tuple[float, float]:
        """Return the interval in the unit of `rate`, its lower end first."""
        low, high = (end / self.predicted for end in self.interval)
        if self.figure == "step_s":
            low, high = 1 / high, 1 / low
        return low * self.rate, high * self.rate

    @property
    def inside(self) -> bool:
        """Return whether the interval holds the published figure."""
        low, high = self.interval
        return low <= self.published <= high

    @property
    def half_width(self) -> float:
        """Return half of the interval's width, in the logarithm."""
        low, high = self.interval
        return log(high / low) / 2


def predict(row: Row) -> Answer:
    """Ask the planner for a row's run.

    Raises:
        PlanError: the planner refuses it.
    """
    return QUESTIONS["run"].answer(row.given)


def throughput(row: Row, found: Answer) -> Comparison | None:
    """Compare the first figure of THROUGHPUT that the row publishes.

    Raises:
        PlanError: the planner knows no speed of this accelerator.
    """
    figure, published = published_speed(row)
    if published is None:
        return None
    if "step_seconds" not in found:
        raise PlanError(f"memory and no time for {found['accelerator']}")
    predicted = predicted_speed(row, found)
    peak = plain(found["peak_flops"]) / 1e12
    low, high = ends(found, "step_seconds")
    if figure != "step_s":
        low, high = 1 / high, 1 / low
    return Comparison(
        row,
        figure,
        published,
        predicted,
        rate=plain(found["mfu"]) * peak,
        interval=(low * predicted, high * predicted),
    )


def published_speed(row: Row) -> tuple[str, float | None]:
    """Return the first figure of THROUGHPUT that the row publishes, with its
    value; None without one."""
    published = row.published.model_dump(exclude_none=True)
    figure = next((name for name in THROUGHPUT if name in published), "")
    return figure, published.get(figure)


def predicted_speed(row: Row, found: Answer) -> float:
    """Return the planner's value of that figure, counted as the row's source
    counts."""
    figure, _ = published_speed(row)
    if figure == "tokens_per_s_per_gpu":
        return float(plain(found["tokens_per_second"]) / found["gpus"])
    if figure == "step_s":
        return float(plain(found["step_seconds"]))
    counted = float(plain(found[row.share]))
    if figure == "tflops_per_gpu":
        peak = plain(found["peak_flops"]) / 1e12
        return float(counted * peak - looked_up(found))
    return counted


def looked_up(found: Answer) -> float:
    """Return the TFLOP/s per GPU that the planner counts for the input's table,
    which isn't a matmul. A tied table counts once, for the output layer."""
    if found["tied_embeddings"]:
        return 0.0
    table = plain(found["embedding"]) / 2
    rate = plain(found["tokens_per_second"]) / found["gpus"]
    return float(6 * table * rate / 1e12)


def memory(row: Row, found: Answer) -> Comparison | None:
    """Compare the fullest rank's memory, if the row publishes it."""
    published = row.published.memory_gb
    if published is None:
        return None
    predicted = plain(found["total_bytes"]) / 1e9
    low, high = ends(found, "total_bytes")
    return Comparison(
        row,
        "memory_gb",
        published,
        predicted,
        rate=predicted,
        interval=(low * predicted, high * predicted),
    )


def ends(found: Answer, key: str) -> tuple[float, float]:
    """Return the ends of a figure's interval, over the figure."""
    low, high, value = (
        plain(found[name]) for name in (f"{key}_low", f"{key}_high", key)
    )
    return low / value, high / value


@dataclass(frozen=True)
class Compared:
    """All comparisons, whether the planner says that each run fits, and why
    there is no prediction of the other rows."""

    throughput: list[Comparison]
    memory: list[Comparison]
    verdicts: dict[str, str]
    missing: dict[str, str]


def compare(asked: Iterable[Row]) -> Compared:
    """Predict each row and compare what it publishes."""
    found = Compared([], [], {}, {})
    for row in asked:
        try:
            answer = predict(row)
            found.verdicts[row.id] = answer["verdict"].partition(":")[0]
            if size := memory(row, answer):
                found.memory.append(size)
            if speed := throughput(row, answer):
                found.throughput.append(speed)
        except PlanError as error:
            found.missing[row.id] = str(error)
    return found


@cache
def compared() -> Compared:
    """Compare the repository's rows."""
    return compare(rows().values())


@dataclass(frozen=True)
class Summary:
    """How far off the planner is for several comparisons: the median ratio and
    its ends, the median error and half-width, and shares of the runs within
    10 %, within 20 %, and inside their interval."""

    rows: int
    ratio: float
    least: float
    most: float
    error: float
    within_10: float
    within_20: float
    covered: float
    half_width: float


def summary(found: list[Comparison]) -> Summary:
    """Summarize at least one comparison."""
    ratios = [one.ratio for one in found]
    return Summary(
        len(found),
        median(ratios),
        min(ratios),
        max(ratios),
        median(one.error for one in found),
        share(abs(ratio - 1) <= 0.1 for ratio in ratios),
        share(abs(ratio - 1) <= 0.2 for ratio in ratios),
        share(one.inside for one in found),
        median(one.half_width for one in found),
    )


def share(of: Iterable[bool]) -> float:
    """Return how many are true, over all."""
    every = [*of]
    return sum(every) / len(every)


def grouped(
    found: Iterable[Comparison], by: Callable[[Row], str]
) -> dict[str, list[Comparison]]:
    """Group the comparisons by a property of their rows, in alphabetical
    order."""
    groups: dict[str, list[Comparison]] = {}
    for one in found:
        groups.setdefault(by(one.row), []).append(one)
    return {name: groups[name] for name in sorted(groups, key=str.lower)}


@cache
def shape(row: Row) -> dict[str, Any]:
    """Return a row's inputs with its preset's and its hardware's numbers."""
    return params(cluster_of(row.given))


def kind(row: Row) -> str:
    """Return dense or MoE, and 16 bits or FP8 or FP4."""
    model = "MoE" if shape(row)["experts"] else "dense"
    return f"{model}, {'FP8 or FP4' if low_precision(row) else '16 bits'}"


def low_precision(row: Row) -> bool:
    """Return whether the matmuls run in 8 bits or fewer."""
    return row.precision in ("fp8", "mxfp8", "nvfp4")


BY: dict[str, Callable[[Row], str]] = {
    "kind": kind,
    "hardware": lambda row: row.chip,
    "parallelism": lambda row: row.parallelism,
    "source": lambda row: row.origin,
}
