"""Grade an answer to a bug: its proof, and its fix."""

import ast
import hashlib
import marshal
import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from lockstep.grading.criteria import (
    CannotGradeError,
    Outcome,
    Report,
    can_be_loaded,
    ended_by,
    imported,
    load,
    quietly,
    read,
)
from lockstep.grading.hang_budget import HALF_A_MINUTE, MINUTE, HangBudget
from lockstep.grading.ranks import PRELOAD, SERVER, RankError, Ranks

from . import COST, Bug
from .checks import examined

POINTS = {
    "symptom": 5,
    "proof": 30,
    "proof passes what is sound": 15,
    "proof passes another bug": 10,
    "fix": 25,
    "nothing else changed": 15,
}


@dataclass(frozen=True)
class Graded(Report):
    """A report, less what hints cost, with what was said on the way, and the
    story for whoever has solved it."""

    hints: int = 0
    symptom: str = ""
    evidence: str = ""  # the proof's, on the trainer as it was given
    story: str = ""

    @property
    def score(self) -> int:
        """Points of what passed, less those of hints."""
        return max(0, super().score - COST * self.hints)

    @property
    def solved(self) -> bool:
        """Whether all passed, with hints or without."""
        return super().score == self.full

    def __str__(self) -> str:
        """For people."""
        text = super().__str__()
        if self.hints:
            text += f" ({self.hints} x {COST} for hints)"
        if self.evidence:
            text = f"your proof says: {self.evidence}\n\n{text}"
        if self.solved:
            text += f"\n\nyou say: {self.symptom}\n\n{self.story}"
        return text

    def as_json(self) -> dict[str, Any]:
        """For machines: as of a lab."""
        found = super().as_json()
        return {"bug": found.pop("lab"), "hints": self.hints} | found


def grade(
    bug: Bug, file: Path, hints: int = 0, seconds: float = HALF_A_MINUTE
) -> Graded:
    """Grade an answer, and the fix: `trainer.py` beside it.

    A proof that hangs and a fix that hangs cost a minute together.

    Args:
        seconds: until the proof, on one trainer, is ended. The fix's tests have
            twice that, less what a proof that hung has taken.

    Raises:
        CannotGradeError: one of the two cannot be read or imported, or takes
            from Lockstep what the reader is asked for.
    """
    fix = file.with_name("trainer.py")
    digest = hashlib.sha256(read(file) + read(fix)).hexdigest()
    SERVER.set_forkserver_preload([*PRELOAD, f"{__package__}.checks"])
    symptom = imported(file, symptom_of)
    imported(fix, can_be_loaded)
    own_work(file, f"{__package__}.answers.{bug.name}")
    own_work(fix, "lockstep")
    budget = HangBudget(max(MINUTE, 2 * seconds))
    found = {"symptom": ("passed", "")}
    if not symptom:
        found["symptom"] = "not attempted", "put one line into SYMPTOM"
    with TemporaryDirectory() as name:
        folder = Path(name)
        found["proof"], evidence = proof_on_broken(
            bug, file, folder, seconds, budget
        )
        for criterion, text in {
            "proof passes what is sound": bug.sound(),
            "proof passes another bug": bug.otherwise_broken(),
        }.items():
            if found["proof"][0] != "passed":
                found[criterion] = "blocked", "first: proof"
            elif budget.hung:
                found[criterion] = "blocked", "first: a proof that ends"
            else:
                trainer = compiled(folder, text)
                status, said = proved(file, trainer, seconds, budget)
                returned = status == "returned"
                found[criterion] = ("passed" if returned else "failed", said)
        if read(fix).strip() == bug.broken().strip().encode():
            found["fix"] = "not attempted", "trainer.py is as it was"
        else:
            found |= fix_graded(bug, fix, folder, 2 * seconds, budget)
        if found["fix"][0] != "passed":
            found["nothing else changed"] = "blocked", "first: fix"
    outcomes = [Outcome(name, POINTS[name], *found[name]) for name in POINTS]
    return Graded(
        bug.number, outcomes, digest, hints, symptom, evidence, bug.story()
    )


def own_work(file: Path, module: str) -> None:
    """Refuse a file that imports the module, or anything in it.

    Raises:
        CannotGradeError: it does.
    """
    names: list[str] = []
    for node in ast.walk(ast.parse(read(file))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # As importlib.import_module takes it.
            names += re.findall(r"^\w+\.[\w.]+$", node.value)
    for name in names:
        if f"{name}.".startswith(f"{module}."):
            taken = name.removesuffix(".*")
            raise CannotGradeError(
                f"{file.name} takes {taken} from Lockstep: this part is yours"
                " to write"
            )


def proof_on_broken(
    bug: Bug, file: Path, folder: Path, seconds: float, budget: HangBudget
) -> tuple[tuple[str, str], str]:
    """Return the proof's status on the broken trainer and, if that has two
    causes, on a trainer with either; and its message on the first."""
    evidence = ""
    broken = [bug.broken()]
    if len(bug.defects) > 1:
        broken += map(bug.broken, bug.defects)
    for text in broken:
        trainer = compiled(folder, text)
        status, said = proved(file, trainer, seconds, budget)
        if status == "returned":
            of = "the trainer as it was given"
            if evidence:
                of = "a trainer that has one cause of two left"
            why = f"it finds nothing in {of}, which it can run but not read"
            return ("failed", why), evidence
        if status != "raised":
            return (status, said), evidence
        if not said:
            why = "it says nothing: put the values into the assertion"
            return ("failed", why), evidence
        evidence = evidence or said
    return ("passed", ""), evidence


def proved(
    file: Path, trainer: Path, asked: float, budget: HangBudget
) -> tuple[str, str]:
    """Whether the proof raised, returned, failed or was not attempted; and what
    it said."""
    seconds = budget.granted(asked)
    try:
        with budget.waiting():
            said = Ranks(1, prove, file, trainer).results(seconds)[0]
    except RankError as error:
        return ended_badly(error, cut=seconds < asked)
    return ("returned", "") if said is None else ("raised", said)


def fix_graded(
    bug: Bug, fix: Path, folder: Path, asked: float, budget: HangBudget
) -> dict[str, tuple[str, str]]:
    """Return the statuses of both criteria of a fix."""
    job = fix, written(folder, bug.sound()), folder / "runs", bug.defects
    seconds = budget.granted(asked)
    try:
        with budget.waiting():
            own, rest = Ranks(1, quietly, examined, *job).results(seconds)[0]
    except RankError as error:
        return {"fix": ended_badly(error, cut=seconds < asked)}
    return {
        "fix": ("failed", own) if own else ("passed", ""),
        "nothing else changed": ("failed", rest) if rest else ("passed", ""),
    }


def ended_badly(error: RankError, cut: bool) -> tuple[str, str]:
    """Return the status of a process that didn't end by itself."""
    if error.cause[0] == "NotImplementedError":
        return "not attempted", "write `prove`"
    return "failed", ended_by(error, cut)


def prove(file: Path, trainer: Path) -> str | None:
    """In a process of its own: what the answer asserts of a trainer; None if
    it has nothing to say against it."""
    with TemporaryDirectory() as name:
        answer = load(file)
        try:
            quietly(answer.prove, trainer, Path(name))
        except AssertionError as said:
            return str(said).strip()
    return None


def symptom_of(file: Path) -> str:
    """Return the answer's symptom, on one line."""
    return " ".join(str(getattr(load(file), "SYMPTOM", "")).split())


def compiled(folder: Path, text: str) -> Path:
    """Write a trainer's file for a proof: it runs as the text would, and a
    proof that reads it learns nothing."""
    code = marshal.dumps(compile(text, "trainer.py", "exec"))
    loader = f"import marshal\n\nexec(marshal.loads({code!r}))\n"
    return written(folder, loader)


def written(folder: Path, text: str) -> Path:
    """Write a trainer's file, whose path says nothing about it."""
    path = Path(mkdtemp(dir=folder), "trainer.py")
    path.write_text(text, encoding="utf-8")
    return path
