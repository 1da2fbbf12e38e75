"""What an answer must hold, criterion by criterion, and what it got.

A grade is for the reader alone: the answer runs unprotected, and could change
its own grade.
"""

import ast
import hashlib
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from textwrap import wrap
from types import ModuleType
from typing import Any

import torch.distributed as dist

from .hang_budget import HALF_A_MINUTE, MINUTE, HangBudget
from .ranks import PRELOAD, SERVER, OutOfTimeError, RankError, Ranks, store

NAME = "answer"  # of the reader's file, as a module


class CannotGradeError(Exception):
    """The file is none that can be graded; the message is one line."""


@dataclass(frozen=True)
class Criterion:
    """One thing that an answer must hold.

    `check(answer)` runs on each of `world` ranks, which are in a group, and
    raises AssertionError, with what is wrong, if it does not; `judge`, if there
    is one, gets what the ranks returned.

    `needs` has other criteria, each with the function that it is about. Where
    one of them failed, a sound function takes the place of the answer's, so
    that one mistake costs one criterion. Without a function to take, or with
    none of the answer's left, the criterion is blocked.
    """

    name: str
    points: int
    hint: str  # where to look
    check: Callable[[Any], Any]
    judge: Callable[[list[Any]], None] | None = None
    world: int = 3
    needs: dict[str, str] = field(default_factory=dict)
    seconds: float = HALF_A_MINUTE  # until its ranks are killed


@dataclass(frozen=True)
class Outcome:
    """What an answer got for a criterion."""

    name: str
    points: int
    status: str  # passed, failed, blocked, not attempted
    hint: str = ""


@dataclass(frozen=True)
class Report:
    """All outcomes, and the SHA-256 of the file that they are of."""

    lab: str
    criteria: list[Outcome]
    sha256: str

    @property
    def score(self) -> int:
        """Points of what passed."""
        return sum(c.points for c in self.criteria if c.status == "passed")

    @property
    def full(self) -> int:
        """Points of all."""
        return sum(c.points for c in self.criteria)

    @property
    def exit_code(self) -> int:
        """0 for full marks, 1 for less."""
        return 0 if self.score == self.full else 1

    def __str__(self) -> str:
        """For people: a line for each criterion, a hint below what failed."""
        width = max(len(one.name) for one in self.criteria)
        lines = []
        for one in self.criteria:
            got = one.points if one.status == "passed" else 0
            points = f"{got:3}/{one.points}"
            lines.append(f"{one.name:{width}} {points:7} {one.status}")
            lines += [f"    {line}" for line in wrap(one.hint, 76)]
        return "\n".join([*lines, f"{self.score} of {self.full}"])

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        criteria = [asdict(outcome) for outcome in self.criteria]
        return {
            "lab": self.lab,
            "score": self.score,
            "full": self.full,
            "criteria": criteria,
            "sha256": self.sha256,
        }


def grade(
    lab: str, grader: str, file: Path, seconds: float | None = None
) -> Report:
    """Grade `file` by the criteria of the module `grader`.

    Criteria that hang cost a minute together, however many they are.

    Args:
        seconds: in place of each criterion's own time-out; together they may
            then cost twice that, if it is more than a minute.

    Raises:
        CannotGradeError: the file cannot be read or imported, or it imports
            the exercise's solution.
    """
    text = read(file)
    if imports(text, f"{grader.rpartition('.')[0]}.solution"):
        raise CannotGradeError(f"{file} imports the solution: grade your own")
    SERVER.set_forkserver_preload([*PRELOAD, grader])  # if it is not up yet
    imported(file, can_be_loaded)
    outcomes: dict[str, Outcome] = {}
    criteria: list[Criterion] = importlib.import_module(grader).CRITERIA
    budget = HangBudget(max(MINUTE, 2 * (seconds or 0)))
    for number, criterion in enumerate(criteria):
        status = {name: outcomes[name].status for name in criterion.needs}
        failed = [name for name in status if status[name] == "failed"]
        missing = [
            name
            for name, found in status.items()
            if found in ("blocked", "not attempted")
            or (found == "failed" and not criterion.needs[name])
        ]
        if missing or (failed and len(failed) == len(status)):
            found = ("blocked", f"first: {', '.join(missing or failed)}")
        else:
            swapped = [criterion.needs[name] for name in failed]
            budget.jobs = len(criteria) - number
            job = grader, number, file, swapped
            asked = seconds or criterion.seconds
            found = judged(criterion, budget, asked, *job)
        outcomes[criterion.name] = Outcome(
            criterion.name, criterion.points, *found
        )
    digest = hashlib.sha256(text).hexdigest()
    return Report(lab, list(outcomes.values()), digest)


def judged(
    criterion: Criterion, budget: HangBudget, asked: float, *job: Any
) -> tuple[str, str]:
    """A criterion's status, and what helps if it did not pass."""
    seconds = budget.granted(asked)
    try:
        with budget.waiting():
            results = Ranks(criterion.world, attempt, *job).results(seconds)
            if criterion.judge:
                criterion.judge(results)
    except AssertionError as wrong:
        return "failed", f"{wrong}. {criterion.hint}"
    except RankError as error:
        kind, said = error.cause
        if kind == "NotImplementedError":
            return "not attempted", criterion.hint
        if kind != "AssertionError":
            said = ended_by(error, cut=seconds < asked)
        return "failed", f"{said}. {criterion.hint}"
    except Exception as error:  # a check cannot have returned this
        said = f"the grader cannot read what the answer gave: {error!r}"
        return "failed", f"{said}. {criterion.hint}"
    return "passed", ""


def ended_by(error: RankError, cut: bool = False) -> str:
    """Why ranks came to no end of their own, on a line.

    Args:
        cut: whether they had less time than they asked for.
    """
    kind, said = error.cause
    if kind:
        return f"{kind}: {said.strip().partition(chr(10))[0]}"
    if isinstance(error, OutOfTimeError):
        why = ", all that an earlier hang had left for it" if cut else ""
        return f"it did not end within {error.seconds:.2g} s{why}"
    return f"{error} without a word"


def attempt(grader: str, number: int, file: Path, swapped: list[str]) -> Any:
    """On a rank: join the others, load the answer, check it with the `swapped`
    functions replaced by the grader's own."""
    module = importlib.import_module(grader)
    criterion: Criterion = module.CRITERIA[number]
    dist.init_process_group(
        "gloo",
        store=store(),
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=timedelta(seconds=300),  # the grader's own comes first
    )
    answer = load(file)
    for name in swapped:
        setattr(answer, name, getattr(module.reference, name))
    found = quietly(criterion.check, answer)
    dist.barrier()  # a rank that has left would break the others' connections
    return found


def read(file: Path) -> bytes:
    """What is to be graded."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise CannotGradeError(f"{file}: {error.strerror}") from None


def imports(text: bytes, module: str) -> bool:
    """Whether a source imports the module, or anything of it."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError):  # which importing it will say
        return False
    names = {
        f"{node.module}.{one.name}"
        if isinstance(node, ast.ImportFrom)
        else one.name
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for one in node.names
    }
    return any(f"{name}.".startswith(f"{module}.") for name in names)


def imported(file: Path, work: Callable[[Path], Any]) -> Any:
    """What `work` finds in a file, in a process that may be killed."""
    try:
        return Ranks(1, work, file).results(HALF_A_MINUTE)[0]
    except RankError as error:
        why = f"{file} cannot be imported: {ended_by(error)}"
        raise CannotGradeError(why) from None


def can_be_loaded(file: Path) -> None:
    """Whether the file can be imported at all, on a rank that may be killed."""
    load(file)


def load(file: Path) -> ModuleType:
    """The reader's file as a module; what it prints is not heard."""
    spec = importlib.util.spec_from_file_location(NAME, file)
    if spec is None or spec.loader is None:
        raise ImportError("its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module  # dataclasses look for their module
    quietly(spec.loader.exec_module, module)
    return module


def quietly(work: Callable[..., Any], *args: Any) -> Any:
    """`work(*args)`; what it prints is not heard."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return work(*args)


def named(answer: Any, name: str) -> Any:
    """The answer's function or class, if there is one yet."""
    if not hasattr(answer, name):
        raise NotImplementedError
    return getattr(answer, name)
