"""The pictures of the chapter on sharding, computed by the planner."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from lockstep.explore.settings import read
from lockstep.explore.sharded_step import RANKS, SETTINGS, Step
from lockstep.explore.svg import long, place
from lockstep.planner.questions import ask
from lockstep.site.pages.charts import (
    Axis,
    Canvas,
    Chart,
    bars,
    gigabytes,
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
    "DDP on 16 GPUs": (16, 0),
    "FSDP2 on 8 GPUs": (8, 3),
    "FSDP2 on 16 GPUs": (16, 3),
}
BANDWIDTH = 80  # GB/s: slow enough that a gather is wide enough to see
KINDS = {  # what a shape shows, with its class
    "forward pass": "fill-0",
    "backward pass": "plain-4",  # the gradients' color, without their hatch
    "full weights of a layer": "fill-1",
    "full gradient of a layer": "fill-4",
    f"1/{RANKS} of a layer's state": "stroke-3",
}
FORWARD, BACKWARD, WEIGHTS, GRADIENT, SHARD = KINDS.values()
LAYERS = 4  # few enough to number them on a phone
ROW = 26  # of a layer
CURVE = 52  # how high the sum of all layers rises


def state() -> Chart:
    """Draw what one GPU keeps of Llama 3 8B, under DDP and FSDP2."""
    params = ask("params", {"preset": PRESET})["total"].value
    rows: dict[str, dict[str, float]] = {}
    for name, (gpus, stage) in SETUPS.items():
        given = {"params": params, "dp": gpus, "zero_stage": stage}
        found = ask("memory", given | {"optimizer": "adam-fp32"})
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


def full(one: Step, kind: str) -> dict[int, list[tuple]]:
    """Return when a GPU holds each layer's full weights or gradient."""
    spans = [(a, b) for a, b, name, _ in one.held if name == kind]
    order = [*range(1, LAYERS + 1)] if kind == "gathered" else []
    order += [*range(LAYERS, 0, -1)]
    found: dict[int, list[tuple]] = {n: [] for n in order}
    for layer, span in zip(order, spans, strict=True):
        found[layer].append(span)
    return found


def beyond(one: Step) -> list[tuple[float, float, int]]:
    """Return from when to when a GPU holds how many bytes beyond its shards,
    as multiples of a layer's parameters: 2 for full weights, and for a gradient
    2 while it's computed and 4 while its fp32 copy is reduced."""
    parts = [
        (a, b, 2) for spans in full(one, "gathered").values() for a, b in spans
    ]
    gradients = full(one, "gradients")
    for layer, [(start, done)] in of_kind(one.compute, "backward").items():
        [(_, end)] = gradients[layer]
        parts += [(start, done, 2), (done, end, 4)]
    moments = sorted(
        {moment for start, end, _ in parts for moment in (start, end)}
    )
    return [
        (a, b, sum(size for start, end, size in parts if start <= a < end))
        for a, b in pairwise(moments)
    ]


def step() -> Chart:
    """Draw a step of FSDP2: what a GPU computes, sends and holds."""
    values = read(SETTINGS, "")
    values |= {"bandwidth": BANDWIDTH, "reduced": 4, "layers": LAYERS}
    one = Step(values)
    weights, gradients = full(one, "gathered"), full(one, "gradients")
    sums = beyond(one)
    most = max(size for *_, size in sums)
    peaks = [span for span in sums if span[2] == most]
    forward = of_kind(one.compute, "compute")
    backward = of_kind(one.compute, "backward")
    reduced = of_kind(one.network, "reduce")
    axis = Axis("milliseconds", ticks(one.finish * 1e3, 7), "{:.0f}".format)

    def line(canvas: Canvas, at: float, middle: float, wide: float) -> None:
        d = f"M{place(at)} {place(middle)}h{place(wide)}"
        canvas.path(d, f"chart-line chart-{SHARD}")

    def sample(canvas: Canvas, i: int, at: float, middle: float) -> None:
        kind = [*KINDS.values()][i]
        if kind == SHARD:
            line(canvas, at, middle, 22)
        else:
            canvas.shape(at, middle - 6, 22, 12, kind)

    def draw(canvas: Canvas) -> None:
        canvas.legend([*KINDS], sample)
        left, right = 8 + long("network"), canvas.width - 14

        def x(seconds: float) -> float:
            return axis.at(seconds * 1e3, left, right)

        def shape(span: tuple, top: float, high: int, kind: str) -> None:
            start, wide = x(span[0]), x(span[1]) - x(span[0])
            canvas.shape(start, top, wide, high, kind)

        def number(span: tuple, at: float, layer: object) -> None:
            middle = (x(span[0]) + x(span[1])) / 2
            canvas.text(middle, at, str(layer), "middle", kind="halo")

        top = canvas.y = canvas.y + 4
        canvas.text(2, canvas.y + 13, "GPU")
        canvas.text(2, canvas.y + 34, "network")
        for spans, kind in (forward, FORWARD), (backward, BACKWARD):
            for layer in range(1, LAYERS + 1):
                for span in spans[layer]:
                    shape(span, canvas.y, 18, kind)
                    number(span, canvas.y + 13.5, layer)
        for start, end, kind, label in one.network:
            fill = WEIGHTS if kind == "gather" else GRADIENT
            shape((start, end), canvas.y + 23, 13, fill)
            number((start, end), canvas.y + 50, label)
        canvas.y += 62
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
        canvas.y += 12 + CURVE
        canvas.text(2, canvas.y - CURVE / 2, "sum of")
        canvas.text(2, canvas.y - CURVE / 2 + 16, "layers")
        rise = CURVE / most
        d = f"M{place(x(sums[0][0]))} {place(canvas.y)}"
        for _, end, size in sums:
            d += f"V{place(canvas.y - size * rise)}H{place(x(end))}"
        canvas.path(f"{d}V{place(canvas.y)}z", "chart-edge chart-plain")
        for i, span in enumerate(peaks):
            at = (x(span[0]) + x(span[1])) / 2
            canvas.upright(at, first - 8, canvas.y, "chart-rule")
            words = "peak" if i == 0 else "again"
            canvas.text(at, first - 12, words, "middle", kind="halo")
        canvas.across(axis, left, right, top, canvas.y)

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
        " the next layer computes. Below, a row for each layer. A thin line,"
        " the shard, is always there. The full weights are there only from"
        " their gather until the layer has computed, and the full gradient from"
        " its computation until the next layer's is complete. The last row is"
        " the sum of all layers without the shards. It peaks at"
        f" {most} bytes per parameter of one layer, {len(peaks)} times in the"
        " backward pass, when the GPU holds the full weights and the full"
        " gradients of two layers.",
        draw,
        [
            ["layer, ms", "forward", "backward", "full weights", "reduced"],
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
