"""The picture of the chapter on hardware: which NICs a group of GPUs uses."""

from __future__ import annotations

from collections.abc import Sequence

from lockstep.explore.svg import place
from lockstep.instruments.group_bandwidth import group_bandwidth
from lockstep.planner.hardware import HARDWARE
from lockstep.site.pages.charts import LINE, Canvas, Chart, gigabytes

NODE = 8  # GPUs
GROUPS = {  # title: ranks of two nodes, or of a rack
    "one GPU in each node": [1, NODE + 1],
    "all GPUs of both nodes": [*range(2 * NODE)],
}
RACK = "a rack of GB200: 72 GPUs"
KINDS = {  # what a shape shows, with its class
    "GPU of the group": "fill-0",
    "NVLink": "fill-1",
    "NIC in use": "stroke-2",
}
GPU, NVLINK, NIC = KINDS.values()
H100, GB200 = HARDWARE["h100"], HARDWARE["gb200"]
HIGH = 16  # of a GPU
CABLE = 34  # between two nodes


def reached(ranks: Sequence[int]) -> float:
    """Return the bytes/s that a group of H100s reaches."""
    rates = H100["node_bandwidth"], H100["network_bandwidth"]
    return group_bandwidth(ranks, NODE, *rates)


def nics(ranks: Sequence[int]) -> int:
    """Return how many NICs of a node the group's ring uses."""
    return sum(rank < NODE for rank in ranks)


def groups() -> Chart:
    """Draw the NICs of two groups on two nodes, and a rack without any."""
    rows = [
        [title, str(nics(ranks)), gigabytes(reached(ranks)) + "/s"]
        for title, ranks in GROUPS.items()
    ]
    rows.append([RACK, "0", gigabytes(GB200["node_bandwidth"]) + "/s"])
    return Chart(
        "The bandwidth of a group's rings: two nodes of eight H100s, each GPU"
        " with one 400 Gb/s NIC, and a rack that needs no NIC inside",
        "Three drawings. In the first two, each of two nodes has eight GPUs on"
        " a bar of NVLink, and each GPU has a cable to the GPU with the same"
        " number in the other node. "
        + " ".join(
            f"{title}: {used} of 8 NICs in use, {rate}."
            for title, used, rate in rows[:-1]
        )
        + f" {RACK}: all share one bar of NVLink, {rows[-1][2]}.",
        draw,
        [["group", "NICs in use", "reaches"], *rows],
    )


def draw(canvas: Canvas) -> None:
    """Draw the three groups, one below the other."""
    canvas.legend([*KINDS], sample)
    left, right = 2.0, canvas.width - 2.0
    for title, ranks in GROUPS.items():
        heading(canvas, title, f"{gigabytes(reached(ranks))}/s")
        both = [
            [rank % NODE for rank in ranks if rank // NODE == node]
            for node in (0, 1)
        ]
        wide = (right - left) / NODE
        bar(canvas, left, right)
        gpus(canvas, left, wide, NODE, both[0])
        for column in range(NODE):
            at = left + (column + 0.5) * wide
            used = column in both[0]
            kind = f"chart-line chart-{NIC}" if used else "chart-grid"
            canvas.upright(at, canvas.y, canvas.y + CABLE, kind)
        canvas.y += CABLE
        gpus(canvas, left, wide, NODE, both[1])
        bar(canvas, left, right)
        canvas.y += 8
    heading(canvas, RACK, f"{gigabytes(GB200['node_bandwidth'])}/s")
    wide = (right - left) / 36
    gpus(canvas, left, wide, 36, range(36))
    bar(canvas, left, right)
    gpus(canvas, left, wide, 36, range(36))
    canvas.y += 4


def heading(canvas: Canvas, title: str, rate: str) -> None:
    """Write what is drawn, and what it reaches."""
    canvas.y += LINE
    canvas.text(2, canvas.y - 4, title, strong=True)
    canvas.text(canvas.width - 2, canvas.y - 4, rate, "end", strong=True)


def bar(canvas: Canvas, left: float, right: float) -> None:
    """Draw the NVLink that connects the GPUs next to it."""
    canvas.box(left, canvas.y, right - left, 7, NVLINK)
    canvas.y += 7


def gpus(
    canvas: Canvas, left: float, wide: float, count: int, used: Sequence[int]
) -> None:
    """Draw a row of GPUs, gray unless they are in the group."""
    for column in range(count):
        at = left + (column + 0.15) * wide
        if column in used:
            canvas.box(at, canvas.y, 0.7 * wide, HIGH, GPU)
        else:
            d = f"M{place(at)} {place(canvas.y)}h{place(0.7 * wide)}v{HIGH}"
            outline = f"{d}h{place(-0.7 * wide)}z"
            canvas.path(outline, "chart-grid chart-plain")
    canvas.y += HIGH


def sample(canvas: Canvas, i: int, at: float, middle: float) -> None:
    """Draw a kind's sample for the legend."""
    kind = [*KINDS.values()][i]
    if kind == NIC:
        d = f"M{place(at)} {place(middle)}h22"
        canvas.path(d, f"chart-line chart-{NIC}")
    else:
        canvas.box(at, middle - 6, 22, 12, kind)
