"""The picture of the chapter on silent failures: a bit flips on one of four
ranks, and a comparison sees it or doesn't."""

from __future__ import annotations

from collections.abc import Sequence

from lockstep.explore.svg import long, place
from lockstep.site.pages.charts import LINE, Canvas, Chart

RANKS, SICK = 4, 2
WEIGHT = 100  # before the step
GRADIENTS = [rank + 1 for rank in range(RANKS)]  # of each rank's samples
FLIP = 64  # the bit that a sick rank flips
SETUP = [
    f"Rank {SICK} flips the bit that is worth {FLIP}.",
    f"Weight = {WEIGHT} − the sum of gradients.",
]
KINDS = {"right": "stroke-0", "wrong": "fill-1"}
TALL, GAP = 17, 4
PATCH = 28  # wide; a number's background
Rows = list[tuple[str, list[int]]]


def step(weights: Sequence[int], gradients: Sequence[int]) -> Rows:
    """Return each rank's gradient, the sum that the all-reduce gives it, and
    its weight after the update."""
    total = sum(gradients)
    return [
        (f"rank {rank}", [gradients[rank], total, weights[rank] - total])
        for rank in range(RANKS)
    ]


def replay(computes: Sequence[Sequence[int]]) -> Rows:
    """Return the gradient of each rank's samples, by itself and by the next
    rank. Rank r computes `computes[r][of]` for the samples of rank `of`."""
    return [
        (
            f"rank {rank}'s samples",
            [computes[rank][rank], computes[(rank + 1) % RANKS][rank]],
        )
        for rank in range(RANKS)
    ]


def checksums(rows: Rows) -> str:
    """Say what a comparison of the weights finds."""
    weights = [row[-1] for _, row in rows]
    usual = max(weights, key=weights.count)
    odd = [name for name, row in rows if row[-1] != usual]
    return f"{', '.join(odd)} differs" if odd else "All weights are equal"


def disagreements(rows: Rows) -> str:
    """Say which rank is in both comparisons that fail."""
    failed = [rank for rank, (_, (a, b)) in enumerate(rows) if a != b]
    both = [rank for rank in failed if (rank - 1) % RANKS in failed]
    return f"rank {both[0]} is in both pairs that differ"


def panels() -> dict[str, tuple[list[str], Rows, Rows, str]]:
    """Return by title the columns, the rows without a fault, the rows with it,
    and the finding."""
    whole = step([WEIGHT] * RANKS, GRADIENTS)
    weights = [WEIGHT ^ FLIP * (rank == SICK) for rank in range(RANKS)]
    gradients = [g ^ FLIP * (r == SICK) for r, g in enumerate(GRADIENTS)]
    twice = [[g ^ FLIP * (r == SICK) for g in GRADIENTS] for r in range(RANKS)]
    columns = ["gradient", "sum", "weight"]
    flipped, reduced = step(weights, GRADIENTS), step([WEIGHT] * 4, gradients)
    again = replay(twice)
    return {
        "A weight flips; compare weights": (
            columns,
            whole,
            flipped,
            checksums(flipped),
        ),
        "A gradient flips; compare weights": (
            columns,
            whole,
            reduced,
            checksums(reduced),
        ),
        "Gradients flip; compute each twice": (
            ["itself", "next rank"],
            replay([GRADIENTS] * RANKS),
            again,
            disagreements(again),
        ),
    }


def spread() -> Chart:
    """Draw what a flipped bit reaches, and what a comparison finds."""
    found = panels()
    return Chart(
        "Where a wrong number goes, and which comparison finds it",
        "Three tables of four ranks, with right and wrong numbers. "
        + " ".join(
            f"{title}: {finding}." for title, (*_, finding) in found.items()
        )
        + " A weight that flips stays in one replica. A gradient that flips"
        " before the sum makes all weights equally wrong.",
        draw,
        [
            ["case", "of", "numbers", "wrong"],
            *(
                [
                    title,
                    name,
                    ", ".join(
                        f"{column} {value}"
                        for column, value in zip(columns, row, strict=True)
                    ),
                    str(sum(a != b for a, b in zip(row, right, strict=True))),
                ]
                for title, (columns, whole, rows, _) in found.items()
                for (name, row), (_, right) in zip(rows, whole, strict=True)
            ),
        ],
    )


def patch(canvas: Canvas, middle: float) -> None:
    """Draw a plain background for a number on a hatch."""
    left, top = place(middle - PATCH / 2), place(canvas.y + 1)
    canvas.path(f"M{left} {top}h{PATCH}v{TALL - 2}H{left}z", "chart-mark")


def sample(canvas: Canvas, i: int, at: float, middle: float) -> None:
    """Draw a sample of a cell, for the legend."""
    canvas.shape(at, middle - TALL / 2, 22, TALL, [*KINDS.values()][i])


def draw(canvas: Canvas) -> None:
    """Draw the panels below each other."""
    for line in SETUP:
        canvas.y += LINE
        canvas.text(2, canvas.y - 4, line)
    canvas.legend([*KINDS], sample)
    left = 12 + long(f"rank {RANKS}'s samples")
    for title, (columns, whole, rows, finding) in panels().items():
        canvas.y += LINE
        canvas.text(2, canvas.y - 4, title, strong=True)
        wide = (canvas.width - left - 2) / len(columns)
        canvas.y += LINE
        for column, name in enumerate(columns):
            middle = left + (column + 0.5) * wide
            canvas.text(middle, canvas.y - 4, name, "middle")
        for (name, row), (_, right) in zip(rows, whole, strict=True):
            low = canvas.y + 13
            canvas.text(2, low, name)
            for column, value in enumerate(row):
                at = left + column * wide
                wrong = value != right[column]
                kind = KINDS["wrong" if wrong else "right"]
                canvas.shape(at, canvas.y, wide - GAP, TALL, kind)
                at += (wide - GAP) / 2
                if wrong:
                    patch(canvas, at)
                canvas.text(at, low, f"{value}", "middle", kind="halo")
            canvas.y += TALL + 2
        canvas.y += LINE
        canvas.text(2, canvas.y - 4, f"→ {finding}")
        canvas.y += 2
