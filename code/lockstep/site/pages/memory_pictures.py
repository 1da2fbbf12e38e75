"""The picture of the chapter on memory: what a GPU holds during one step."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from lockstep.explore.memory_step import GPU, GROUPS, SETTINGS, step
from lockstep.explore.settings import read
from lockstep.explore.svg import long, place
from lockstep.site.pages.charts import LINE, Canvas, Chart, gigabytes

PANELS = {  # title, with the explorable's settings
    "keep all activations": "micro:2",
    "recompute each block": "micro:2,recompute:full",
}
KINDS = {  # what is drawn: the explorable's kinds, and the fill in its colors
    "weights and moments": (("weights", "optimizer"), 2),
    "gradients": (("gradients",), 4),
    "gathered weights": (("gathered",), 1),
    "activations": (("activations",), 0),
    "logits and loss": (("logits",), 3),
}
FILLS = [f"fill-{fill}" for _, fill in KINDS.values()]
PHASES = {"forward": "forward", "backward": "backward", "optimizer": "update"}
TICKS = 0, 50e9, 100e9
HIGH = 1.25e-9  # units of the drawing for one byte


@dataclass(frozen=True)
class Held:
    """One step of a GPU, and the bytes that it holds at each moment."""

    phases: list[str]  # of each moment
    edges: list[float]  # where each moment begins, and the end
    kinds: list[list[float]]  # bytes of each kind, by moment

    @property
    def totals(self) -> list[float]:
        """The bytes at each moment."""
        return [sum(at) for at in zip(*self.kinds, strict=True)]

    def at(self, phase: str, last: bool = False) -> int:
        """Return a phase's first or last moment."""
        found = [i for i, one in enumerate(self.phases) if one == phase]
        return found[-1 if last else 0]


def held(settings: str) -> Held:
    """Return a step of the explorable, without the system's share."""
    moments = step(read(SETTINGS, settings))
    return Held(
        [phase for phase, _, _ in moments],
        [0.0, *accumulate(wide for _, wide, _ in moments)],
        [
            [sum(one.get(name, 0.0) for name in names) for _, _, one in moments]
            for names, _ in KINDS.values()
        ],
    )


def step_memory() -> Chart:
    """Memory over one training step, with and without recomputation."""
    panels = {title: held(given) for title, given in PANELS.items()}
    peaks = {title: max(one.totals) for title, one in panels.items()}
    kept = panels["keep all activations"]
    full = next(i for i, total in enumerate(kept.totals) if total > GPU)
    blocks = 32 * (full - kept.at("forward")) // GROUPS

    def row(title: str, when: str, at: int) -> list[str]:
        one = panels[title]
        parts = [f"{kind[at] / 1e9:.1f} GB" for kind in one.kinds]
        return [f"{title}, {when}", *parts, f"{one.totals[at] / 1e9:.1f} GB"]

    return Chart(
        "Memory of one GPU over a training step, after the first: Llama 3 8B"
        " under FSDP2 on eight GPUs, two sequences of 8,192 tokens on each. The"
        " square marks where the 80 GB are full.",
        "Two panels over one training step, with a line at 80 GB. "
        + " ".join(
            f"{title}: the peak is {gigabytes(peak)}, at the loss."
            for title, peak in peaks.items()
        )
        + " Weights and moments are a flat band at the bottom. Activations"
        f" rise in the forward pass and cross 80 GB after {blocks} of 32"
        " blocks. They fall in the backward pass, while gradients grow. Logits"
        " are there only at the loss. With recomputation, activations are a"
        " thin band, and the logits are more than half of the peak.",
        lambda canvas: draw(canvas, panels),
        [
            ["moment", *KINDS, "sum"],
            *(
                row(title, when, one.at(phase, last))
                for title, one in panels.items()
                for when, phase, last in (
                    ("before the forward pass", "data", False),
                    ("loss", "loss", False),
                    ("backward pass begins", "backward", False),
                    ("backward pass ends", "backward", True),
                    ("update", "optimizer", False),
                )
            ),
        ],
    )


def draw(canvas: Canvas, panels: dict[str, Held]) -> None:
    """Draw one panel below the other, on one scale of bytes."""
    canvas.legend([*KINDS], sample)
    left, right = 8 + long("100 GB"), canvas.width - 2.0
    for title, one in panels.items():
        canvas.y += LINE
        canvas.text(2, canvas.y - 4, title, strong=True)
        peak = max(one.totals)
        high = max(peak, GPU)
        bottom = canvas.y = canvas.y + 10 + high * HIGH
        for tick in (x for x in TICKS if x < high):
            at = bottom - tick * HIGH
            canvas.path(f"M{place(left)} {place(at)}H{right}", "chart-grid")
            canvas.text(left - 5, at + 4.5, gigabytes(tick), "end")
        wide = (right - left) / one.edges[-1]
        edges = [left + edge * wide for edge in one.edges]
        areas(canvas, one, edges, bottom)
        line = bottom - GPU * HIGH
        canvas.path(f"M{place(left)} {place(line)}H{right}", "chart-rule")
        words = f"H100: {gigabytes(GPU)}"
        canvas.text(right, line - 5, words, "end", kind="halo")
        at = one.totals.index(peak)
        words = f"{gigabytes(peak)} at the {one.phases[at]}"
        height = bottom - peak * HIGH + 12
        canvas.text(edges[at + 1] + 5, height, words, kind="halo")
        if peak > GPU:
            crossed = next(i for i, x in enumerate(one.totals) if x > GPU)
            canvas.mark(1, edges[crossed], line)
        for phase, words in PHASES.items():
            start, end = edges[one.at(phase)], edges[one.at(phase, True) + 1]
            middle = (start + end) / 2, "middle"
            where = (right, "end") if end == edges[-1] else middle
            canvas.text(where[0], bottom + 16, words, where[1])
        canvas.y += LINE + 6


def sample(canvas: Canvas, i: int, at: float, middle: float) -> None:
    """Draw a kind's sample for the legend."""
    canvas.box(at, middle - 6, 22, 12, FILLS[i])


def areas(canvas: Canvas, one: Held, edges: list[float], bottom: float) -> None:
    """Stack the kinds, each constant within a moment."""
    below = [0.0] * len(one.phases)

    def corners(values: list[float]) -> list[str]:
        return [
            f"{place(edge)} {place(bottom - value * HIGH)}"
            for i, value in enumerate(values)
            for edge in edges[i : i + 2]
        ]

    for fill, values in zip(FILLS, one.kinds, strict=True):
        over = [a + b for a, b in zip(below, values, strict=True)]
        path = "L".join(corners(over) + corners(below)[::-1])
        canvas.parts.append(f'<path d="M{path}Z" {canvas.fill(fill)}/>')
        below = over
