"""The exam as tests: `pytest -p lockstep.exam.pytest_plugin --exam adapter.py`.

Each question is a separate test, and `-k` chooses by its name or former name. A
question that does not apply is skipped with its reason. A question without an
answer is skipped with a warning, or fails by `--exam-unanswered fail`.
"""

import hashlib
import os
import sys
import warnings
from collections.abc import Iterator, Set
from pathlib import Path

import pytest

from .adapter import LIMIT, AdapterError, Launch, load, located
from .examine import Exam, examine, prerequisites
from .questions import BY_ID, FORMER, QUESTIONS, Question
from .report import failures, seen
from .sandbox import ExamError

FORMERLY = {n: {old for old in FORMER if FORMER[old] == n} for n in BY_ID}


def pytest_addoption(parser: pytest.Parser) -> None:
    """What the command `lockstep exam` takes."""
    group = parser.getgroup("exam", "examine how a trainer resumes")
    group.addoption("--exam", metavar="ADAPTER", action="append", default=[])
    group.addoption("--exam-ranks", metavar="N", type=int, default=2)
    group.addoption("--exam-batch", metavar="N", type=int, default=16)
    group.addoption(
        "--exam-unanswered", choices=("warn", "fail"), default="warn"
    )
    group.addoption("--exam-python", metavar="PATH", default=sys.executable)
    group.addoption(
        "--exam-limit", metavar="SECONDS", type=float, default=LIMIT
    )


def pytest_configure(config: pytest.Config) -> None:
    """Adapters are collected beside what else is asked for."""
    for path in adapters(config):
        if str(path) not in config.args:
            config.args.append(str(path))


def adapters(config: pytest.Config) -> set[Path]:
    """Their files."""
    try:
        return {located(a).resolve() for a in config.getoption("--exam")}
    except AdapterError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    """An adapter, and no other file."""
    if file_path in adapters(parent.config):
        return Adapter.from_parent(parent, path=file_path)
    return None


class Adapter(pytest.File):
    """The questions to one trainer, all answered by one exam."""

    found: Exam | AdapterError | ExamError | None = None

    def collect(self) -> Iterator["Asked"]:
        for question in QUESTIONS:
            item = Asked.from_parent(self, name=question.id, question=question)
            item.extra_keyword_matches |= FORMERLY[question.id]  # for `-k`
            yield item

    def exam(self) -> Exam:
        """It is held when the first of its tests is run, for those that are
        to be run."""
        if not self.found:
            asked = [i for i in self.session.items if i.parent is self]
            self.found = self.held(frozenset(item.name for item in asked))
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def held(self, only: frozenset[str]) -> Exam | AdapterError | ExamError:
        """The exam, or what is in its way: each item says it, and the trainer
        is not launched again for each."""
        option = self.config.getoption
        launch = Launch(
            Path(),
            ranks=option("--exam-ranks"),
            global_batch=option("--exam-batch"),
            python=option("--exam-python"),
        )
        # Adapters of one name, and processes of pytest-xdist, apart.
        path = hashlib.sha256(bytes(self.path)).hexdigest()[:8]
        worker = os.environ.get("PYTEST_XDIST_WORKER", "")
        folder = self.config.rootpath / ".pytest_cache" / "exam"
        try:
            return examine(
                load(self.path),
                folder / f"{self.path.stem}-{path}{worker}",
                launch,
                only,
                limit=option("--exam-limit"),
            )
        except (AdapterError, ExamError) as error:
            return error


class FailedError(Exception):
    """What the exam says of a failure."""


class Asked(pytest.Item):
    """One question."""

    def __init__(self, *, question: Question, **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]
        self.question = question

    def runtest(self) -> None:
        exam = self.parent.exam()  # type: ignore[union-attr]
        result = exam.results[self.name]
        needed = prerequisites(self.name) - exam.asked
        if broken := needed.intersection(exam.failed):
            raise FailedError(told(exam, broken))
        if result.reproduced:
            raise FailedError(told(exam, {self.name}))
        said = f"{result.verdict.answer}: {seen(result)}"
        if result.verdict.unanswered:
            if self.config.getoption("--exam-unanswered") == "fail":
                raise FailedError(said)
            warnings.warn(f"{self.name} {said}", stacklevel=1)
        if result.verdict.answer != "passed":
            pytest.skip(said)

    def repr_failure(self, info: pytest.ExceptionInfo, *_: object) -> str:
        """Without a traceback, which would be ours."""
        return str(info.value)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"exam: {self.question.title}"


def told(exam: Exam, names: Set[str]) -> str:
    """What these failed questions of an exam show."""
    alone = Exam(exam.trainer, exam.launch, exam.date)
    alone.results = {n: exam.results[n] for n in sorted(names)}
    lines = [f"{n}: {seen(r)}" for n, r in alone.results.items()]
    return "\n".join([*lines, "", *failures(alone)])
