"""Hold an exam: disturb, judge, and do again what failed."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from .adapter import LIMIT, Adapter, AdapterError, Launch
from .questions import BY_ID, QUESTIONS, Result, Verdict, current
from .sandbox import SAVE_EVERY, STOP, ExamError, Sandbox
from .scenarios import ASPECTS, EPOCH, SCENARIOS, Scenario

DIFFER = "two undisturbed runs already differ, see reproducible"
TIMES = 3  # a failure is called one when it was seen this often


@dataclass
class Exam:
    """What an exam found."""

    trainer: str
    launch: Launch
    date: str
    seconds: float = 0.0
    results: dict[str, Result] = field(default_factory=dict)
    # The questions that were to be asked. `results` may also have others, whose
    # failure leaves one of these without an answer.
    asked: frozenset[str] = frozenset()
    interrupted: int = 0  # the exit code, if a signal ended the exam early

    def count(self, answer: str) -> int:
        """Count the questions with this answer."""
        verdicts = (r.verdict for r in self.results.values())
        return sum(verdict.answer == answer for verdict in verdicts)

    @property
    def failed(self) -> list[str]:
        """The questions that failed, if only in one of their tries."""
        return [name for name, r in self.results.items() if r.reproduced]

    @property
    def unanswered(self) -> list[str]:
        """The questions that were not run, or do not apply for a reason that
        hides a danger."""
        return [
            name
            for name, result in self.results.items()
            if result.verdict.unanswered and not result.reproduced
        ]

    @property
    def exit_code(self) -> int:
        """0: everything that applies passed. 1: something failed. 3: nothing
        failed, but a question is unanswered. Else that of a signal."""
        if self.interrupted:
            return self.interrupted
        return 1 if self.failed else 3 if self.unanswered else 0

    @property
    def causes(self) -> int:
        """The number of failures that no other failure explains."""
        return sum(
            r.verdict.answer == "failed" and not r.same_as
            for r in self.results.values()
        )

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        launch = self.launch
        return {
            "trainer": self.trainer,
            "date": self.date,
            "ranks": launch.ranks,
            "global_batch": launch.global_batch,
            "seed": launch.seed,
            "seconds": round(self.seconds),
            "passed": self.count("passed"),
            "failed": self.count("failed"),
            "causes": self.causes,
            "questions": [r.as_json() for r in self.results.values()],
        }


class Progress:
    """Follows an exam while it is held. This one does nothing."""

    def begins(self, exam: Exam) -> None:
        """`exam` gets its results from now on, and keeps them if it is
        interrupted."""

    def asks(self, what: str) -> None:
        """These questions are asked now."""

    def answered(self, result: Result, number: int, left: float) -> None:
        """A question has an answer, as the `number`th of those to be asked.
        `left`: seconds that the others may take, judged by those so far."""


def examine(
    adapter: Adapter,
    folder: Path,
    launch: Launch,
    only: frozenset[str] = frozenset(),
    progress: Progress | None = None,
    limit: float = LIMIT,
) -> Exam:
    """Ask `adapter`'s trainer all questions, or `only` some.

    The exam runs in `folder`, which is new, or has an earlier exam, which is
    cleared; run directories of failures stay there. `progress` follows it.
    `limit`: seconds that a launch may take. Of the questions that were left
    out, the results have those that failed and leave others without an answer.
    Raises ExamError if the trainer does not even run undisturbed, and
    AdapterError if one of `only`, or of what it lacks, isn't a question.
    """
    only = frozenset(map(current, only))
    lacks = {current(name): why for name, why in adapter.lacks.items()}
    adapter = replace(adapter, lacks=lacks)
    names = ", ".join(BY_ID)
    for name in only - {*BY_ID}:
        raise AdapterError(f"{name!r} isn't a question; the questions: {names}")
    for name in {*lacks} - {*BY_ID, STOP, SAVE_EVERY}:
        raise AdapterError(
            f"{name!r} is nothing that a trainer may lack; these are {STOP},"
            f" {SAVE_EVERY} and the questions {names}"
        )
    if SAVE_EVERY in lacks:
        launch = replace(launch, save_every=EPOCH)
    batch = launch.global_batch
    if launch.ranks < 1 or batch < 1 or batch % launch.ranks:
        raise ExamError(cannot_share(launch.ranks, batch))
    launch = replace(launch, samples=EPOCH * batch)
    begun, progress = monotonic(), progress or Progress()
    today = datetime.now(UTC).date().isoformat()
    exam = Exam(adapter.name, launch, today, asked=only or frozenset(BY_ID))
    wanted = exam.asked.union(*map(prerequisites, exam.asked))
    progress.begins(exam)
    sandbox = Sandbox(adapter, folder, launch, limit)
    found: dict[str, Result] = {}
    failures: set[str] = set()
    scenarios = [*needed(only)]
    try:
        for done, scenario in enumerate(scenarios, 1):
            progress.asks(", ".join(scenario.questions))
            for result in answers(
                sandbox, scenario, progress, failures, wanted
            ):
                found[result.question.id] = result
            failures |= {
                n for n, r in found.items() if r.verdict.answer == "failed"
            }
            settle(found)
            told = {*exam.results}
            exam.results = shown(found, exam.asked, wanted)
            exam.seconds = monotonic() - begun
            left = exam.seconds / done * (len(scenarios) - done)
            number = len(told & exam.asked)
            for name in [n for n in exam.results if n not in told]:
                number += name in exam.asked
                progress.answered(exam.results[name], number, left)
    finally:
        exam.seconds = monotonic() - begun
        sandbox.clear()
    return exam


def cannot_share(ranks: int, batch: int) -> str:
    """Say which ranks can share this batch, and which batch these ranks."""
    said = f"{ranks} ranks cannot share a batch of {batch}"
    if ranks < 1 or batch < 1:
        return said
    able = [str(n) for n in range(1, batch + 1) if batch % n == 0]
    twice = 2 * ranks  # so many share it for `world-size`
    fits = -(-batch // twice) * twice
    return f"{said}; {', '.join(able)} can, and --batch {fits} would fit"


def prerequisites(name: str) -> frozenset[str]:
    """The questions whose failure leaves this one without an answer."""
    scenario = next((s for s in SCENARIOS if name in s.questions), None)
    found = {"reproducible"} if scenario and scenario.compares else set()
    if name in (*ASPECTS, "ema"):
        found |= {"reproducible", "resumes-latest"}
    if name == "order":
        found.add("exactly-once")
    if name == "final-weights":
        found |= {*ASPECTS, "ema"}
    return frozenset(found - {name})


def needed(only: frozenset[str]) -> Iterator[Scenario]:
    """The scenarios that answer these questions, after those that they stand
    on: a stopped run, and the aspects that explain another end."""
    for scenario in SCENARIOS:
        first = {"reproducible", "resumes-latest"} & {*scenario.questions}
        if not only or first or only & {*scenario.questions}:
            yield scenario


def shown(
    found: dict[str, Result], asked: frozenset[str], wanted: frozenset[str]
) -> dict[str, Result]:
    """The results of the questions that were `asked`, and of the other `wanted`
    ones those that failed, in the exam's order."""
    return {
        q.id: found[q.id]
        for q in QUESTIONS
        if q.id in found
        and (q.id in asked or (q.id in wanted and found[q.id].reproduced))
    }


@dataclass
class Attempts:
    """What a scenario answered each time that it was run."""

    tries: list[dict[str, Verdict]] = field(default_factory=list)
    # By question that failed: the launches of its first failure, and the
    # folder that holds what they left.
    kept: dict[str, tuple[list[str], str]] = field(default_factory=dict)
    prevented: str = ""  # why it was not run, or not again


def answers(
    sandbox: Sandbox,
    scenario: Scenario,
    progress: Progress,
    failures: set[str],
    wanted: frozenset[str],
) -> Iterator[Result]:
    """Answer the questions of one scenario."""
    lacks = sandbox.adapter.lacks
    ask = [name for name in scenario.questions if name not in lacks]
    done = Attempts()
    if scenario.compares and "reproducible" in failures:
        done.prevented = DIFFER
    elif ask:
        done = attempt(sandbox, scenario, ask, progress, failures, wanted)
    for name in scenario.questions:
        if name in lacks:
            yield Result(BY_ID[name], Verdict("not applicable", lacks[name]))
        elif not done.tries:
            yield Result(BY_ID[name], Verdict("not run", done.prevented))
        else:
            verdicts = [verdicts[name] for verdicts in done.tries]
            if done.prevented and name in done.kept:
                verdicts.append(Verdict("not run", done.prevented))
            yield judged(name, verdicts, done.kept.get(name), failures)


def attempt(
    sandbox: Sandbox,
    scenario: Scenario,
    ask: list[str],
    progress: Progress,
    failures: set[str],
    wanted: frozenset[str],
) -> Attempts:
    """Run a scenario; once more, up to TIMES, if one of the `wanted` questions
    of `ask` has failed and no failure seen before explains it."""
    done = Attempts()
    for number in range(1, TIMES + 1):
        try:
            verdicts = scenario.run(sandbox)
        except (AdapterError, ExamError) as error:
            if scenario is SCENARIOS[0]:
                raise
            done.prevented = str(error)
            break
        done.tries.append(verdicts)
        failed = (n for n in ask if verdicts[n].answer == "failed")
        if new := [n for n in failed if n not in done.kept]:
            where = sandbox.set_aside(f"{scenario.run.__name__}-{number}")
            done.kept |= dict.fromkeys(new, (sandbox.steps, str(where)))
        again = [
            n
            for n in done.kept
            if n in wanted and unexplained(verdicts[n], failures)
        ]
        if not again or number == TIMES:
            break
        tried = f"once more: {number + 1} of {TIMES}"
        progress.asks(f"{', '.join(again)}, {tried}")
    return done


def unexplained(verdict: Verdict, failures: set[str]) -> bool:
    """Whether it is a failure with a cause of its own."""
    because = verdict.because.keys()
    return verdict.answer == "failed" and not (because and because <= failures)


def judged(
    name: str,
    verdicts: list[Verdict],
    kept: tuple[list[str], str] | None,
    failures: set[str],
) -> Result:
    """One answer from the tries; if `failures` explain one of them, that."""
    if not kept:
        return Result(BY_ID[name], verdicts[0])
    steps, where = kept
    wrong = [verdict for verdict in verdicts if verdict.answer == "failed"]
    seen = f"{len(wrong)} of {len(verdicts)}"
    verdict = min(wrong, key=lambda v: unexplained(v, failures))
    if len(wrong) < len(verdicts):
        why = f"failed in {seen} tries, so it is called neither: {verdict.said}"
        verdict = Verdict("not run", why)
    return Result(BY_ID[name], verdict, (), seen, steps, where)


def settle(results: dict[str, Result]) -> None:
    """Name for each failure the others that explain it: those that ask for
    what differs, or an earlier one with the same difference at the end. (That
    a launch does not resume has many reasons.) A failure with differences of
    its own tells the first of them."""
    failures = {n for n, r in results.items() if r.verdict.answer == "failed"}
    seen: dict[frozenset[str], str] = {}
    for name in [q.id for q in QUESTIONS if q.id in failures]:
        result = results[name]
        why = {n: w for n, w in result.verdict.because.items() if n != name}
        own = frozenset(why) - failures
        compares = name in ASPECTS or why.keys() - {"resumes-latest"}
        if "reproducible" in failures and name != "reproducible" and compares:
            result.verdict, result.reproduced = Verdict("not run", DIFFER), ""
        elif why and not own:
            result.same_as = tuple(sorted(why))
        elif own in seen and result.verdict.at_the_end:
            result.same_as = (seen[own],)
        elif own:
            first, *others = [q.id for q in QUESTIONS if q.id in own]
            also = f" (also different: {', '.join(others)})" if others else ""
            result.verdict.said = result.verdict.where + why[first] + also
            if result.verdict.at_the_end:
                seen[own] = name
