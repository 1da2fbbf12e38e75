"""An exam's results, for people: a table, a page, a badge."""

from collections.abc import Iterator
from importlib import resources

from jinja2 import Environment
from rich.table import Table
from rich.text import Text

from .examine import Exam
from .questions import SEVERITIES, Result

COLORS = {
    "passed": "green",
    "failed": "red",
    "not applicable": "dim",
    "not run": "yellow",
}


def table(exam: Exam) -> Table:
    """A row for each question."""
    found = Table(box=None, pad_edge=False)
    found.add_column("question", no_wrap=True)
    found.add_column("answer", no_wrap=True)
    found.add_column("seen")
    for result in exam.results.values():
        answer = result.verdict.answer
        style = "dim red" if result.same_as else COLORS[answer]
        found.add_row(
            result.question.id, Text(answer, style), Text(seen(result))
        )
    return found


def seen(result: Result) -> str:
    """What was seen, and how often."""
    said = result.verdict.said
    if result.same_as:
        return f"as {', '.join(result.same_as)} failed: {said}"
    return said


def summary(exam: Exam) -> str:
    """The exam in a line."""
    counts = {a: f"{exam.count(a)} {a}" for a in COLORS if exam.count(a)}
    if exam.causes < exam.count("failed"):
        counts["failed"] += f" (causes: {exam.causes})"
    said = ", ".join(counts.values())
    return f"{exam.trainer}: {said}, in {exam.seconds:.0f} s"


def failures(exam: Exam) -> Iterator[str]:
    """For each failure with a cause of its own: what it means, how it was
    reached, and where it lies."""
    for result in exam.results.values():
        if result.verdict.answer == "failed" and not result.same_as:
            question = result.question
            yield f"{question.id}: {question.title}"
            yield f"  Why it matters: {question.why}"
            yield f"  Severity: {SEVERITIES[question.severity]}"
            yield f"  Seen, {result.reproduced} times: {result.verdict.said}"
            yield f"  To see it again, ask --only {question.id}. What was done:"
            yield from (f"    {k}. {s}" for k, s in enumerate(result.steps, 1))
            yield f"  Left in {result.kept}"
            yield ""


def page(exam: Exam) -> str:
    """One HTML file that needs no other."""
    template = resources.files(__package__) / "report.html"
    made = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return made.from_string(template.read_text()).render(
        exam=exam,
        summary=summary(exam),
        severities=SEVERITIES,
        colors=COLORS,
        seen=seen,
    )


def badge(exam: Exam) -> str:
    """An SVG that says how many of the questions were passed."""
    asked = exam.count("passed") + exam.count("failed") + exam.count("not run")
    left, right = "resume exam", f"{exam.count('passed')} of {asked} passed"
    widths = [7 * len(text) + 12 for text in (left, right)]
    color = "#b3261e" if exam.count("failed") else "#1b6e3c"
    total = sum(widths)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="20"'
        f' role="img" aria-label="{left}: {right}">'
        f"<title>{left}: {right}</title>"
        f'<rect width="{total}" height="20" rx="3" fill="#444"/>'
        f'<rect x="{widths[0]}" width="{widths[1]}" height="20" rx="3"'
        f' fill="{color}"/>'
        '<g fill="#fff" font-family="Verdana,sans-serif" font-size="11"'
        ' text-anchor="middle">'
        f'<text x="{widths[0] / 2}" y="14">{left}</text>'
        f'<text x="{widths[0] + widths[1] / 2}" y="14">{right}</text>'
        "</g></svg>\n"
    )
