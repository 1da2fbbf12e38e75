"""A campaign as Markdown, each part a section that a page includes."""

from collections.abc import Iterable
from statistics import median
from typing import Any

from lockstep.experiments.faults.judge import ENDS
from lockstep.experiments.markdown import measured, sections, table
from lockstep.trainer.extensions.faults import COMPUTING, SAVING

Result = dict[str, Any]
WIDTH, LEFT, ROW = 360, 64, 26  # of the plot, in units as wide as a phone's px


def tables(found: Result) -> str:
    """All of them, in one text."""
    return sections(found, kinds, places, plot, in_a_row, machine)


def recovered(runs: Iterable[Result]) -> list[float]:
    """The seconds that these runs took to recover."""
    return [seconds for run in runs for seconds in run["recovery"]]


def of_kind(found: Result, kind: str) -> list[Result]:
    """Its runs."""
    return [run for run in found["runs"] if run["kind"] == kind]


def kinds(found: Result) -> str:
    """Per kind: what it comes to, how often, and the time to recover."""
    rows = []
    for kind, end in ENDS.items():
        runs = of_kind(found, kind)
        took = recovered(runs)
        times = [f"{f(took):.1f}" for f in (median, max)] if took else ["", ""]
        rows.append([f"`{kind}`: {end}", counted(runs), *times])
    return table(["kind", "runs", "median s", "worst s"], rows)


def places(found: Result) -> str:
    """Runs by phase and kind, with the median time to recover."""
    rows = []
    for phase in COMPUTING + SAVING:
        row = [f"`{phase}`"]
        for kind in ENDS:
            here = [r for r in of_kind(found, kind) if r["phase"] == phase]
            took = recovered(here)
            times = f": {median(took):.1f} s" if took else ""
            row.append(counted(here) + times if here else "")
        rows.append(row)
    return table(["phase", *(f"`{kind}`" for kind in ENDS)], rows)


def counted(runs: list[Result]) -> str:
    """How many; and, bold, how many did not end as they have to."""
    wrong = sum(bool(run["wrong"]) for run in runs)
    return f"{len(runs)}, **{wrong} wrong**" if wrong else str(len(runs))


def plot(found: Result) -> str:
    """Every time to recover as a dot, every kind in a line; as SVG."""
    lines = {kind: recovered(of_kind(found, kind)) for kind in ENDS}
    lines = {kind: took for kind, took in lines.items() if took}
    most = max((max(took) for took in lines.values()), default=1.0)
    scale = (WIDTH - LEFT - 12) / most
    every = next(t for t in (1, 2, 5, 10, 20, 50, 100) if most <= 6 * t)
    bottom = ROW * len(lines) + 6
    parts = []
    for second in range(0, int(most) + 1, every):
        x = LEFT + second * scale
        parts.append(
            f'<path d="M{x:.1f} 4V{bottom}" stroke="currentColor"'
            ' stroke-opacity=".2"/>'
            f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">'
            f"{second}</text>"
        )
    for number, (kind, took) in enumerate(lines.items()):
        y = ROW * number + ROW / 2 + 4
        parts.append(f'<text x="0" y="{y + 4:.0f}">{kind}</text>')
        parts += [
            f'<circle cx="{LEFT + s * scale:.1f}" cy="{y:.0f}" r="4"'
            ' fill-opacity=".6"/>'
            for s in sorted(took)
        ]
    title = "Seconds to recover, each run a dot, by the kind of its fault"
    height = bottom + 36
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}"'
        ' style="width:100%;max-width:32rem" font-size="13"'
        ' fill="currentColor">'
        f"{''.join(parts)}"
        f'<text x="{WIDTH}" y="{bottom + 32}" text-anchor="end">'
        "seconds to recover</text></svg>\n"
    )


def in_a_row(found: Result) -> str:
    """One job that lost a rank in every attempt."""
    row = found["in_a_row"]
    times, took = len(row["faults"]), row["recovery"]
    if not took:
        return f"- **0 of {times}** restarts in a row\n"
    return (
        f"- **{len(took)} of {times}** restarts in a row, of one job with two"
        f" ranks: median {median(took):.1f} s, worst {max(took):.1f} s\n"
    )


def machine(found: Result) -> str:
    """Where, when and with what, and what repeats it."""
    how, runs = found["settings"], len(found["runs"])
    steps, every = how["max_steps"], how["checkpoint_every_steps"]
    return measured(
        found,
        Runs=f"{steps} steps each, a checkpoint every {every};"
        f" {found['jobs']} at a time",
        Again=f"`make chaos N={runs} SEED={found['seed']}`",
    )
