"""Cards to be asked: questions of the bank, first moves, kinds of estimates.

What a browser keeps of its cards (docs/assets/practice/cards.js) is kept here
in the same words, so a file of the one is read by the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import fsrs
from pydantic import (
    AwareDatetime,
    BaseModel,
    Field,
    PlainSerializer,
    ValidationError,
    field_validator,
)

from lockstep.planner.figures import PlanError
from lockstep.practice.figures import DOCS, computed, given, quoted

from . import bank, rubric
from .core_questions import core
from .estimates import generate
from .kinds import KINDS

PROMPTS = DOCS / "practice" / "mock-prompts.md"
SORTS = "question", "prompt", "estimate"
TOPICS = bank.TOPICS | {"prompts": "First moves"}

_FIGURE = re.compile(r'<a class="figure"[^>]*>(.*?)</a>')
_INSIDE = re.compile(r"(?<!!)\[([^][]*)\]\((?!https?:)[^)\s]*\)", re.S)
_COMMENT = re.compile(r"\s*<!--.*?-->", re.S)
_PROMPT = re.compile(
    r'^### (?P<title>.+) \{ #(?P<id>[\w-]+) \}\s+\?\?\? question "(?P<name>.+)"'
    r"\n\n(?P<move>(?: {4}.*\n|\n)+)",
    re.M,
)


@dataclass(frozen=True)
class Card:
    """What is asked and what holds, in Markdown without links into the site.
    An estimate's numbers are drawn when it is asked."""

    id: str
    sort: str
    topic: str
    level: str | None
    title: str
    front: str = ""
    back: str = ""


def cards(questions: Iterable[bank.Asked] | None = None) -> list[Card]:
    """All of them, the core first, or those of other `questions`.

    Raises:
        ValueError: a question is not whole, or a figure cannot be computed.
    """
    return [computed_card(one) for one in listed(questions)]


def listed(questions: Iterable[bank.Asked] | None = None) -> list[Card]:
    """List the same cards before their figures are computed: enough to choose
    from.

    Raises:
        ValueError: a question is not whole.
    """
    if questions is None:
        questions = [*core().values(), *bank.admitted().values()]
    found = map(_question, questions)
    return [*found, *_prompts(), *map(_estimate, KINDS)]


def computed_card(card: Card) -> Card:
    """Compute the figures in a listed card's texts.

    Raises:
        ValueError: a figure cannot be computed.
    """
    if card.sort != "question":
        return card
    return replace(card, front=plain(card.front), back=plain(card.back))


def chosen(
    found: list[Card],
    topic: str | None = None,
    level: str | None = None,
    kind: str | None = None,
) -> list[Card]:
    """Those of a topic, a level and a kind, which may be one of estimates.

    Raises:
        PlanError: there is none, or no such topic, level or kind.
    """
    levels = rubric.load().levels
    for name, value, known in (
        ("topic", topic, [*TOPICS]),
        ("level", level, [*levels]),
        ("kind", kind, [*SORTS, *KINDS]),
    ):
        if value is not None and value not in known:
            raise PlanError(
                f"there is no {name} {value}; there is {', '.join(known)}"
            )
    some = [
        one
        for one in found
        if topic in (None, one.topic)
        and level in (None, one.level)
        and kind in (None, one.sort, one.id.removeprefix("estimate:"))
    ]
    if not some:
        raise PlanError("no card has this topic, level and kind")
    return some


def _question(one: bank.Asked) -> Card:
    asked = "\n\n".join(f"- {push.ask.strip()}" for push in one.pushbacks)
    back = {**one.parts(), "What is asked next": asked}
    text = "\n\n".join(f"**{name}.** {said}" for name, said in back.items())
    return Card(
        id=one.id,
        sort="question",
        topic=one.topic,
        level=one.level,
        title=one.title,
        front=one.question,
        back=text,
    )


def _prompts() -> list[Card]:
    _, _, text = PROMPTS.read_text("utf-8").split("---\n", 2)
    [level] = [line.level for line in rubric.load().lines if line.id == "move"]
    return [
        Card(
            id=f"prompt:{found['id']}",
            sort="prompt",
            topic="prompts",
            level=level,
            title=found["title"],
            front="What do you look at first?",
            back=re.sub("^ {4}", "", found["move"], flags=re.M).strip(),
        )
        for found in _PROMPT.finditer(plain(text) + "\n")
    ]


def _estimate(name: str) -> Card:
    kind = KINDS[name]
    return Card(f"estimate:{name}", "estimate", kind.topic, None, kind.title)


def drawn(card: Card, seed: int) -> tuple[Card, dict]:
    """Draw an estimate's numbers; return it with the question that they came
    from."""
    asked = generate(card.id.removeprefix("estimate:"), seed)
    lines = [f"- `{line}`" for line in asked["derivation"]]
    hand = [f"- `{line}`" for line in asked["by_hand"]]
    back = "\n".join(
        [
            f"**{asked['answer']}.** {asked['thumb']}\n",
            *lines,
            f"\n**In round numbers, {asked['round']}.**\n",
            *hand,
        ]
    )
    whole = replace(card, front=asked["question"], back=back)
    return whole, asked


def plain(text: str) -> str:
    """Compute a template's Markdown; a link into the site is its text."""
    text = computed(text, "", **given("") | {"printed": quoted})
    text = _COMMENT.sub("", _FIGURE.sub(r"\1", bank.MARK.sub("", text)))
    return _INSIDE.sub(r"\1", text).strip()


def _moment(when: datetime) -> str:
    """Format a time as a browser does."""
    text = when.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


When = Annotated[AwareDatetime, PlainSerializer(_moment)]
Count = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=0)]


class Kept(BaseModel):
    """What is known of one card, in ts-fsrs's words."""

    due: When
    stability: Count
    difficulty: Count
    elapsed_days: Count
    scheduled_days: Count
    learning_steps: Whole
    reps: Whole
    lapses: Whole
    state: Literal[0, 1, 2, 3]
    last_review: When


class Progress(BaseModel):
    """What a file holds."""

    version: Literal[1] = 1
    cards: dict[str, Kept] = {}

    @field_validator("cards")
    @classmethod
    def _renamed(cls, cards: dict[str, Kept]) -> dict[str, Kept]:
        """Give renamed questions their new ids; the later review counts."""
        found: dict[str, Kept] = {}
        for name, one in cards.items():
            now = bank.renamed().get(name, name)
            if now not in found or one.last_review > found[now].last_review:
                found[now] = one
        return found

    def take(self, other: Progress) -> int:
        """Those of another file that were reviewed later; how many."""
        newer = {
            name: one
            for name, one in other.cards.items()
            if name not in self.cards
            or one.last_review > self.cards[name].last_review
        }
        self.cards.update(newer)
        return len(newer)


def read(path: Path) -> Progress:
    """Progress from a file, this one's or a browser's.

    Raises:
        PlanError: in a line, why it cannot be read.
    """
    try:
        return Progress.model_validate_json(path.read_text("utf-8"))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise PlanError(f"{path}: {place}: {first['msg']}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: {error}") from None


def write(path: Path, progress: Progress) -> None:
    """Write it beside the file, then in its place: a kill leaves the old one.

    Raises:
        PlanError: in a line, why it cannot be written.
    """
    text = progress.model_dump_json(indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(path.name + ".new")
        beside.write_text(text, "utf-8")
        beside.replace(path)
    except OSError as error:
        raise PlanError(f"{path}: {error}") from None


# As ts-fsrs comes: the same memory for the same grades. There a card may be due
# a day or two later, since Good never comes back with Hard.
SCHEDULER = fsrs.Scheduler(enable_fuzzing=False)


def graded(before: Kept | None, rating: fsrs.Rating, now: datetime) -> Kept:
    """Update what is known of a card after a grade."""
    card = fsrs.Card(card_id=0, due=now)
    if before is not None and before.state:
        state = fsrs.State(before.state)
        learned = state is fsrs.State.Review
        card = fsrs.Card(
            card_id=0,
            state=state,
            step=None if learned else before.learning_steps,
            stability=before.stability,
            difficulty=before.difficulty,
            due=before.due,
            last_review=before.last_review,
        )
    after, _ = SCHEDULER.review_card(card, rating, now)
    assert after.stability is not None
    assert after.difficulty is not None
    forgot = rating is fsrs.Rating.Again and card.state is fsrs.State.Review
    return Kept(
        due=after.due,
        stability=after.stability,
        difficulty=after.difficulty,
        elapsed_days=(now - before.last_review).days if before else 0,
        scheduled_days=(after.due - now).days,
        learning_steps=after.step or 0,
        reps=(before.reps if before else 0) + 1,
        lapses=(before.lapses if before else 0) + forgot,
        state=after.state.value,
        last_review=now,
    )
