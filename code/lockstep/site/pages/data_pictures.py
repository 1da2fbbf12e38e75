"""The picture of the chapter on data correctness: one order, dealt to ranks."""

from __future__ import annotations

from lockstep.practice.figures import ROOT
from lockstep.site.pages.charts import LINE, Canvas, Chart

RECORDED = ROOT / "docs" / "recorded" / "data-correctness-dealt.txt"
BATCH, WORLDS = 4, (1, 2, 4)
GAP = 8  # between two steps


def dealt() -> dict[int, list[list[list[int]]]]:
    """Return the recorded ids by world size, step and rank.

    Raises:
        ValueError: the record has a different form.
    """
    rows = RECORDED.read_text("utf-8").splitlines()[1:]
    found: dict[int, list[list[list[int]]]] = {world: [] for world in WORLDS}
    for row in rows:
        cells = [cell for cell in row.split("  ") if cell.strip()][1:]
        if len(cells) != len(WORLDS):
            raise ValueError(f"{RECORDED.name}: not three jobs in {row!r}")
        for world, cell in zip(WORLDS, cells, strict=True):
            shares = [[*map(int, part.split())] for part in cell.split("|")]
            found[world].append(shares)
    return found


def one_order() -> Chart:
    """One order of samples, and who trains on each in four jobs."""
    jobs = dealt()
    order = [sample for [ids] in jobs[1] for sample in ids]
    ranks = {world: owners(order, jobs[world]) for world in WORLDS}
    rows = {
        f"{world} rank{'s' * (world > 1)}": ranks[world] for world in WORLDS
    }
    rows["4, then 2"] = ranks[4][:BATCH] + ranks[2][BATCH:]
    first = order[:BATCH]
    return Chart(
        "One order, dealt to one, two and four ranks; the last job dies after"
        " its first step and resumes on two",
        f"The order of samples is {', '.join(map(str, order))}, in steps of"
        f" {BATCH}. Four jobs train on it: on one rank, on two, on four, and on"
        " four ranks for one step and two from then on. In each job, each step"
        f" has the same samples, the first {', '.join(map(str, first))}."
        " Only the rank that trains on a sample differs.",
        lambda canvas: draw(canvas, order, rows),
        [
            ["position", *map(str, range(len(order)))],
            ["sample", *map(str, order)],
            *(
                [name, *(f"rank {rank}" for rank in row)]
                for name, row in rows.items()
            ),
        ],
    )


def owners(order: list[int], steps: list[list[list[int]]]) -> list[int]:
    """Return the rank that trains on each position of the order."""
    found: list[int] = []
    for at, shares in enumerate(steps):
        rank_of = {s: rank for rank, ids in enumerate(shares) for s in ids}
        found += [rank_of[s] for s in order[at * BATCH : (at + 1) * BATCH]]
    return found


def draw(canvas: Canvas, order: list[int], rows: dict[str, list[int]]) -> None:
    """Draw the order, and below it a row of cells for each job."""
    kinds = [f"rank {rank}" for rank in range(max(WORLDS))]
    canvas.legend(kinds, Canvas.swatch)
    left, steps = 74.0, len(order) // BATCH
    wide = (canvas.width - left - GAP * (steps - 1) - 2) / len(order)

    def at(position: int) -> float:
        return left + position * wide + position // BATCH * GAP

    samples = len({*order})
    canvas.y += LINE
    canvas.text(canvas.width - 2, canvas.y - 4, "next epoch", "end")
    top = canvas.y
    canvas.y += LINE
    canvas.text(2, canvas.y - 4, "sample")
    for position, sample in enumerate(order):
        middle = at(position) + wide / 2
        canvas.text(middle, canvas.y - 4, str(sample), "middle", strong=True)
    for name, row in rows.items():
        canvas.y += 6
        canvas.text(2, canvas.y + 14, name)
        for position, rank in enumerate(row):
            canvas.box(at(position), canvas.y, wide, 20, f"fill-{rank}")
        canvas.y += 20
    restart = at(BATCH) - GAP / 2
    canvas.upright(restart, canvas.y - 23, canvas.y + 3, "chart-rule")
    canvas.upright(at(samples), top - 2, canvas.y, "chart-rule")
    for step in range(steps):
        middle = at(step * BATCH) + BATCH * wide / 2
        canvas.text(middle, canvas.y + 16, f"step {step + 1}", "middle")
        begins = f"position {step * BATCH}"
        canvas.text(middle, canvas.y + 16 + LINE, begins, "middle")
    canvas.y += 24 + LINE
