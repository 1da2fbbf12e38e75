"""The pictures of the chapter on sharding, computed by the planner."""

from __future__ import annotations

from collections.abc import Iterable

from lockstep.explore.settings import read
from lockstep.explore.sharded_step import (
    LAYERS,
    RANKS,
    SETTINGS,
    Step,
    held,
)
from lockstep.explore.svg import long, place
from lockstep.planner.questions import ask
from lockstep.site.pages.charts import (
    Axis,
    Canvas,
    Chart,
    bars,
    ticks,
)

PRESET, GPU_MEMORY = "llama3-8b", 80e9
STATES = {  # in the explorables' colors
    "weights": ("parameters_bytes", 3),
    "gradients": ("gradients_bytes", 4),
    "optimizer state": ("optimizer_bytes", 2),
}
SETUPS = {  # name, GPUs, stage
    "DDP on 8 GPUs": (8, 0),
    "DDP on 64 GPUs": (64, 0),
    "FSDP2 on 8 GPUs": (8, 3),
    "FSDP2 on 64 GPUs": (64, 3),
}
BANDWIDTH = 100  # GB/s: slow enough that a gather is wide enough to see
KINDS = {  # what a shape shows, with its class
    "forward pass": "fill-0",
    "backward pass": "plain-4",  # the gradients' color, without their hatch
    "whole weights of a layer": "fill-1",
    "whole gradient of a layer": "fill-4",
    f"this GPU's 1/{RANKS} of both": "stroke-3",
}
FORWARD, BACKWARD, WEIGHTS, GRADIENT, SHARD = KINDS.values()
ROW = 26  # of a layer


def gigabytes(value: float) -> str:
    """Return whole gigabytes: 128 GB."""
    return f"{value / 1e9:.0f} GB"


def state() -> Chart:
    """Draw what one GPU keeps of Llama 3 8B, under DDP and FSDP2."""
    params = ask("params", {"preset": PRESET})["total"].value
    rows: dict[str, dict[str, float]] = {}
    for name, (gpus, stage) in SETUPS.items():
        given = {"params": params, "dp": gpus, "zero_stage": stage}
        found = ask("memory", given)
        rows[name] = {x: found[key].value for x, (key, _) in STATES.items()}
    sums = {name: sum(parts.values()) for name, parts in rows.items()}
    return Chart(
        "Model state that each GPU keeps, for Llama 3 8B with Adam. FSDP2 is"
        " the subject of this page.",
        "Four bars. "
        + " ".join(f"{name}: {gigabytes(one)}." for name, one in sums.items())
        + " A line marks the 80 GB of an H100. Both bars of DDP cross it, and"
        " both of FSDP2 stay far below it.",
        bars(
            rows,
            Axis("memory of each GPU", ticks(max(sums.values())), gigabytes),
            {"an H100 has 80 GB": GPU_MEMORY},
            [fill for _, fill in STATES.values()],
        ),
        [
            ["setup", *STATES, "sum"],
            *(
                [
                    name,
                    *(f"{x / 1e9:.1f} GB" for x in parts.values()),
                    f"{sums[name] / 1e9:.1f} GB",
                ]
                for name, parts in rows.items()
            ),
        ],
    )


def of_kind(found: Iterable[tuple], *kinds: str) -> dict[int, list[tuple]]:
    """Return the spans of some kinds by layer, counted from 1."""
    spans: dict[int, list[tuple]] = {n: [] for n in range(1, LAYERS + 1)}
    for start, end, kind, label in found:
        if kind in kinds:
            spans[int(label)].append((start, end))
    return spans


def whole(one: Step, kind: str) -> dict[int, list[tuple]]:
    """Return when each layer's weights or gradient are whole, in order."""
    spans = [(a, b) for a, b, name, _ in one.held if name == kind]
    order = [*range(1, LAYERS + 1)] if kind == "gathered" else []
    order += [*range(LAYERS, 0, -1)]
    found: dict[int, list[tuple]] = {n: [] for n in order}
    for layer, span in zip(order, spans, strict=True):
        found[layer].append(span)
    return found


def peak(one: Step) -> float:
    """Return the middle of the time at which the step holds most."""
    areas = held(one)
    totals = areas.totals()
    at = totals.index(max(totals))
    return (areas.moments[at] + areas.moments[at + 1]) / 2


def step() -> Chart:
    """Draw a step of FSDP2: what a GPU computes, sends and holds whole."""
    values = read(SETTINGS, f"bandwidth:{BANDWIDTH}") | {"reduced": 4}
    one = Step(values)
    weights, gradients = whole(one, "gathered"), whole(one, "gradients")
    forward = of_kind(one.compute, "compute")
    backward = of_kind(one.compute, "backward")
    reduced = of_kind(one.network, "reduce")
    axis = Axis("milliseconds", ticks(one.finish * 1e3, 7), "{:.0f}".format)

    def box(
        canvas: Canvas, at: float, top: float, size: tuple, kind: str
    ) -> None:
        wide, high = size
        if kind == BACKWARD:
            d = f"M{place(at)} {place(top)}h{place(wide)}v{high}"
            canvas.path(f"{d}H{place(at)}z", "chart-edge chart-fill-4")
        else:
            canvas.box(at, top, wide, high, kind)

    def line(canvas: Canvas, at: float, middle: float, wide: float) -> None:
        d = f"M{place(at)} {place(middle)}h{place(wide)}"
        canvas.path(d, f"chart-line chart-{SHARD}")

    def sample(canvas: Canvas, i: int, at: float, middle: float) -> None:
        kind = [*KINDS.values()][i]
        if kind == SHARD:
            line(canvas, at, middle, 22)
        else:
            box(canvas, at, middle - 6, (22, 12), kind)

    def draw(canvas: Canvas) -> None:
        canvas.legend([*KINDS], sample)
        left, right = 8 + long("network"), canvas.width - 14

        def x(seconds: float) -> float:
            return axis.at(seconds * 1e3, left, right)

        def shape(
            span: tuple, top: float, high: int, kind: str, words: str = ""
        ) -> None:
            start, wide = x(span[0]), x(span[1]) - x(span[0])
            box(canvas, start, top, (wide, high), kind)
            if words and long(words) + 6 < wide:
                at = start + wide / 2
                canvas.text(at, top + 13, words, "middle", kind="halo")

        top = canvas.y = canvas.y + 4
        canvas.text(2, canvas.y + 13, "GPU")
        canvas.text(2, canvas.y + 35, "network")
        for layer in range(1, LAYERS + 1):
            for span in forward[layer]:
                shape(span, canvas.y, 17, FORWARD, str(layer))
            for span in backward[layer]:
                shape(span, canvas.y, 17, BACKWARD, str(layer))
        for start, end, kind, label in one.network:
            fill = WEIGHTS if kind == "gather" else GRADIENT
            shape((start, end), canvas.y + 22, 17, fill, label)
        canvas.y += 46
        title = "held by this GPU"
        canvas.text(2, canvas.y + 14, title, strong=True)
        canvas.y += 22
        first = canvas.y
        for layer in range(1, LAYERS + 1):
            canvas.text(2, canvas.y + 17, f"layer {layer}")
            for span in gradients[layer]:
                shape(span, canvas.y, 9, GRADIENT)
            for span in weights[layer]:
                shape(span, canvas.y + 9, 9, WEIGHTS)
            line(canvas, x(0.0), canvas.y + 20.5, x(one.finish) - x(0.0))
            canvas.y += ROW
        canvas.across(axis, left, right, top, canvas.y)
        at = x(peak(one))
        canvas.upright(at, first - 8, first + LAYERS * ROW, "chart-rule")
        canvas.text(at + 4, first - 8, "peak")

    def told(spans: list[tuple]) -> str:
        return ", ".join(f"{a * 1e3:.0f} to {b * 1e3:.0f}" for a, b in spans)

    return Chart(
        f"One step of FSDP2 on one of {RANKS} GPUs: {LAYERS} layers of Llama 3"
        f" 70B's size, {values['tokens']:,} tokens, a network of {BANDWIDTH}"
        " GB/s for each node",
        f"A timeline of {one.finish * 1e3:.0f} milliseconds. The GPU computes"
        f" layers 1 to {LAYERS}, then goes back from {LAYERS} to 1. The network"
        " gathers each layer's weights while the layer before it computes, in"
        " both directions, and in the backward pass sends each gradient while"
        " the next layer computes. Below, a row for each layer. A thin strip,"
        " the shard, is there all the time. The weights are whole only from"
        " their gather until the layer has computed, and the gradient is whole"
        " from its computation until the next layer's is complete. At the peak,"
        " two layers have whole weights and two have whole gradients.",
        draw,
        [
            ["layer, ms", "forward", "backward", "weights whole", "reduced"],
            *(
                [
                    str(layer),
                    told(forward[layer]),
                    told(backward[layer]),
                    told(weights[layer]),
                    told(reduced[layer]),
                ]
                for layer in range(1, LAYERS + 1)
            ),
        ],
    )
