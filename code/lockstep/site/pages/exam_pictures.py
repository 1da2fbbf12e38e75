"""The pictures of the resume exam: a run that is killed, compared with an
undisturbed run at every step, and the trainers that were examined."""

from __future__ import annotations

import re
from pathlib import Path

from lockstep.experiments import peers
from lockstep.experiments.peers.tables import NEEDS, OURS, SHORT, read
from lockstep.explore.svg import long
from lockstep.practice.figures import ROOT
from lockstep.site.pages.charts import LINE, NARROW, Canvas, Chart

RECORDED = ROOT / "docs" / "recorded" / "resume-exam-first-difference.txt"
SAME, FIRST, FOLLOWS = "fill-0", "fill-1", "stroke-1"
KINDS = {"same": SAME, "first difference": FIRST, "follows from it": FOLLOWS}
TAKEN, THROWN_AWAY = "plain-3", "stroke-3"  # steps of a launch
HIGH, ROW = 16, 21
ANSWERS = {  # how a trainer gives what a user needs: the legend's words, a kind
    "documented": ("as documented", "fill-0"),
    "changed": ("after changes in your script", "stroke-0"),
    "not": ("not, or no answer", "fill-1"),
    "not applicable": ("doesn't apply", ""),
}


def recorded() -> tuple[dict[str, list[bool]], int, int, str]:
    """Return the steps that differ, for each thing that is compared; the steps
    at which the first launch was killed and the second began; and the blame.

    Raises:
        ValueError: the record has a different form.
    """
    text = RECORDED.read_text("utf-8")
    rows = re.findall(r"^(\w.{13})((?:  [.x])+)$", text, re.M)
    ends = re.search(
        r"killed after step (\d+)\n.* weights of step (\d+)\n.*blames: (.+)\n",
        text,
    )
    if not rows or not ends:
        raise ValueError(f"{RECORDED.name}: not a comparison of two runs")
    found = {n.strip(): [one == "x" for one in x.split()] for n, x in rows}
    return found, int(ends[1]), int(ends[2]), ends[3]


def kinds(rows: dict[str, list[bool]]) -> dict[str, list[str]]:
    """Return a kind for each cell: only the earliest difference is the first;
    all others follow from it."""
    first = min(row.index(True) for row in rows.values() if any(row))
    return {
        name: [
            SAME if not x else FIRST if step == first else FOLLOWS
            for step, x in enumerate(row)
        ]
        for name, row in rows.items()
    }


def first_difference() -> Chart:
    """Draw the steps of three launches, and where two runs differ."""
    rows, killed, start, blamed = recorded()
    steps = len(next(iter(rows.values())))
    cells = kinds(rows)
    launches = {  # name: kinds of its steps, with the place of the first
        "undisturbed": (0, [TAKEN] * steps),
        "launch 1": (0, [TAKEN] * start + [THROWN_AWAY] * (killed - start)),
        "launch 2": (start, [TAKEN] * (steps - start)),
    }

    def draw(canvas: Canvas) -> None:
        left = 6 + long("learning rate")
        wide = (canvas.width - left - 2) / steps

        def at(step: float) -> float:
            return left + step * wide

        def row(name: str, begin: int, found: list[str]) -> None:
            canvas.text(2, canvas.y + 13, name)
            for step, kind in enumerate(found, begin):
                canvas.shape(at(step) + 1, canvas.y, wide - 2, HIGH, kind)
            canvas.y += ROW

        canvas.y += LINE
        for step in (1, start, steps):
            canvas.text(at(step - 0.5), canvas.y - 5, str(step), "middle")
        canvas.text(2, canvas.y - 5, "step", strong=True)
        for name, (begin, found) in launches.items():
            row(name, begin, found)
        low = canvas.y - 2 * ROW - 2
        canvas.text(at(killed) + 5, low + 15, "killed")
        canvas.upright(at(start), low, low + 2 * ROW, "chart-rule")
        canvas.text(at(start) - 5, low + ROW + 15, "resumes", "end")
        canvas.y += 8
        title = "compared at the beginning of each step"
        canvas.text(2, canvas.y + 13, title, strong=True)
        canvas.y += LINE
        canvas.legend([*KINDS], sample)
        for name, found in cells.items():
            row(name, 0, found)

    return Chart(
        f"A run of {steps} steps that is killed after step {killed} and resumes"
        f" from step {start}, compared with an undisturbed run. The trainer has"
        " one fault, and the first difference names it.",
        f"Three rows of steps. The undisturbed run takes steps 1 to {steps}."
        f" The first launch of the other run saves after step {start} and is"
        f" killed after step {killed}; the second launch takes steps"
        f" {start + 1} to {steps}. Below, five rows compare the two runs at"
        f" each step. The first difference is in the row {blamed}, at step"
        f" {start + 1}. "
        + " ".join(
            f"{name}: {found.count(True)} of {steps} steps differ."
            for name, found in rows.items()
        ),
        draw,
        [
            ["step", *map(str, range(1, steps + 1))],
            *(
                [name, *(words(kind) for kind in found)]
                for name, found in cells.items()
            ),
        ],
    )


def words(kind: str) -> str:
    """Return the legend's words for a kind of cell."""
    return next(name for name, one in KINDS.items() if one == kind)


def sample(canvas: Canvas, i: int, at: float, middle: float) -> None:
    """Draw a sample of a kind, for the legend."""
    canvas.shape(at, middle - 7, 22, HIGH, [*KINDS.values()][i])


def matrix() -> Chart:
    """Draw which trainers give what a user needs: a row for each trainer, and
    a numbered column for each need."""
    trainers = {
        SHORT[one.folder]: [one.gives(need) for need in NEEDS]
        for one in read(Path(peers.__path__[0]))
        if one.result and one.folder not in OURS
    }
    legend = [*ANSWERS.values()]

    def cell(
        canvas: Canvas, at: float, top: float, wide: float, kind: str
    ) -> None:
        if kind:
            canvas.shape(at, top, wide, HIGH, kind)
        else:
            canvas.text(at + wide / 2, top + 13, "–", "middle")

    def draw(canvas: Canvas) -> None:
        canvas.legend(
            [words for words, _ in legend],
            lambda on, i, at, middle: cell(
                on, at, middle - 7, 22, legend[i][1]
            ),
        )
        left = 6 + max(map(long, trainers))
        wide = (canvas.width - left - 2) / len(NEEDS)
        canvas.y += LINE
        for number in range(len(NEEDS)):
            at = left + (number + 0.5) * wide
            words = str(number + 1)
            canvas.text(at, canvas.y - 4, words, "middle", strong=True)
        for name, found in trainers.items():
            canvas.text(2, canvas.y + 13, name)
            for number, how in enumerate(found):
                at = left + number * wide + 2
                cell(canvas, at, canvas.y, wide - 4, ANSWERS[how][1])
            canvas.y += ROW
        columns = canvas.width // NARROW
        for number, need in enumerate(NEEDS):
            canvas.y += LINE * (number % columns == 0)
            at = 2 + number % columns * canvas.width / columns
            canvas.text(at, canvas.y, f"{number + 1} {need}")
        canvas.y += 8

    return Chart(
        f"What {len(trainers)} trainers do after a restart, on two CPU ranks."
        " Each was set up as its documentation recommends.",
        f"A table of signs, with a row for each of {len(trainers)} trainers and"
        f" {len(NEEDS)} columns. "
        + " ".join(
            f"{need[0].upper()}{need[1:]} as documented: "
            + (
                ", ".join(n for n, one in trainers.items() if told(one, i))
                or "no trainer"
            )
            + "."
            for i, need in enumerate(NEEDS)
        ),
        draw,
        [
            ["trainer", *NEEDS],
            *(
                [name, *(ANSWERS[how][0] for how in found)]
                for name, found in trainers.items()
            ),
        ],
    )


def told(found: list[str], need: int) -> bool:
    """Return whether a trainer gives this need as documented."""
    return found[need] == "documented"
