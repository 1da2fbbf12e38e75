"""The pictures of the chapter on collectives: a ring all-reduce step by step,
and the bus bandwidth of published all-reduces next to the formula's."""

from __future__ import annotations

from lockstep.explore.ring import held
from lockstep.explore.svg import long, place
from lockstep.planner.questions import ask
from lockstep.site.pages.charts import (
    LINE,
    Axis,
    Canvas,
    Chart,
    Series,
    lines,
    ticks,
)

RANKS = 4
HALVES = {  # title of a row of the picture, with its steps
    "Reduce-scatter: receive and add": range(RANKS),
    "All-gather: receive and keep": range(RANKS, 2 * RANKS - 1),
}
KINDS = {  # what a chunk is, in the explorables' colors
    "one rank's values": None,
    "sum of some ranks": 2,
    "sum of all ranks": 0,
}
GAP, HIGH = 10, 20  # between two grids, and of a cell

GPUS, NODES = 32, 4
BANDWIDTH = 365e9  # bytes/s, measured on four nodes of another kind
# Seconds of a hop over NVLink and over the network, by NCCL's tuner, Simple.
NVLINK, NETWORK = 3.4e-6, 14e-6
# github.com/stas00/ml-engineering, network/README.md at commit 0cc3de50: an
# all-reduce over four nodes of eight B200s, NCCL 2.30.7. The buffer in MiB, the
# bus bandwidth in GB/s, and what NCCL chose.
MEASURED = (
    (1, 12.56, "tree, LL128"),
    (2, 20.82, "tree, LL128"),
    (4, 31.56, "tree, LL128"),
    (8, 49.73, "tree, LL128"),
    (16, 72.03, "tree, LL128"),
    (32, 142.50, "ring, LL128"),
    (64, 198.07, "ring, LL128"),
    (128, 260.25, "NVLSTree, Simple"),
    (256, 282.60, "NVLSTree, Simple"),
    (512, 310.96, "ring, Simple"),
    (1024, 366.15, "ring, Simple"),
    (2048, 371.24, "ring, Simple"),
    (4096, 374.66, "ring, Simple"),
    (8192, 376.05, "ring, Simple"),
    (16384, 376.60, "ring, Simple"),
)


def ring_steps() -> Chart:
    """Draw what four ranks hold before and after each step of a ring."""
    steps = range(2 * RANKS - 1)
    return Chart(
        f"A ring all-reduce over {RANKS} ranks, in {steps[-1]} steps. Columns"
        " are chunks, and a number says how many ranks' values a chunk sums.",
        f"Seven grids of {RANKS} ranks and {RANKS} chunks, one for the start"
        " and one after each step. At the start, every chunk holds one rank's"
        " values. In each of steps 1 to 3, every rank receives one chunk from"
        " the rank above it, and adds its own values, so that partial sums"
        " grow. After step 3, each rank has one chunk that is the sum of all"
        " four ranks. In steps 4 to 6, the finished chunks travel around the"
        " ring, until all ranks have all four.",
        draw_ring,
        [
            ["rank", *map(named, steps)],
            *(
                [
                    f"rank {rank}",
                    *(
                        " ".join(map(str, held(RANKS, step)[rank]))
                        for step in steps
                    ),
                ]
                for rank in range(RANKS)
            ),
        ],
    )


def named(step: int) -> str:
    """Return a step's title."""
    return f"step {step}" if step else "start"


def draw_ring(canvas: Canvas) -> None:
    """Draw a grid for each step, in a row for each half."""
    canvas.legend([*KINDS], sample)
    left = 8 + long("rank 0")
    wide = (canvas.width - left - 2 - GAP * (RANKS - 1)) / RANKS
    for half, steps in HALVES.items():
        canvas.y += LINE
        canvas.text(2, canvas.y, half, strong=True)
        canvas.y += 2 * LINE
        for rank in range(RANKS):
            canvas.text(2, canvas.y + HIGH * rank + 14, f"rank {rank}")
        for column, step in enumerate(steps):
            at = left + column * (wide + GAP)
            canvas.text(at + wide / 2, canvas.y - 6, named(step), "middle")
            grid(canvas, step, at, wide / RANKS)
        canvas.y += HIGH * RANKS + 6


def grid(canvas: Canvas, step: int, left: float, wide: float) -> None:
    """Draw the chunks of all ranks after a step."""
    for rank, counts in enumerate(held(RANKS, step)):
        top = canvas.y + HIGH * rank
        for chunk, count in enumerate(counts):
            at = left + wide * chunk
            kind = (count > 1) + (count == RANKS)
            cell(canvas, [*KINDS.values()][kind], at, top, (wide, HIGH))
            middle = at + wide / 2, top + 14.5
            canvas.text(*middle, str(count), "middle", kind="halo")


def cell(
    canvas: Canvas, fill: int | None, at: float, top: float, size: tuple
) -> None:
    """Draw a chunk; one without a fill has an outline."""
    wide, high = size
    if fill is None:
        d = f"M{place(at + 1)} {place(top + 1)}h{place(wide - 2)}v{high - 2}"
        canvas.path(f"{d}H{place(at + 1)}z", "chart-line chart-stroke-3")
    else:
        canvas.plain(at, top, wide, high, fill)


def sample(canvas: Canvas, i: int, at: float, middle: float) -> None:
    """Draw a kind's sample for the legend."""
    cell(canvas, [*KINDS.values()][i], at, middle - 6, (22, 12))


def predicted(size: float) -> dict[str, float]:
    """Return the seconds and the bus bandwidth of one ring over all GPUs.

    Args:
        size: bytes of the buffer.
    """
    hops, between = 2 * (GPUS - 1), 2 * (NODES - 1)
    latency = ((hops - between) * NVLINK + between * NETWORK) / hops
    given = {"op": "all_reduce", "bytes": size, "ranks": GPUS}
    given |= {"bandwidth": BANDWIDTH, "latency": latency}
    plan = ask("collective", given)
    return {name: float(plan[name]) for name in ("seconds", "busbw")}


def by_size() -> Chart:
    """Draw bus bandwidth by buffer size, predicted and measured."""
    curve = [
        (2.0**power, predicted(2.0 ** (power + 20))["busbw"] / 1e9)
        for power in range(15)
    ]
    small, even, large = (dict(curve)[size] for size in (1, 64, 16384))
    factor = 2 * (GPUS - 1) / GPUS

    def row(size: int, busbw: float, chosen: str) -> list[str]:
        found = predicted(size * 2**20)
        times = found["seconds"], factor * size * 2**20 / (busbw * 1e9)
        return [
            f"{size:,}",
            f"{found['busbw'] / 1e9:.0f}",
            f"{busbw:.0f}",
            *(f"{time * 1e3:.2f}" for time in times),
            chosen,
        ]

    return Chart(
        f"Bus bandwidth of an all-reduce over {GPUS} B200s in {NODES} nodes,"
        " with a 400 Gb/s NIC for each GPU",
        "A curve and marks over the buffer's size, from 1 MiB to 16 GiB. The"
        f" formula's curve rises from {small:.0f} GB/s at 1 MiB over"
        f" {even:.0f} at 64 MiB to {large:.0f} at 16 GiB. From 32 MiB on, the"
        " measured marks lie close to it. At 1 MiB, the mark is higher than the"
        " curve, and at 16 MiB lower.",
        lines(
            [
                Series("the formula, for rings", curve, marks=False),
                Series("measured", [(a, b) for a, b, _ in MEASURED], False),
            ],
            Axis(
                "buffer, MiB",
                [4**power for power in range(8)],
                "{:,}".format,
                True,
            ),
            Axis("GB/s", ticks(400), "{:.0f}".format),
        ),
        [
            [
                "MiB",
                "formula, GB/s",
                "measured",
                "formula, ms",
                "measured",
                "NCCL chose",
            ],
            *(row(*one) for one in MEASURED),
        ],
    )
