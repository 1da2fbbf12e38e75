"""Fit the planner's constants to the published runs.

    python -m lockstep.experiments.published_runs.fit [--rows]

For throughput, the sum over the runs of a robust loss of log(predicted /
published) becomes least, and each constant pays for its distance from what its
part of the machine makes plausible (PLAUSIBLE). Memory's constants minimize the
sum of absolute logarithms.

An error that a reader should expect comes from fits that leave one source out
at a time: rows of one table resemble each other. The planner's intervals are
made of these errors.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from math import ceil, exp, log
from pathlib import Path
from statistics import median
from typing import Any

import numpy
from scipy.optimize import least_squares, minimize

from lockstep.experiments.published_runs.compare import (
    predicted_speed,
    published_speed,
)
from lockstep.experiments.published_runs.rows import ROWS, Row, read
from lockstep.planner.constants import (
    CONSTANTS,
    FAMILIES,
    FITTED,
    VALUES,
    WIDTHS,
)
from lockstep.planner.figures import FUNCTIONS, Figure, plain
from lockstep.planner.questions import ask
from lockstep.planner.seconds import timed

# By constant: the least, the most, a plausible value, and its uncertainty.
PLAUSIBLE: dict[str, tuple[float, float, float, float]] = {
    "matmul_v100": (0.2, 0.95, 0.65, 0.1),
    "matmul_a100": (0.3, 0.95, 0.8, 0.06),
    "matmul_h100": (0.3, 0.95, 0.75, 0.07),
    "matmul_h100_fp8": (0.2, 0.95, 0.62, 0.08),
    "matmul_b200": (0.3, 0.95, 0.7, 0.1),
    "matmul_b200_fp8": (0.2, 0.95, 0.55, 0.1),
    "matmul_b200_fp4": (0.1, 0.95, 0.35, 0.1),
    "matmul_mi300x": (0.2, 0.95, 0.5, 0.1),
    "matmul_mi300x_fp8": (0.1, 0.95, 0.35, 0.1),
    "matmul_tpu": (0.3, 0.95, 0.8, 0.1),
    "matmul_tpu_fp8": (0.2, 0.95, 0.6, 0.1),
    "attention_v100": (0.02, 0.6, 0.1, 0.06),
    "attention_a100": (0.05, 0.9, 0.5, 0.1),
    "attention_h100": (0.05, 0.9, 0.45, 0.1),
    "attention_b200": (0.05, 0.9, 0.4, 0.1),
    "attention_tpu": (0.05, 0.9, 0.5, 0.1),
    "attention_h100_torch": (0.05, 0.9, 0.25, 0.08),
    "attention_b200_torch": (0.02, 0.9, 0.12, 0.06),
    "attention_mi300x": (0.02, 0.9, 0.2, 0.1),
    "operand_passes": (0, 4, 1, 0.4),
    "elementwise_passes": (0, 30, 8, 4),
    "layer_gap": (0, 2e-3, 1e-4, 1e-4),
    "expert_gap": (0, 1e-2, 3e-3, 0.7e-3),
    "exposed_tensor": (0, 4, 1.2, 0.4),
    "exposed_tensor_fused": (0, 3, 0.5, 0.3),
    "exposed_expert": (0, 3, 0.7, 0.3),
    "hidden_share": (0, 1, 0.8, 0.2),
    "straggling": (0, 0.05, 0.005, 0.004),
}
PLAUSIBLE_MEMORY: dict[str, tuple[float, float]] = {
    "context_memory": (0.6e9, 0.3e9),
    "group_memory": (0.7e9, 0.4e9),
    "fragmented": (0.08, 0.06),
}
WEIGHT = 0.05  # of a constant at one uncertainty, in units of the logarithm
ROBUST = 0.1  # a row that is further off counts linearly
COVERED = 0.9
DIGITS = 3
# Rows whose memory the command can't describe, each with the reason.
OTHER_TORCH = "the same run holds 51 GB on an H100: another version of torch"
NOT_MEMORY = {
    "titan-8b-h200-32": "its loss keeps less than 12 bytes of a logit",
    "bloom-181b-zero0": "DeepSpeed keeps 16-bit gradients next to 32-bit ones",
    "torchao-8b-mi300x-bf16": OTHER_TORCH,
    "torchao-8b-mi300x-fp8-tensorwise": OTHER_TORCH,
    "torchao-8b-mi300x-fp8-rowwise-gw-hp": OTHER_TORCH,
    "torchao-8b-mi300x-fp8-rowwise": OTHER_TORCH,
    "torchao-8b-b200-bf16": OTHER_TORCH,
    "torchao-8b-b200-fp8-tensorwise": OTHER_TORCH,
    "torchao-8b-b200-mxfp8": OTHER_TORCH,
}


@dataclass(frozen=True, eq=False)
class Run:
    """A published run, its speed and memory if its source prints them, and the
    planner's answer to it."""

    row: Row
    source: str
    answer: dict[str, Any]
    speed: float | None
    memory: float | None

    @property
    def name(self) -> str:
        """Return the row's id."""
        return self.row.id


def runs(path: Path = ROWS) -> list[Run]:
    """All published runs, each asked of the planner as it is now."""
    found = []
    for row in read(path):
        _, speed = published_speed(row)
        given = row.given
        answer = {
            name: plain(value) for name, value in ask("run", given).items()
        }
        if "step_seconds" not in answer:
            speed = None
        answer["overlap"] = given["overlap"]
        memory = row.published.memory_gb
        source = re.split(r",|;|:\s| table| row|\(", row.source)[0].strip()
        if "tpu-recipes" in source:  # a page for each run
            source = "tpu-recipes"
        found.append(Run(row, source, answer, speed, memory and memory * 1e9))
    return found


@cache
def program(run: Run) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """Compile what `timed` computes for a run, to compute it many times: values
    that no constant changes, and the compiled formulas in their order."""
    found = timed(run.answer)
    fixed = {name: plain(value) for name, value in found.items()}
    formulas = [
        (name, value.formula.code)
        for name, value in found.items()
        if isinstance(value, Figure)
    ]
    return fixed, formulas


def again(run: Run, constants: dict[str, float]) -> dict[str, Any]:
    """Compute `timed` with these constants, as plain numbers."""
    fixed, formulas = program(run)
    scope = fixed | constants
    scope["overlap"] = run.answer["overlap"] or scope["hidden_share"]
    for name, code in formulas:
        scope[name] = eval(code, FUNCTIONS, scope)
    return scope


def off(run: Run, constants: dict[str, float]) -> float:
    """The logarithm of predicted over published speed."""
    assert run.speed is not None
    figure, _ = published_speed(run.row)
    ratio = log(predicted_speed(run.row, again(run, constants)) / run.speed)
    return -ratio if figure == "step_s" else ratio


def fitted(sample: list[Run]) -> dict[str, float]:
    """The constants of time that suit the runs best."""
    names = [*PLAUSIBLE]
    least = numpy.array([PLAUSIBLE[name][0] for name in names])
    most = numpy.array([PLAUSIBLE[name][1] for name in names])
    usual = numpy.array([PLAUSIBLE[name][2] for name in names])
    spread = numpy.array([PLAUSIBLE[name][3] for name in names])

    def constants(point: Any) -> dict[str, float]:
        values = least + (most - least) * point
        return dict(zip(names, map(float, values), strict=True))

    def cost(point: Any) -> Any:
        chosen = constants(point)
        values = least + (most - least) * point
        return numpy.append(
            [off(run, chosen) for run in sample],
            WEIGHT * (values - usual) / spread,
        )

    start = numpy.clip((usual - least) / (most - least), 0.02, 0.98)
    best = least_squares(
        cost,
        start,
        bounds=(0, 1),
        loss="soft_l1",
        f_scale=ROBUST,
        diff_step=1e-3,
        xtol=1e-5,
        ftol=1e-5,
        max_nfev=60,
    )
    return constants(best.x)


def total(run: Run, constants: dict[str, float]) -> float:
    """The fullest rank's bytes."""
    s = run.answer
    groups = sum(s[name] > 1 for name in ("dp", "tp", "pp", "cp", "ep"))
    return float(
        s["total_bytes"]
        - s["system_bytes"]
        + constants["context_memory"]
        + constants["group_memory"] * groups
        + constants["fragmented"] * s["transient_bytes"]
    )


def off_memory(run: Run, constants: dict[str, float]) -> float:
    """The logarithm of predicted over published memory."""
    assert run.memory is not None
    return log(total(run, constants) / run.memory)


def fitted_memory(sample: list[Run]) -> dict[str, float]:
    """The constants of memory that suit the runs best."""
    names = [*PLAUSIBLE_MEMORY]
    usual = numpy.array([PLAUSIBLE_MEMORY[name][0] for name in names])
    spread = numpy.array([PLAUSIBLE_MEMORY[name][1] for name in names])

    def constants(point: Any) -> dict[str, float]:
        values = numpy.maximum(0, usual + spread * point)
        return dict(zip(names, map(float, values), strict=True))

    def cost(point: Any) -> float:
        chosen = constants(point)
        each = sum(abs(off_memory(run, chosen)) for run in sample)
        return each + WEIGHT * float((point**2).sum())

    best = minimize(cost, [0.0] * len(names), method="Nelder-Mead")
    return constants(best.x)


def left_out(
    sample: list[Run],
    fit: Callable[[list[Run]], dict[str, float]],
    error: Callable[[Run, dict[str, float]], float],
) -> tuple[dict[str, float], list[dict[str, float]]]:
    """Each run's error by constants that were fitted without its source, and
    the constants of every such fit."""
    found, fits = {}, []
    for source in dict.fromkeys(run.source for run in sample):
        rest = [run for run in sample if run.source != source]
        fits.append(fit(rest))
        for run in sample:
            if run.source == source:
                found[run.name] = error(run, fits[-1])
    return found, fits


def known(run: Run, sample: list[Run]) -> bool:
    """Whether another source's runs say something about this one's accelerator:
    its peak, and attention with these kernels."""
    rest = [one for one in sample if one.source != run.source]
    family = FAMILIES[run.answer["accelerator"]]
    alike = [
        one.answer
        for one in rest
        if FAMILIES[one.answer["accelerator"]] == family
    ]
    return all(
        any(one[name] == run.answer[name] for one in alike)
        for name in ("precision", "kernels")
    )


def width(errors: Iterable[float]) -> float:
    """The factor that covers COVERED of the next run's errors: the quantile of
    so many, one more counted for the next run (Vovk et al. 2005, conformal
    prediction), or the largest of too few."""
    sizes = sorted(map(abs, errors))
    rank = min(len(sizes), ceil(COVERED * (len(sizes) + 1)))
    return exp(sizes[rank - 1])


def summary(errors: list[float]) -> str:
    """Errors in a line."""
    ratios = [exp(one) for one in errors]
    sizes = [abs(ratio - 1) for ratio in ratios]
    shares = [
        sum(size <= most for size in sizes) / len(sizes) for most in (0.1, 0.2)
    ]
    return (
        f"{len(errors):4}  {median(ratios):5.2f}  {min(ratios):4.2f} to"
        f" {max(ratios):4.2f}  {median(sizes):4.0%}"
        f"  {shares[0]:5.0%}  {shares[1]:5.0%}"
    )


def of_kind(
    found: dict[str, float], sample: list[Run], kind: str
) -> list[float]:
    """The errors of one kind of runs, or of all."""
    return [
        found[run.name]
        for run in sample
        if run.name in found and kind in ("all", run.answer["kind"])
    ]


KINDS = [kind for kind in WIDTHS if kind != "memory"]
HEAD = "rows  ratio         range   off  <10 %  <20 %"


def report(each: bool) -> None:
    """Print the constants, the errors by kind, and the intervals."""
    every = runs()
    timing = [run for run in every if run.speed is not None]
    sized = [
        run
        for run in every
        if run.memory is not None and run.name not in NOT_MEMORY
    ]
    constants = fitted(timing)
    again, fits = left_out(timing, fitted, off)
    alone = [run.name for run in timing if not known(run, timing)]
    for name in alone:
        del again[name]
    constants_memory = fitted_memory(sized)
    again_memory, _ = left_out(sized, fitted_memory, off_memory)
    print(f"{'constant':21} {'fitted':>8} {'planner':>8}  without a source")
    for name, value in (constants | constants_memory).items():
        ends = [one[name] for one in fits if name in one]
        said = f"{min(ends):.3g} to {max(ends):.3g}" if ends else ""
        print(f"{name:21} {value:8.3g} {VALUES[name]:8.3g}  {said}")
    here = {run.name: off(run, constants) for run in timing}
    for title, found in (
        ("throughput, all rows fitted", here),
        ("throughput, a source left out at a time", again),
    ):
        print(f"\n{title:24}\n{'':12} {HEAD}")
        for kind in [*KINDS, "all"]:
            print(f"{kind:12} {summary(of_kind(found, timing, kind))}")
    here_memory = {run.name: off_memory(run, constants_memory) for run in sized}
    print(f"\nmemory\n{'':12} {HEAD}")
    print(f"{'all fitted':12} {summary([*here_memory.values()])}")
    print(f"{'left out':12} {summary([*again_memory.values()])}")
    print("\nhalf-width of the 90 % interval, as a factor")
    for kind in KINDS:
        errors = of_kind(again, timing, kind)
        print(f"{kind:12} {width(errors):.3f}  {len(errors)} rows")
    errors = [*again_memory.values()]
    print(f"{'memory':12} {width(errors):.3f}  {len(errors)} rows")
    print(f"\nno other source has the accelerator: {', '.join(alone)}")
    if each:
        print("\npredicted over published: all fitted, source left out")
        for run in timing:
            without = again.get(run.name)
            said = "" if without is None else f" {exp(without):.3f}"
            print(f"{run.name:39} {exp(here[run.name]):.3f}{said}")
        for run in sized:
            without = again_memory.get(run.name)
            said = "" if without is None else f" {exp(without):.3f}"
            name = f"{run.name}, memory"
            print(f"{name:39} {exp(here_memory[run.name]):.3f}{said}")


if __name__ == "__main__":
    assert {n for n in CONSTANTS if CONSTANTS[n][1] == FITTED} == {
        *PLAUSIBLE,
        *PLAUSIBLE_MEMORY,
    }
    report("--rows" in sys.argv)
