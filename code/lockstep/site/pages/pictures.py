"""The charts that pages name: from recorded data, or from the planner.

A page with `computed: true` in its head shows one by `{{ chart("bubble") }}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from lockstep import experiments
from lockstep.experiments.benchmarks import timeline
from lockstep.experiments.fleet.reports import REPORTS
from lockstep.experiments.fleet.tables import named
from lockstep.experiments.gpu import tables as gpu
from lockstep.planner.figures import PlanError, decimal, percent
from lockstep.planner.questions import ask
from lockstep.site.pages import (
    arithmetic_pictures,
    checkpoint_pictures,
    collectives_pictures,
    data_pictures,
    ddp_pictures,
    exam_pictures,
    failure_pictures,
    hardware_pictures,
    launch_pictures,
    memory_pictures,
    pipeline_pictures,
    published_runs,
    recovery_pictures,
    sharding_pictures,
    silent_pictures,
    tensor_pictures,
)
from lockstep.site.pages.charts import (
    Axis,
    Chart,
    Lane,
    Series,
    bars,
    intervals,
    lanes,
    lines,
    stacked,
    ticks,
)

RESULTS = Path(experiments.__file__).parent
LOSSES = RESULTS / "demos" / "loss_after_resume.json"
SPIKES = RESULTS / "demos" / "training_instability.json"
GPU = RESULTS / "gpu" / "result.json"
BENCHMARK = RESULTS / "benchmarks" / "result.json"
PROTEINS = RESULTS / "studies" / "protein_lm.json"
SPLITS = RESULTS / "studies" / "splits.json"
FLEETS = RESULTS / "fleet" / "result.json"
LOST = {  # what costs a fleet its hours: name, kinds of time
    "saves": ("saving",),
    "lost training": ("replay",),
    "finding the fault": ("detection", "diagnosis"),
    "restarts": ("swap", "restart", "load", "planned"),
    "waiting": ("people", "nodes", "slow"),
}
KEPT = {  # name of a way to split
    "random": "at random",
    "scaffold": "scaffold",
    "butina": "Butina cluster",
    "component": "chain of neighbors",
}
STAGES = 8
SCHEDULES = {  # name, planner's schedule, parts of the model that a rank holds
    "GPipe, 1F1B": ("1f1b", 1),
    "interleaved, 2 parts": ("interleaved", 2),
    "ZB-H1": ("zb-h1", 1),
    "ZB-H2": ("zb-h2", 1),
}
MICROBATCHES = 8, 16, 32, 64, 128
SHOWN = 28, 52  # steps of the loss that are drawn
CURVES = {
    "whole": "never killed",
    "killed": "until it is killed",
    "resumed": "launched again",
    "forgetful": "again, without moments",
}
LOOPS = {"bare": "bare DDP", "fabric": "Fabric", "accelerate": "Accelerate"}


def data(path: Path) -> Any:
    """Return the contents of a file of recorded data.

    Raises:
        ValueError: it is missing or no JSON.
    """
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"no data for a chart: {path.name}: {error}") from None


def bubble() -> Chart:
    """Draw the idle share of a pipeline of 8 stages, by schedule."""
    series = [
        Series(name, [*idle(schedule, parts).items()])
        for name, (schedule, parts) in SCHEDULES.items()
    ]
    shares = [dict(one.points) for one in series]
    return Chart(
        f"Idle share of all time, {STAGES} stages",
        "Three falling curves, and one at zero. "
        + " ".join(
            f"{one.label}: {percent(one.points[0][1])} with"
            f" {one.points[0][0]} micro-batches,"
            f" {percent(one.points[-1][1])} with {one.points[-1][0]}."
            for one in series
        ),
        lines(
            series,
            Axis("micro-batches", MICROBATCHES, log=True),
            Axis("idle, of all time", ticks(series[0].points[0][1]), percent),
        ),
        [
            ["micro-batches", *(one.label for one in series)],
            *(
                [
                    str(count),
                    *(
                        percent(one[count]) if count in one else "–"
                        for one in shares
                    ),
                ]
                for count in MICROBATCHES
            ),
        ],
    )


def idle(schedule: str, parts: int) -> dict[float, float]:
    """Bubble over all time, by micro-batches, where the schedule allows it."""
    given = {"stages": STAGES, "schedule": schedule, "virtual_stages": parts}
    found: dict[float, float] = {}
    for count in MICROBATCHES:
        with suppress(PlanError):
            answer = ask("pipeline", given | {"microbatches": count})
            found[count] = answer["bubble_fraction_of_total"].value
    return found


def loss() -> Chart:
    """Draw a run that is killed and resumed next to an uninterrupted run."""
    curves = data(LOSSES)["curves"]
    first, last = SHOWN
    found = {
        name: {s: x for s, x in curves[name] if first <= s <= last}
        for name in CURVES
    }
    dies, goes_on = max(found["killed"]), min(found["resumed"])
    series = [
        Series(
            label,
            [*found[name].items()],
            line=name in ("whole", "forgetful"),
            marks=name in ("killed", "resumed"),
        )
        for name, label in CURVES.items()
    ]
    most = max(x for one in found.values() for x in one.values())
    return Chart(
        "Loss around a kill",
        f"Rank 1 dies after step {dies}. The second launch goes on from step"
        f" {goes_on - 1} and repeats {dies - goes_on + 1} steps. Its loss lies"
        " on the curve of the run that nobody killed. A launch that loses the"
        " optimizer's moments lies above it.",
        lines(
            series,
            Axis("optimizer step", range(first, last + 1, 4)),
            Axis("loss, mean over both ranks", ticks(most)),
            {"saved": goes_on - 1, "killed": dies},
        ),
        [
            ["step", *CURVES.values()],
            *(
                [
                    str(step),
                    *(
                        f"{one[step]:.4f}" if step in one else "–"
                        for one in found.values()
                    ),
                ]
                for step in range(first, last + 1)
            ),
        ],
    )


def spike(
    cause: str, title: str, probe: str, axis: Sequence[float], log: bool
) -> Callable[[], Chart]:
    """Draw the loss and the telling probe of a run with a cause of instability,
    one above the other, each next to the same run without the cause."""

    def draw() -> Chart:
        curves = data(SPIKES)["curves"][cause]
        both = [
            [
                Series(
                    "without the cause" if "without" in key else "with it",
                    [*enumerate(curves[key])],
                    marks=False,
                )
                for key in keys
            ]
            for keys in (("loss", "without"), ("probe", "probe_without"))
        ]
        steps = Axis("step", [0, 60, 120, 180, 240])
        shown = [*range(0, 240, 20), 161, 165]
        rows = [
            [
                str(at),
                *(
                    f"{curves[key][at]:.3g}"
                    for key in ("loss", "without", "probe", "probe_without")
                ),
            ]
            for at in sorted(shown)
        ]
        least, most = min(curves["probe"]), max(curves["probe"])
        return Chart(
            title,
            f"Two panels over 240 steps. Above, the loss with and without the"
            f" cause. Below, {probe}: between {least:.3g} and {most:.3g} with"
            f" the cause, up to {max(curves['probe_without']):.3g} without it.",
            stacked(
                lines(both[0], steps, Axis("loss", [0, 1, 2, 3, 4]), high=90),
                lines(both[1], steps, Axis(probe, axis, log=log), high=90),
            ),
            [
                ["step", "loss", "loss without", "probe", "probe without"],
                *rows,
            ],
        )

    return draw


def neighbors() -> Chart:
    """How similar the nearest training molecule is, by way to split."""
    found: dict[str, list[float]] = {}
    for way, name in KEPT.items():
        seeds = [one["near"] for one in data(SPLITS)["ways"][way]["seeds"]]
        found[name] = [sum(at) / len(at) for at in zip(*seeds, strict=True)]
    steps = len(next(iter(found.values()))) - 1
    levels = [i / steps for i in range(steps + 1)]
    at = round(0.6 * steps)
    return Chart(
        "Test molecules with a training molecule at least as similar",
        "Four falling curves. "
        + " ".join(
            f"{name}: {percent(one[at])} of test molecules have a training"
            " molecule of similarity 0.6 or more."
            for name, one in found.items()
        ),
        lines(
            [
                Series(name, [*zip(levels, one, strict=True)], marks=False)
                for name, one in found.items()
            ],
            Axis("Tanimoto similarity", [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
            Axis("of test molecules", ticks(1.0), percent),
            {"0.6": 0.6},
        ),
        [
            ["similarity", *found],
            *(
                [f"{level:.2f}", *(percent(one[i]) for one in found.values())]
                for i, level in enumerate(levels)
            ),
        ],
    )


def benchmark() -> Chart:
    """Draw the trainer's CPU time over its rivals', with intervals."""
    over = data(BENCHMARK)["summary"]["over"]
    rows = {
        f"{LOOPS[rival]}, {model}": (one["median"], one["low"], one["high"])
        for model, rivals in over.items()
        for rival, one in rivals.items()
    }
    low = min(low for _, low, _ in rows.values())
    high = max(high for *_, high in rows.values())
    steps = [
        round(0.05 * n, 2) for n in range(int(low * 20), int(high * 20) + 2)
    ]
    return Chart(
        "Lockstep's CPU time per step, over another loop's in the same round",
        "Six medians with their 95 % confidence intervals. "
        + " ".join(
            f"Over {name}: {ratio(m)}, {ratio(a)} to {ratio(b)}."
            for name, (m, a, b) in rows.items()
        ),
        intervals(rows, Axis("ratio", steps, "{:.2f}".format), {"equal": 1.0}),
        [
            ["loop and model", "median", "low", "high"],
            *([name, *map(ratio, row)] for name, row in rows.items()),
        ],
    )


def proteins() -> Chart:
    """Draw a protein language model's loss, over all residues that it is asked
    for and over those that it cannot see."""
    found = data(PROTEINS)
    rows, base = found["curve"]["rows"], found["unigram"][0]
    names = "train, all asked", "held out, hidden", "unigram, hidden"
    curves = [[(row[0], row[column]) for row in rows] for column in (1, 2)]
    curves.append([(row[0], base) for row in rows])
    return Chart(
        "Loss of a protein language model",
        f"Three lines over {rows[-1][0]} steps. Of all that is asked in"
        f" training the loss falls to {rows[-1][1]:.2f}. Of hidden residues of"
        f" families that were held out it falls to {rows[-1][2]:.2f}, just"
        f" below the unigram's {base:.2f}.",
        lines(
            [
                Series(name, points, marks=not i)
                for i, (name, points) in enumerate(
                    zip(names, curves, strict=True)
                )
            ],
            Axis("optimizer step", range(0, rows[-1][0] + 1, 200)),
            Axis("nats a residue", [2.6, 2.7, 2.8, 2.9, 3.0, 3.1, 3.2]),
        ),
        [
            ["step", *names],
            *(
                [f"{row[0]}", f"{row[1]:.3f}", f"{row[2]:.3f}", f"{base:.3f}"]
                for row in rows
            ),
        ],
    )


def phases() -> Chart:
    """Where the last step of each recorded trace went, rank by rank."""
    rows = {}
    for name in ("overlap", "late", "apart"):
        trace = timeline.load(name)
        step = timeline.steps(trace)[-1]
        for rank in timeline.ranks(trace):
            row = dict.fromkeys(timeline.PHASES, 0.0)
            mine = timeline.lanes(timeline.of_rank(trace, rank), step)
            for phase, (begin, end) in mine["phases"]:
                row[phase] += end - begin
            rows[f"{name}, rank {rank}"] = row
    most = max(sum(row.values()) for row in rows.values())
    return Chart(
        "Phases of one step, on each rank of three recorded runs",
        "Six bars of load, forward, backward, sync and optimizer. "
        + " ".join(
            f"{name}: most in {max(row, key=row.__getitem__)}."
            for name, row in rows.items()
        ),
        bars(rows, Axis("time of the step", ticks(most), millis)),
        [
            ["trace and rank", *timeline.PHASES],
            *([name, *map(millis, row.values())] for name, row in rows.items()),
        ],
    )


def trace(name: str, called: str) -> Callable[[], Chart]:
    """Draw a timeline of a recorded trace's last step; `called` doesn't reveal
    what to find in it."""

    def draw() -> Chart:
        found = timeline.load(name)
        step = timeline.steps(found)[-1]
        begin, end = timeline.window(found, step)
        groups: dict[str, list[Lane]] = {}
        rows = []
        for rank in timeline.ranks(found):
            mine = timeline.lanes(timeline.of_rank(found, rank), step)
            group = []
            for lane, spans in mine.items():
                inside = [
                    (max(a, begin) - begin, min(b, end) - begin, kind(phase))
                    for phase, (a, b) in spans
                ]
                group.append(Lane(lane, inside))
                rows += summary(f"rank {rank} {lane}", inside)
            groups[f"rank {rank}"] = group
        return Chart(
            f"{called}: one step on two ranks",
            "Three lanes for each rank, over one clock: its phases, when"
            " operators compute, and when gloo sends. The table has begin and"
            " end of each.",
            lanes(
                groups,
                timeline.PHASES,
                Axis("since the step began", ticks(end - begin), millis),
            ),
            [["lane", "from", "to", "of it"], *rows],
        )

    return draw


def kind(phase: str) -> int | None:
    """Return a phase's place in the legend."""
    return timeline.PHASES.index(phase) if phase else None


def summary(
    lane: str, spans: Sequence[tuple[float, float, int | None]]
) -> list[list[str]]:
    """Rows for a lane: one for each phase, or one for all of its spans."""
    if not spans:
        return [[lane, "–", "–", millis(0)]]
    if spans[0][2] is None:
        busy = sum(b - a for a, b, _ in spans)
        ends = millis(spans[0][0]), millis(spans[-1][1])
        return [[lane, *ends, millis(busy)]]
    return [
        [
            f"{lane.split(' phases')[0]} {timeline.PHASES[phase or 0]}",
            millis(a),
            millis(b),
            millis(b - a),
        ]
        for a, b, phase in sorted(spans)
    ]


def roofline() -> Chart:
    """Draw the rate that a weight's matmul reaches, by the rows that go through
    it."""
    found = data(GPU)
    rows = found["rows"]
    most = max(row["flops_per_second"] for row in rows) / 1e12
    read = rows[0]["bytes_per_second"] / 1e12  # an operation a byte and row
    counts = [row["rows"] for row in rows]
    measured = [(row["rows"], row["flops_per_second"] / 1e12) for row in rows]
    turn = most / read
    roof = [(1, read), (turn, most), (counts[-1], most)]
    return Chart(
        "A batch through one weight of 8,192 × 8,192, on an H200",
        "Marks rise along a slope and then lie on a flat roof. One row reaches"
        f" {measured[0][1]:.1f} TFLOP/s, 64 rows {measured[2][1]:.0f}, 4,096"
        f" rows {measured[5][1]:.0f}. The slope is the speed of reading the"
        f" weight, and meets the roof at {turn:.0f} rows.",
        lines(
            [
                Series("measured", measured, line=False),
                Series("roof", roof, marks=False),
            ],
            Axis("rows", [1, 16, 256, 4096, 65536], "{:,}".format, True),
            Axis("TFLOP/s", [1, 10, 100, 1000, 10000], "{:,}".format, True),
            {f"{turn:.0f} rows": turn},
        ),
        [
            ["rows", "TFLOP/s", "µs"],
            *(
                [f"{m:,}", gpu.digits(rate), f"{row['seconds'] * 1e6:,.0f}"]
                for (m, rate), row in zip(measured, rows, strict=True)
            ),
        ],
    )


def peaks() -> Chart:
    """Draw the parts of a step's peak, by batch and recomputation."""
    found = data(GPU)
    rows, measured = {}, {}
    for recompute in ("none", "full"):
        for batch in (2, 8):
            row = gpu.step(found, batch=batch, recompute=recompute)
            again = "recomputed" if recompute == "full" else "kept"
            name = f"{batch} sequences, {again}"
            rows[name] = gpu.parts_at_the_loss(found, row)
            measured[name] = row["peak"]
    most = max(measured.values())
    return Chart(
        "A step's peak on an H200: what it is made of",
        "Four bars of weights and moments, what blocks keep, the loss, and the"
        " gathered output layer. "
        + " ".join(
            f"{name}: {giga(sum(parts.values()))}, of which the loss has"
            f" {giga(parts['loss'])}; measured {giga(measured[name])}."
            for name, parts in rows.items()
        ),
        bars(rows, Axis("bytes", ticks(most), giga)),
        [
            ["step", *next(iter(rows.values())), "sum", "measured"],
            *(
                [
                    name,
                    *map(giga, parts.values()),
                    giga(sum(parts.values())),
                    giga(measured[name]),
                ]
                for name, parts in rows.items()
            ),
        ],
    )


def fleets() -> Chart:
    """Draw the share of time that published fleets lose, by what takes it."""
    rows = {}
    for name, report in REPORTS.items():
        if report.goodput is not None:
            shares = data(FLEETS)["reports"][name]["shares"]
            rows[named(report)] = {
                what: sum(shares[kind] for kind in kinds)
                for what, kinds in LOST.items()
            }
    sums = {name: sum(parts.values()) for name, parts in rows.items()}
    return Chart(
        "Where the lost hours go, simulated, in shares of wall-clock time",
        f"{len(rows)} bars of {', '.join(LOST)}. "
        + " ".join(
            f"{name}: {tenths(sums[name])}, most of it"
            f" {max(parts, key=parts.__getitem__)}."
            for name, parts in rows.items()
        ),
        bars(rows, Axis("of all time", ticks(max(sums.values())), tenths)),
        [
            ["fleet", *LOST, "sum"],
            *(
                [name, *map(tenths, parts.values()), tenths(sums[name])]
                for name, parts in rows.items()
            ),
        ],
    )


def tenths(share: float) -> str:
    """41.2 %."""
    return percent(share, 1)


def waiting() -> Chart:
    """Draw a small model's step: kernels, and waiting for launches."""
    rows = {
        row["how"]: {
            "kernels run": row["busy_1"],
            "the GPU waits": row["seconds_1"] - row["busy_1"],
        }
        for row in data(GPU)["launches"]
    }
    most = max(sum(parts.values()) for parts in rows.values())

    def say(took: float) -> str:
        return f"{took * 1e3:.3g} ms"

    return Chart(
        "One step of a small model on an H200",
        "Three bars of kernels and waiting. "
        + " ".join(
            f"{name}: {say(parts['kernels run'])} of"
            f" {say(sum(parts.values()))} in kernels."
            for name, parts in rows.items()
        ),
        bars(rows, Axis("time of a step", ticks(most), say)),
        [
            ["how", "kernels run", "the GPU waits"],
            *(
                [name, *map(say, parts.values())]
                for name, parts in rows.items()
            ),
        ],
    )


def giga(count: float) -> str:
    """Bytes: 31.41 GB."""
    return decimal(count, "B") if count else "0"


def ratio(value: float) -> str:
    """Three digits behind the point."""
    return f"{value:.3f}"


def millis(microseconds: float) -> str:
    """12.3 ms."""
    return f"{microseconds / 1e3:.4g} ms"


PICTURES: dict[str, Callable[[], Chart]] = {
    "all-reduce-sizes": collectives_pictures.by_size,
    "bubble": bubble,
    "checkpoint-save": checkpoint_pictures.timeline,
    "roofline": arithmetic_pictures.roofline,
    "ddp-overlap": ddp_pictures.overlap,
    "network-groups": hardware_pictures.groups,
    "exam-first-difference": exam_pictures.first_difference,
    "exam-matrix": exam_pictures.matrix,
    "one-order": data_pictures.one_order,
    "loss": loss,
    "ring-all-reduce": collectives_pictures.ring_steps,
    "ring-nics": collectives_pictures.ring_nics,
    "step-memory": memory_pictures.step_memory,
    "pipeline-schedules": pipeline_pictures.schedules,
    "pipeline-gaps": pipeline_pictures.gaps,
    "spike-batch": spike(
        "bad batch",
        "A bad batch at step 160",
        "worst sample, of the median loss",
        [0, 2, 4, 6, 8],
        False,
    ),
    "spike-rate": spike(
        "rate too high",
        "A learning rate ten times as high, without warm-up",
        "update / weights",
        [0.001, 0.01, 0.1, 1],
        True,
    ),
    "spike-moments": spike(
        "stale moments",
        "Gradients 100 times as large from step 160 on, β₂ = 0.999",
        "gradient ahead of its moment",
        [0.1, 1, 10, 100, 1000],
        True,
    ),
    "spike-logits": spike(
        "attention logits",
        "Queries, keys and values that learn 30 times as fast",
        "largest attention logit",
        [1, 10, 100, 1000, 10000, 100000],
        True,
    ),
    "spike-bf16": spike(
        "bf16 weights",
        "Weights kept in bf16, against fp32",
        "share of weights that move",
        [0, 0.25, 0.5, 0.75, 1],
        False,
    ),
    "benchmark": benchmark,
    "first-fault": failure_pictures.first_fault,
    "fleets": fleets,
    "grace": launch_pictures.grace,
    "gpu-roofline": roofline,
    "gpu-peaks": peaks,
    "gpu-waiting": waiting,
    "neighbors": neighbors,
    "proteins": proteins,
    "recovery": recovery_pictures.recovery,
    "phases": phases,
    "trace-late": trace("late", "Trace A"),
    "trace-apart": trace("apart", "Trace B"),
    "trace-overlap": trace("overlap", "Trace C"),
    "predicted-throughput": partial(published_runs.chart, "throughput"),
    "predicted-memory": partial(published_runs.chart, "memory"),
    "sharding-state": sharding_pictures.state,
    "sharding-step": sharding_pictures.step,
    "silent-spread": silent_pictures.spread,
    "tensor-activations": tensor_pictures.activations,
    "tensor-split": tensor_pictures.split,
}


def chart(name: str) -> str:
    """Return the chart of that name, as HTML.

    Raises:
        ValueError: there is none, or its data are missing.
    """
    if name not in PICTURES:
        known = ", ".join(sorted(PICTURES))
        raise ValueError(f"there is no chart {name!r}; there are {known}")
    return PICTURES[name]().html(name)
