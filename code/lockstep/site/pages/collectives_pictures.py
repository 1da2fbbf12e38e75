"""The pictures of the chapter on collectives: a ring all-reduce step by step,
the rings between two nodes, and the bus bandwidth of published all-reduces next
to the formula's."""

from __future__ import annotations

from lockstep.explore.ring import held, sends
from lockstep.explore.svg import long, place
from lockstep.planner.hardware import HARDWARE
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
    "one rank's values": "stroke-3",
    "sum of some ranks": "plain-2",
    "sum of all ranks": "plain-0",
}
JUST = "has just arrived"  # from the rank before; the legend's last entry
GAP, HIGH = 10, 22  # between two grids, and of a cell

NICS = 8  # of a node, and GPUs
CABLE = 56  # between two nodes
SHOWN = 3  # the ring that the picture follows
RING, OTHERS = 0, 2  # kinds of line
CARD = HARDWARE["h100"]["network_bandwidth"]

GPUS, NODES = 32, 4
BANDWIDTH = 365e9  # bytes/s, measured on four nodes of another kind
# Seconds of a hop over NVLink and over the network, by NCCL's tuner, Simple.
NVLINK, NETWORK = 3.4e-6, 14e-6
# github.com/stas00/ml-engineering, network/README.md at commit 0cc3de50: an
# all-reduce over four nodes of eight B200s, NCCL 2.30.7. The buffer in MiB, the
# bus bandwidth in GB/s, and what AWS's tuner plugin for NCCL chose.
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
        " are chunks 0 to 3, and a number says how many ranks' values a chunk"
        " sums. A triangle marks the chunk that has just arrived from the rank"
        " above, or in rank 0 from rank 3. After a rank has sent a partial sum"
        " on, its own value is left.",
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
    canvas.legend([*KINDS, JUST], sample)
    left = 8 + long("rank 0")
    wide = (canvas.width - left - 2 - GAP * (RANKS - 1)) / RANKS
    for half, steps in HALVES.items():
        canvas.y += LINE
        canvas.text(2, canvas.y, half, strong=True)
        canvas.y += 3 * LINE - 4
        canvas.text(2, canvas.y - 6, "chunk")
        for rank in range(RANKS):
            canvas.text(2, canvas.y + HIGH * rank + 15.5, f"rank {rank}")
        for column, step in enumerate(steps):
            at = left + column * (wide + GAP)
            canvas.text(at + wide / 2, canvas.y - 22, named(step), "middle")
            grid(canvas, step, at, wide / RANKS)
        canvas.y += HIGH * RANKS + 6


def grid(canvas: Canvas, step: int, left: float, wide: float) -> None:
    """Draw the chunks of all ranks after a step, below their numbers."""
    for chunk in range(RANKS):
        middle = left + wide * (chunk + 0.5)
        canvas.text(middle, canvas.y - 6, str(chunk), "middle", kind="column")
    for rank, counts in enumerate(held(RANKS, step)):
        top = canvas.y + HIGH * rank
        for chunk, count in enumerate(counts):
            at = left + wide * chunk
            look = [*KINDS.values()][(count > 1) + (count == RANKS)]
            canvas.shape(at, top, wide, HIGH, look)
            kind = "count" if count == 1 else "in"
            canvas.text(
                at + wide / 2, top + 16.5, str(count), "middle", kind=kind
            )
    for rank in range(RANKS) if step else ():
        chunk, _ = sends(RANKS, step, (rank - 1) % RANKS)
        arrow(canvas, left + wide * (chunk + 0.5), canvas.y + HIGH * rank)


def arrow(canvas: Canvas, middle: float, top: float) -> None:
    """Draw a triangle that points down into a cell."""
    d = f"M{place(middle - 5)} {place(top - 3)}h10l-5 7z"
    canvas.path(d, "chart-arrow")


def sample(canvas: Canvas, i: int, at: float, middle: float) -> None:
    """Draw a kind's sample for the legend."""
    if i == len(KINDS):
        arrow(canvas, at + 11, middle - 1)
    else:
        canvas.shape(at, middle - 6, 22, 12, [*KINDS.values()][i])


def ring_nics() -> Chart:
    """Draw two nodes, and the NIC through which each of eight rings leaves."""
    one, all_ = (f"{CARD * n / 1e9:.0f} GB/s" for n in (1, NICS))
    return Chart(
        f"Eight rings over two nodes. Each passes all eight GPUs of a node over"
        f" NVLink and leaves through a different NIC. One NIC carries {one},"
        f" and eight carry {all_}.",
        "Two rows of eight GPUs, one for each node. A line of NVLink joins the"
        " GPUs of a row. From each GPU, a line leads through its NIC to the GPU"
        " with the same number in the other node. Ring 3 is drawn solid: it"
        " passes all eight GPUs of the first node, and leaves through NIC 3."
        " The other seven rings leave through the other seven NICs.",
        draw_nics,
        [
            ["ring", "leaves a node through", "carries"],
            *(
                [f"ring {ring}", f"NIC {ring}", f"1/8 of the buffer, {one}"]
                for ring in range(NICS)
            ),
        ],
    )


def draw_nics(canvas: Canvas) -> None:
    """Draw one node above the other, and the cables between them."""
    canvas.legend(
        [f"ring {SHOWN}", "the other seven"],
        lambda on, i, at, middle: on.line(
            (RING, OTHERS)[i], [(at, middle), (at + 22, middle)]
        ),
    )
    left = 8 + long("node 0")
    wide = (canvas.width - left - 2) / NICS
    places = [left + wide * (ring + 0.5) for ring in range(NICS)]
    above = canvas.y + LINE
    below = above + HIGH + CABLE
    for node, (top, bar) in enumerate(
        ((above, above - 8), (below, below + HIGH + 8))
    ):
        canvas.text(2, top + 15.5, f"node {node}")
        canvas.line(RING, [(places[0], bar), (places[-1], bar)])
        edge = top if node == 0 else top + HIGH
        for ring, x in enumerate(places):
            canvas.line(RING, [(x, bar), (x, edge)])
            d = f"M{place(x - 0.35 * wide)} {place(top)}h{place(0.7 * wide)}"
            d += f"v{HIGH}h{place(-0.7 * wide)}z"
            canvas.path(d, "chart-line chart-stroke-3")
            canvas.text(x, top + 15.5, str(ring), "middle")
    middle = (above + HIGH + below) / 2
    canvas.text(2, middle - 3, "NICs,")
    canvas.text(2, middle + 12, "GB/s")
    for ring, x in enumerate(places):
        kind = RING if ring == SHOWN else OTHERS
        canvas.line(kind, [(x, above + HIGH), (x, below)])
        rate = f"{CARD / 1e9:.0f}"
        canvas.text(x, middle + 4.5, rate, "middle", kind="halo")
    canvas.y = below + HIGH + 14


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
                "algorithm",
            ],
            *(row(*one) for one in MEASURED),
        ],
    )
