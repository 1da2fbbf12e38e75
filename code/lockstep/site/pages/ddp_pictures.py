"""The picture of the chapter on data parallelism: three ways to send the
gradients of one backward pass."""

from __future__ import annotations

from lockstep.explore.buckets import (
    SETTINGS,
    milliseconds,
    named,
    sent,
)
from lockstep.explore.settings import read
from lockstep.explore.svg import long, place
from lockstep.site.pages.charts import Axis, Canvas, Chart, ticks

WAYS = {  # name, settings of the explorable
    "One all-reduce at the end": "cap:10000",
    "DDP's buckets of 25 MiB": "",
    "A bucket for each layer": "cap:1",
}
# What a shape shows, in the explorables' colors.
BACKWARD, REDUCE, EXPOSED = "plain-4", "fill-1", "stroke-2"
KINDS = {
    "backward pass of a layer": BACKWARD,
    "all-reduce": REDUCE,
    "the GPU waits": EXPOSED,
}


def overlap() -> Chart:
    """Draw a backward pass and its all-reduces, sent in three ways."""
    ways = {name: read(SETTINGS, text) for name, text in WAYS.items()}
    calls = {name: sent(values) for name, values in ways.items()}
    given = ways["DDP's buckets of 25 MiB"]
    layers, layer = given["layers"], given["backward"] * 1e-3
    end = layers * layer
    last = max(found[-1][1] for found in calls.values())
    exposed = {
        name: milliseconds(found[-1][1] - end) for name, found in calls.items()
    }
    axis = Axis("milliseconds", ticks(last * 1e3, 6), "{:.0f}".format)

    def box(
        canvas: Canvas, at: float, top: float, size: tuple, kind: str
    ) -> None:
        wide, high = size
        if kind == BACKWARD:
            canvas.plain(at, top, wide, high, 4)
        elif kind == EXPOSED:
            d = f"M{place(at)} {place(top)}h{place(wide)}v{high}H{place(at)}z"
            canvas.path(d, f"chart-line chart-{EXPOSED}")
        else:
            canvas.box(at, top, wide, high, kind)

    def sample(canvas: Canvas, i: int, at: float, middle: float) -> None:
        box(canvas, at, middle - 6, (22, 12), [*KINDS.values()][i])

    def draw(canvas: Canvas) -> None:
        canvas.legend([*KINDS], sample)
        left, right = 8 + long("network"), canvas.width - 14

        def x(seconds: float) -> float:
            return axis.at(seconds * 1e3, left, right)

        def lane(bars: list[tuple], top: float, kind: str) -> None:
            """Draw bars, all with their words if each has room for its own,
            else the first and the last one."""
            places = [(x(start), x(stop)) for start, stop, _ in bars]
            for at, to in places:
                box(canvas, at, top, (to - at, 17), kind)
            labels = [words for *_, words in bars]
            pairs = [*zip(places, labels, strict=True)]
            if all(long(words) + 6 < b - a for (a, b), words in pairs):
                for (a, b), words in pairs:
                    at = (a + b) / 2
                    canvas.text(at, top + 13, words, "middle", kind="halo")
            else:
                start, stop = places[0][0] + 1, places[-1][1] - 1
                canvas.text(start, top + 13, labels[0], kind="halo")
                canvas.text(stop, top + 13, labels[-1], "end", kind="halo")

        top = canvas.y
        for name, found in calls.items():
            canvas.y += 22
            canvas.text(2, canvas.y - 6, name, strong=True, kind="halo")
            said = f"{exposed[name]} exposed"
            edge = canvas.width - 2
            canvas.text(edge, canvas.y - 6, said, "end", kind="halo")
            canvas.text(2, canvas.y + 13, "GPU")
            canvas.text(2, canvas.y + 35, "network")
            computed = [
                (i * layer, (i + 1) * layer, str(layers - i))
                for i in range(layers)
            ]
            lane(computed, canvas.y, BACKWARD)
            network = [(a, b, named(held, layers)) for a, b, held in found]
            lane(network, canvas.y + 22, REDUCE)
            waits = x(found[-1][1]) - x(end) - 2
            box(canvas, x(end) + 1, canvas.y + 1, (waits, 15), EXPOSED)
            canvas.y += 44
        canvas.across(axis, left, right, top + 4, canvas.y)

    return Chart(
        f"A backward pass of {layers} layers, each of {given['backward']} ms"
        f" and {given['size']} MiB of gradients, with its all-reduces over"
        f" {given['ranks']} GPUs at {given['bandwidth']} GB/s and"
        f" {given['latency']} µs per hop",
        f"Three timelines of a GPU above its network. The GPU computes the"
        f" backward pass of layers {layers} to 1 in {milliseconds(end)}, and"
        " waits until the network has sent the last gradient. "
        + " ".join(
            f"{name}: {len(found)} all-reduces, of which {exposed[name]} are"
            " exposed after the backward pass."
            for name, found in calls.items()
        ),
        draw,
        [
            ["way", "layers", "MiB", "starts, ms", "ends, ms"],
            *(
                [
                    name,
                    named(bucket, layers),
                    str(len(bucket) * given["size"]),
                    f"{start * 1e3:.1f}",
                    f"{stop * 1e3:.1f}",
                ]
                for name, found in calls.items()
                for start, stop, bucket in found
            ),
        ],
    )
