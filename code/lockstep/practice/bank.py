"""Traps: what is asked, what falls short, what holds.

`traps/ID.yml` is one that was admitted, with the record of its trials; the
site shows it. `candidates/ID.yml` is one that is still to be tried, so no page
shows it: whether answers by others fall short, and whether ours is preferred to
the best that is public.

The text is Markdown and a template: a figure is computed, as in `{{
plan("memory", …).total_bytes }}`. Links are those of a page in docs/. What a
number in an answer may come from is decided in `site/pages/number_origins.py`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    WrapSerializer,
    model_validator,
)

from .rubric import Level

HERE = Path(__file__).parent
CANDIDATES = HERE / "candidates"
QUESTIONS = HERE / "traps"
RENAMED = HERE / "renamed.yml"

# libyaml's where PyYAML has it: ten times as quick.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

TOPICS = {
    "arithmetic": "Arithmetic",
    "hardware": "Hardware",
    "communication": "Communication",
    "processes": "Processes and ranks",
    "trainer": "The trainer",
    "data": "Data",
    "ddp": "Inside DDP",
    "sharding": "Sharding",
    "model-parallel": "Model parallelism",
    "memory": "Memory",
    "checkpointing": "Checkpointing",
    "faults": "Fault tolerance",
    "performance": "Performance",
    "numerics": "Numerics",
    "operations": "Operations",
    "testing": "Testing",
    "interview": "Judgment",
    "rl": "RL post-training",
    "data-scale": "Data at scale",
    "little-communication": "Training with little communication",
    "fleets": "Schedulers and fleets",
    "design": "System design",
    "bio": "Biotech",
}

_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.S)
MARK = re.compile(r"\s*\[✓[^]]*\]")  # of a proof, which nobody says
_TARGET = re.compile(r"\]\([^)]*\)")


def spoken(text: str) -> list[str]:
    """Its words, a template as one of them; without addresses and marks."""
    text = _TEMPLATE.sub("figure", MARK.sub("", text))
    return _TARGET.sub("]", text).split()


def words(most: int) -> AfterValidator:
    """At most so many words."""

    def short(text: str) -> str:
        if (count := len(spoken(text))) > most:
            raise ValueError(f"{count} words, where {most} are the most")
        return text.strip()

    return AfterValidator(short)


def _known(name: str) -> str:
    if name not in TOPICS:
        raise ValueError(f"{name} is none of {', '.join(TOPICS)}")
    return name


class Strict(BaseModel):
    """What a file may hold: these fields and no others. All callers share one
    object, so its sequences are tuples and its mappings are `Fixed`."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Key = TypeVar("Key")
Value = TypeVar("Value")
# A mapping that nobody can change.
Fixed = Annotated[
    Mapping[Key, Value],
    AfterValidator(MappingProxyType),
    WrapSerializer(lambda given, write: write(dict(given))),
]
Address = Annotated[str, Field(pattern=r"^https://\S+$")]


class Weak(Strict):
    """What is often said, and what refutes it."""

    answer: Annotated[str, words(70)]
    why: Annotated[str, words(40)]


class Pushback(Strict):
    """What an interviewer asks next, how to meet it, and what follows."""

    ask: Annotated[str, words(30)]
    reply: Annotated[str, words(60)]
    then: tuple[Pushback, ...] = ()


class Source(Strict):
    """A primary source, and what it says."""

    url: Address
    says: Annotated[str, words(25)]


class Evidence(Strict):
    """What holds the answer."""

    tests: tuple[str, ...] = ()  # tests/…/test_x.py::test_name
    pages: tuple[str, ...] = ()  # concepts/memory/index.md#state
    labs: tuple[str, ...] = ()  # 08
    drills: tuple[str, ...] = ()
    bugs: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()  # the planner's answers that the text quotes
    sources: tuple[Source, ...] = ()

    @model_validator(mode="after")
    def _some(self) -> Evidence:
        if not any(getattr(self, name) for name in type(self).model_fields):
            raise ValueError("nothing holds the answer")
        return self


class Asked(Strict):
    """What every question has, of the core or a trap."""

    tier: str
    id: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    topic: Annotated[str, AfterValidator(_known)]
    level: Level
    title: str = Field(max_length=60)
    question: Annotated[str, words(70)]
    pushbacks: tuple[Pushback, ...] = Field(min_length=1)
    evidence: Evidence

    def answers(self) -> Iterator[tuple[str, str, str]]:
        """Each text that is ours: its place in the file, itself, and all that
        was asked before it."""
        raise NotImplementedError

    def parts(self) -> dict[str, str]:
        """Return what a card shows when it is turned, by name."""
        raise NotImplementedError


class Question(Asked):
    """A trap, with all that is said in answer."""

    tier: Literal["traps"] = "traps"
    weak: Weak
    strong: Annotated[str, words(200)]
    staff: Annotated[str, words(80)]
    say: Annotated[str, words(75)]
    changed: Annotated[str, words(50)]  # what would change the answer, to what
    public: str  # the best answer that was found elsewhere
    expect: str  # why others should fall into the weak answer

    def parts(self) -> dict[str, str]:
        return {
            "Weak": self.weak.answer,
            "Why it falls short": self.weak.why,
            "Strong": self.strong,
            "At staff level": self.staff,
            "Say it": self.say,
        }

    def answers(self) -> Iterator[tuple[str, str, str]]:
        asked = f"{self.title}\n{self.question}"
        yield "weak.why", self.weak.why, asked
        yield "strong", self.strong, asked
        yield "staff", self.staff, asked
        yield "say", self.say, asked
        yield from replies(self.pushbacks, "pushbacks", asked)


def replies(
    pushed: Iterable[Pushback], place: str, asked: str
) -> Iterator[tuple[str, str, str]]:
    """Yield the replies of pushbacks, as `Asked.answers` gives them."""
    for number, one in enumerate(pushed, 1):
        here, now = f"{place}.{number}", f"{asked}\n{one.ask}"
        yield f"{here}.reply", one.reply, now
        yield from replies(one.then, f"{here}.then", now)


class Tried(Strict):
    """What one of three independent answers came to."""

    url: Address | None = None  # if published
    excerpt: Annotated[str, words(60)]  # of a published one, in our words
    fell: bool  # gave the weak answer, or fell short as badly
    why: Annotated[str, words(60)]


class Best(Strict):
    """The best public answer, told in our own words."""

    url: Address
    summary: Annotated[str, words(80)]


class Comparison(Strict):
    """A blind choice between our answer and the best public one."""

    first: Literal["ours", "public"]  # which of the two was read first
    winner: Literal["ours", "public"]
    reason: Annotated[str, words(60)]


def _preferred(found: tuple[Comparison, ...]) -> tuple[Comparison, ...]:
    won = sum(one.winner == "ours" for one in found)
    if won < 4:
        raise ValueError(
            f"ours won {won} of 5 comparisons, where 4 are the least"
        )
    # A judge may prefer whatever it reads first.
    ahead = sum(one.first == "ours" for one in found)
    if ahead not in (2, 3):
        raise ValueError(
            f"ours was read first in {ahead} of 5; it has to be in 2 or 3"
        )
    return found


Comparisons = Annotated[
    tuple[Comparison, ...],
    Field(min_length=5, max_length=5),
    AfterValidator(_preferred),
]


class Trials(Strict):
    """How a question was tried. What would change its answer, which is the
    third trial, is `Question.changed`."""

    date: datetime.date
    # Who answered. Texts that others have published are the first three that a
    # search for the question's words finds and that commit themselves. Who
    # judged is a large language model in either case.
    by: Literal["large language model", "published text"]
    answers: tuple[Tried, ...] = Field(min_length=3, max_length=3)
    best: Best
    comparisons: Comparisons

    @property
    def fell(self) -> int:
        """How many of the answers fell short."""
        return sum(one.fell for one in self.answers)

    @property
    def won(self) -> int:
        """How many of the comparisons our answer won."""
        return sum(one.winner == "ours" for one in self.comparisons)

    @model_validator(mode="after")
    def _passed(self) -> Trials:
        addresses = {one.url for one in self.answers if one.url}
        if len(addresses) != (3 if self.by == "published text" else 0):
            raise ValueError(
                f"{len(addresses)} different addresses of answers; published"
                " texts have three, a language model has none"
            )
        if self.fell < 2:
            raise ValueError(
                f"{self.fell} of 3 answers fell short, where 2 are the least"
            )
        return self


class Admitted(Question):
    """A question that passed its trials."""

    trials: Trials


Kind = TypeVar("Kind", bound=Asked)


def load(folder: Path = CANDIDATES) -> dict[str, Question]:
    """All questions that are still on trial, by id, in the order of topics.

    Raises:
        ValueError: a file holds none; says which, and why.
    """
    return loaded(folder, Question)


def admitted(folder: Path = QUESTIONS) -> dict[str, Admitted]:
    """All questions that passed, by id, in the order of topics; perhaps none.

    Raises:
        ValueError: as `loaded` does.
    """
    return loaded(folder, Admitted)


@cache  # by the text, so an edit is seen at the next call
def parsed(name: str, text: str, kind: type[Kind]) -> Kind:
    """Parse the question in a file of that name and text.

    Raises:
        ValueError: there is none; says why.
    """
    try:
        one = kind.model_validate(yaml.load(text, LOADER))
    except ValidationError as error:
        raise ValueError(f"{name}: {_line(error)}") from None
    except (ValueError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise ValueError(f"{name}: {why}") from None
    if f"{one.id}.yml" != name:
        raise ValueError(f"{name}: its id is {one.id}")
    return one


def loaded(folder: Path, kind: type[Kind]) -> dict[str, Kind]:
    """All questions of a kind in a folder, by id, in the order of topics.

    Raises:
        ValueError: a file holds none; says which, and why.
    """
    found = [
        parsed(path.name, path.read_text("utf-8"), kind)
        for path in _files(folder)
    ]
    found.sort(key=lambda one: (list(TOPICS).index(one.topic), one.id))
    return {one.id: one for one in found}


@cache
def renamed() -> Mapping[str, str]:
    """Return the present id of each question that had another id before."""
    return MappingProxyType(yaml.load(RENAMED.read_text("utf-8"), LOADER))


def ids(folder: Path) -> list[str]:
    """Return the ids of a folder's questions from the files' names alone."""
    return [path.stem for path in _files(folder)]


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.yml"))


def _line(error: ValidationError) -> str:
    """All that is wrong, in one line."""
    return "; ".join(
        ": ".join(
            [
                *filter(None, [".".join(map(str, fault["loc"]))]),
                fault["msg"].removeprefix("Value error, "),
            ]
        )
        for fault in error.errors()
    )
