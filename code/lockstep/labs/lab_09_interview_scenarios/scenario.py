"""A scenario: what is told and asked, what it comes to, a strong answer."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

from lockstep.planner.figures import PlanError, flag, plain
from lockstep.planner.layout import WHITEBOARD
from lockstep.planner.questions import LAYOUT, ask

PARTS = ("problem", "mechanism", "communication", "trade_off", "measurement")
WITHIN = 0.05  # of a number: 7 % lie between GB and GiB
ROOM = 0.9  # of a GPU's memory: the planner leaves out CUDA, NCCL, fragments
SLOWER = 1.25  # times the strong answer's step; recomputing all is 1.33
# What a layout may say. The cluster is not the reader's to change.
CHOICES = {name for name, _ in LAYOUT if name != "bucket_copies"}
CHOICES |= {"schedule", "virtual_stages", "context"}


# --8<-- [start:answer]
@dataclass(frozen=True)
class Answer:
    """What a reader says to one scenario.

    `numbers` has what the scenario asks for, by name. `layout` has the
    planner's choices: dp, tp, pp, cp, ep, zero_stage and what else `lockstep
    plan run --help` lists of them; dp is what the others leave, the rest 1.
    `score` is the reader's own, by the rubric: 0, 1 or 2 for each part.
    """

    problem: str = ""
    mechanism: str = ""
    communication: str = ""
    trade_off: str = ""
    measurement: str = ""
    numbers: dict[str, float] = field(default_factory=dict)
    layout: dict[str, Any] = field(default_factory=dict)
    score: dict[str, int] = field(default_factory=dict)

    # --8<-- [end:answer]
    def text(self, part: str) -> str:
        """One of the five, without what surrounds it."""
        return str(getattr(self, part)).strip()


@dataclass(frozen=True)
class Plan:
    """A question for the planner, with its inputs."""

    question: str
    given: dict[str, Any]

    @property
    def figures(self) -> SimpleNamespace:
        """Its inputs and what the planner makes of them."""
        usual = WHITEBOARD if self.question == "run" else {}
        found = ask(self.question, usual | self.given)
        return SimpleNamespace(**{n: plain(v) for n, v in found.items()})

    def __str__(self) -> str:
        """As a command."""
        flags = [flag_of(name, value) for name, value in self.given.items()]
        return " ".join(["lockstep plan", self.question, *flags])


def flag_of(name: str, value: Any) -> str:
    """An input, as the command has it."""
    if value is True:
        return flag(name)
    shown = f"{value:g}" if isinstance(value, float) else value
    return f"{flag(name)} {shown}"


def plan(question: str, **given: Any) -> Plan:
    """A question for the planner."""
    return Plan(question, given)


@dataclass(frozen=True)
class Scenario:
    """One of the 24.

    `figures` are expressions over the figures of `plans`, in order; `numbers`
    are those which the reader is asked for. With a `cluster`, a layout is
    asked for too; `best` is the plan of the strong answer's. `situation`,
    `first` and `strong` have fields for figures: no result is typed in.
    """

    id: str
    topic: str
    situation: str
    first: str  # the first move
    plans: dict[str, Plan]
    figures: dict[str, str]
    numbers: dict[str, str]  # in words, with the unit
    rubric: str  # for each part, what is complete | what is often missing
    strong: str
    cluster: dict[str, Any] = field(default_factory=dict)
    layout: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def asks(self) -> dict[str, Plan]:
        """All plans, `best` among them."""
        if not self.cluster:
            return self.plans
        return {**self.plans, "best": self.planned(self.layout)}

    @cached_property
    def values(self) -> dict[str, float]:
        """All figures."""
        scope = {name: one.figures for name, one in self.asks.items()}
        found: dict[str, float] = {}
        for name, text in self.figures.items():
            found[name] = eval(text, {}, {**scope, **found})
        return found

    @property
    def answer(self) -> Answer:
        """The strong answer."""
        return Answer(
            **parts(self.told(self.strong)),
            numbers={name: self.values[name] for name in self.numbers},
            layout=self.layout,
            score=dict.fromkeys(PARTS, 2),
        )

    def told(self, text: str) -> str:
        """A text with its figures, its paragraphs on one line each."""
        said = filled(text).format_map(self.values)
        return re.sub(r"(?<=\d)%", " %", said)

    def planned(self, layout: dict[str, Any]) -> Plan:
        """The plan of a layout of this cluster. PlanError for what is not the
        reader's to choose."""
        if unknown := sorted(set(layout) - CHOICES):
            raise PlanError(f"{', '.join(unknown)} is no choice of a layout")
        return Plan("run", {**self.cluster, **layout})

    def wrong_numbers(self, answer: Answer) -> list[str]:
        """What is missing, or further off than WITHIN."""
        found = {name: answer.numbers.get(name) for name in self.numbers}
        return [
            f"{self.id}: {name} is {shown(one)}"
            for name, one in found.items()
            if not close(one, self.values[name])
        ]

    # --8<-- [start:judged]
    def illegal(self, answer: Answer) -> str:
        """Why the planner refuses the layout, if it does."""
        if not answer.layout:
            return f"{self.id}: it asks for a layout"
        try:
            self.planned(answer.layout).figures  # noqa: B018
        except (PlanError, TypeError, ValueError) as error:
            return f"{self.id}: {error}"
        return ""

    def too_big(self, answer: Answer) -> str:
        """What a legal layout needs, if it leaves too little room."""
        found = self.planned(answer.layout).figures
        if found.total_bytes <= ROOM * found.memory:
            return ""
        return (
            f"{self.id}: {found.total_bytes / 1e9:.1f} GB on a GPU of"
            f" {found.memory / 1e9:.0f}"
        )

    # --8<-- [end:judged]
    def too_slow(self, answer: Answer) -> str:
        """The step of a legal layout, if a better one is much shorter."""
        found = self.planned(answer.layout).figures.step_seconds
        best = self.planned(self.layout).figures.step_seconds
        if found <= SLOWER * best:
            return ""
        return f"{self.id}: a step takes {found:.3g} s, and {best:.3g} will do"


def shown(found: Any) -> str:
    """A reader's number, in few digits."""
    if found is None:
        return "missing"
    return f"{found:.4g}" if isinstance(found, float) else str(found)


def close(found: Any, expected: float) -> bool:
    """Whether a number was found."""
    if not isinstance(found, int | float) or isinstance(found, bool):
        return False
    return abs(found - expected) <= WITHIN * abs(expected)


def filled(text: str) -> str:
    """A text whose lines are paragraphs; indented ones go on."""
    return re.sub(r"\n +", " ", dedent(text).strip())


def parts(text: str) -> dict[str, str]:
    """A text taken apart: a paragraph for each part, which begins with its
    name."""
    found = dict(line.split(": ", 1) for line in filled(text).splitlines())
    assert tuple(found) == PARTS, f"{tuple(found)} in place of {PARTS}"
    return found
