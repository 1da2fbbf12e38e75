"""The pictures of the chapters on pipelines, played on the planner's clock."""

from __future__ import annotations

from functools import partial

from lockstep.explore.pipeline import SETTINGS, held, played
from lockstep.explore.settings import read
from lockstep.explore.svg import long, place
from lockstep.planner.clock import Played
from lockstep.planner.figures import percent
from lockstep.site.pages.charts import Axis, Canvas, Chart

SCHEDULES = {  # title, settings of the explorable
    "GPipe": "",
    "1F1B": "schedule:1f1b",
    "ZB-H1": "schedule:zb-h1",
}
GAPS = {
    "1F1B as planned": "schedule:1f1b",
    "Late messages": "schedule:1f1b,message:50",
    "A slow last stage": "schedule:1f1b,extra:25",
}
ROW, BAR = 17, 15  # from rank to rank, and the height of a bar
RISE = 3.5  # of a micro-batch in the curve of what rank 0 holds
LOOKS = {"F": "plain-0", "B": "plain-4", "I": "plain-4", "W": "fill-2"}
KINDS = ["forward pass", "backward pass", "gradients of weights"]
LABEL = "held"


def idle(one: Played) -> str:
    """Return the share of the step in which an average rank waits."""
    busy = sum(end - start for row in one.bars for start, end, *_ in row)
    return f"{percent(1 - busy / (one.end * len(one.bars)), 0)} idle"


def draw(canvas: Canvas, panels: dict[str, Played], holding: bool) -> None:
    """Draw the panels below one another, on one axis of time.

    Args:
        holding: Draw what rank 0 holds, too.
    """
    kinds = KINDS if holding else KINDS[:2]
    canvas.legend(
        kinds,
        lambda on, i, at, y: on.shape(at, y - 7, 22, BAR, LOOKS["FBW"[i]]),
    )
    left, right = 10 + long(LABEL if holding else "0"), canvas.width - 2
    longest = max(one.end for one in panels.values())
    axis = Axis("time, in F", [*range(0, int(longest), 10), longest])
    scale = (right - left) / longest
    top = canvas.y
    for title, one in panels.items():
        canvas.y += 19
        canvas.text(2, canvas.y - 5, title, strong=True, kind="halo")
        said = f"{one.end:g} F, {idle(one)}"
        canvas.text(right, canvas.y - 5, said, "end", kind="halo")
        for rank, actions in enumerate(one.bars):
            canvas.text(2, canvas.y + 12, str(rank))
            for start, end, kind, number, _ in actions:
                at, wide = left + start * scale, (end - start) * scale
                canvas.shape(at, canvas.y, wide, BAR, LOOKS[kind])
                words = str(number + 1)
                if long(words) + 4 < wide:
                    at += wide / 2
                    canvas.text(at, canvas.y + 12, words, "middle", kind="on")
            canvas.y += ROW
        if holding:
            curve(canvas, one, left, scale)
    canvas.across(axis, left, right, top, canvas.y)


def curve(canvas: Canvas, one: Played, left: float, scale: float) -> None:
    """Draw the micro-batches that rank 0 holds over the step."""
    area = held(one, 0)
    totals = area.totals()
    bottom = canvas.y = canvas.y + 4 + max(totals) * RISE
    canvas.text(2, bottom - 1, LABEL)
    d = f"M{place(left)} {place(bottom)}"
    for end, value in zip(area.moments[1:], totals, strict=True):
        d += f"V{place(bottom - value * RISE)}H{place(left + end * scale)}"
    canvas.path(f"{d}V{place(bottom)}z", "chart-edge chart-plain")
    at = left + area.moments[totals.index(max(totals))] * scale + 5
    canvas.text(at, bottom - 2, f"{max(totals):g}", kind="on")
    canvas.y += 6


def _chart(
    panels: dict[str, Played], holding: bool, title: str, says: str
) -> Chart:
    return Chart(
        title,
        says,
        partial(draw, panels=panels, holding=holding),
        [
            ["schedule", "step", "idle", "held by ranks 0 to 3"],
            *(
                [
                    name,
                    f"{one.end:g} F",
                    idle(one).removesuffix(" idle"),
                    ", ".join(f"{x:g}" for x in one.schedule.held()),
                ]
                for name, one in panels.items()
            ),
        ],
    )


def _played(given: dict[str, str]) -> dict[str, Played]:
    return {name: played(read(SETTINGS, text)) for name, text in given.items()}


def schedules() -> Chart:
    """Draw a step of four ranks under GPipe, 1F1B and ZB-H1."""
    panels = _played(SCHEDULES)
    return _chart(
        panels,
        True,
        "One step of four ranks, 0 to 3, under three schedules. Numbers are"
        " micro-batches, and F is the time of one forward pass. Gray: the"
        " micro-batches whose activations rank 0 holds. ZB-H1 draws a backward"
        " pass as two boxes: the gradient of its input, then the gradients of"
        " its weights.",
        "Three timelines with a row for each of four ranks and eight"
        " micro-batches. In all of them the forward passes go down a staircase"
        " from rank 0 to rank 3, and the backward passes come up again. "
        + " ".join(
            f"{name} takes {one.end:g} F and is {idle(one)}."
            for name, one in panels.items()
        )
        + " Under GPipe, all forward passes come first, and rank 0 holds eight"
        " micro-batches before its first backward pass. Under 1F1B, rank 0"
        " starts four and then alternates, so it never holds more. Under"
        " ZB-H1, the gradients of weights fill the end of the step.",
    )


def gaps() -> Chart:
    """Draw a step of 1F1B as planned, with messages, and with a slow stage."""
    panels = _played(GAPS)
    return _chart(
        panels,
        False,
        "One step of 1F1B on four ranks, 0 to 3: as planned, with messages that"
        " take half of a forward pass, and with a last stage that takes a"
        " quarter longer than the others",
        "Three timelines with a row for each of four ranks and eight"
        " micro-batches. "
        + " ".join(
            f"{name}: {one.end:g} F, {idle(one)}."
            for name, one in panels.items()
        )
        + " As planned, ranks wait near the beginning and the end. With late"
        " messages, every rank has gaps throughout the step. With a slow last"
        " stage, the last rank has none, and all others have them.",
    )
