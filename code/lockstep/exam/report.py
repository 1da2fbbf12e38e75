"""An exam's results, for people: lines as they arrive, a table, a page, a
badge."""

from collections.abc import Callable, Iterator
from importlib import resources
from textwrap import wrap

from jinja2 import Environment
from rich.table import Table
from rich.text import Text

from .cures import CURE_OF
from .examine import Exam, Progress
from .questions import SEVERITIES, Result

COLORS = {
    "passed": "green",
    "failed": "red",
    "not applicable": "dim",
    "not run": "yellow",
}
PIECES = "The cures name parts of lockstep.pieces, which work in any loop."


class Streamed(Progress):
    """Says each verdict as it arrives, and how much is left."""

    def __init__(
        self,
        say: Callable[[str], None],
        asking: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`say` gets a line for each verdict, `asking` what is asked now."""
        self.say, self.asking = say, asking
        self.exam: Exam | None = None

    def begins(self, exam: Exam) -> None:
        self.exam = exam

    def asks(self, what: str) -> None:
        self.asking(what)

    def answered(self, result: Result, number: int, left: float) -> None:
        assert self.exam
        count = f"{number} of {len(self.exam.asked)}"
        if result.question.id not in self.exam.asked:
            count = "needed for others"
        said = seen(result)
        self.say(
            f"{count}: {result.question.id} {result.verdict.answer}"
            + (f": {said}" if said else "")
            + (f" ({duration(left)} left)" if left else "")
        )


def duration(seconds: float) -> str:
    """Format a rough time in words."""
    if seconds < 90:
        return f"about {max(10, round(seconds, -1)):.0f} s"
    return f"about {seconds / 60:.0f} min"


def table(exam: Exam) -> Table:
    """Return a row for each question."""
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
    """Return what was seen, and what may be wrong without an answer."""
    said = result.verdict.said
    if result.same_as:
        said = f"as {', '.join(result.same_as)} failed: {said}"
    if result.verdict.danger:
        said += f" (danger: {result.verdict.danger})"
    return said


def conclusion(exam: Exam) -> str:
    """Return the exit code, and why it applies."""
    failed, unanswered = exam.failed, exam.unanswered
    parts = []
    if exam.interrupted:
        answered = len(exam.asked & exam.results.keys())
        total = counted(len(exam.asked))
        parts.append(f"interrupted after {answered} of {total}")
    if failed:
        parts.append(f"{counted(len(failed))} failed: {', '.join(failed)}")
    elif exam.interrupted or unanswered:
        parts.append("nothing failed")
    else:
        parts.append("everything that applies passed")
    if unanswered:
        names = ", ".join(unanswered)
        parts.append(f"{counted(len(unanswered))} without an answer: {names}")
    return f"Exit code {exam.exit_code}: {'; '.join(parts)}."


def counted(number: int) -> str:
    """So many questions."""
    return f"{number} question{'s' * (number != 1)}"


def summary(exam: Exam) -> str:
    """Summarize the exam in a line."""
    counts = {a: f"{exam.count(a)} {a}" for a in COLORS if exam.count(a)}
    if exam.causes < exam.count("failed"):
        counts["failed"] += f" (causes: {exam.causes})"
    said = ", ".join(counts.values()) or "no answers"
    return f"{exam.trainer}: {said}, in {exam.seconds:.0f} s"


def failures(exam: Exam) -> Iterator[str]:
    """For each failure with a cause of its own: the usual cause and its cure,
    what it means, how it was reached, and where its files are. For a failure
    that questions explain which are not among the results: their cures."""
    if exam.failed:
        yield PIECES
        yield ""
    for result in separate(exam):
        question = result.question
        yield f"{question.id}: {question.title}"
        yield from advice(question.id)
        yield f"  Why it matters: {question.why}"
        yield f"  Severity: {SEVERITIES[question.severity]}"
        yield f"  Seen, {result.reproduced} times: {result.verdict.said}"
        yield f"  To see it again, ask --only {question.id}. What was done:"
        yield from (f"    {k}. {s}" for k, s in enumerate(result.steps, 1))
        yield f"  Left in {result.kept}"
        yield ""
    for name in untold(exam):
        yield f"{name}: explains what failed. For details, ask --only {name}."
        yield from advice(name)
        yield ""


def separate(exam: Exam) -> list[Result]:
    """Return the failures that no other failure explains."""
    failed = (exam.results[name] for name in exam.failed)
    return [result for result in failed if not result.same_as]


def untold(exam: Exam) -> list[str]:
    """Return the questions that explain failures and have no result."""
    named = {n for name in exam.failed for n in exam.results[name].same_as}
    return sorted(named - exam.results.keys())


def advice(name: str) -> Iterator[str]:
    """Yield the usual cause of this question's failure and its fix, in lines
    of 80 characters."""
    cure = CURE_OF[name]
    for said in (
        f"Usual cause: {cure.cause}",
        f"Cure: {cure.piece}",
        f"Handbook page: {cure.path}",
    ):
        yield from wrap(said, 80, initial_indent="  ", subsequent_indent="    ")


def page(exam: Exam) -> str:
    """One HTML file that needs no other."""
    template = resources.files(__package__) / "report.html"
    made = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return made.from_string(template.read_text()).render(
        exam=exam,
        failures=separate(exam),
        untold=untold(exam),
        conclusion=conclusion(exam),
        summary=summary(exam),
        severities=SEVERITIES,
        cures=CURE_OF,
        pieces=PIECES,
        seen=seen,
    )


def badge(exam: Exam) -> str:
    """Return an SVG badge: how many of the applicable questions passed."""
    unanswered = len(exam.unanswered)
    asked = exam.count("passed") + len(exam.failed) + unanswered
    left, right = "resume exam", f"{exam.count('passed')} of {asked} passed"
    color = "#1b6e3c"
    if unanswered:
        right += f", {unanswered} unanswered"
        color = "#7a4f00"
    if exam.failed:
        color = "#b3261e"
    widths = [7 * len(text) + 12 for text in (left, right)]
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
