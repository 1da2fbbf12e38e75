"""Hold an exam: disturb, judge, and do again what failed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from .adapter import LIMIT, Adapter, AdapterError, Launch
from .bench import SAVE_EVERY, STOP, Bench, ExamError
from .questions import BY_ID, QUESTIONS, Result, Verdict
from .scenarios import ASPECTS, EPOCH, SCENARIOS, Scenario

DIFFER = "two undisturbed runs already differ, see repeat"
TIMES = 3  # a failure is called one when it was seen this often


@dataclass
class Exam:
    """What an exam found."""

    trainer: str
    launch: Launch
    date: str
    seconds: float = 0.0
    results: dict[str, Result] = field(default_factory=dict)

    def count(self, answer: str) -> int:
        """How many questions got this answer."""
        verdicts = (r.verdict for r in self.results.values())
        return sum(verdict.answer == answer for verdict in verdicts)

    @property
    def sound(self) -> bool:
        """Whether nothing failed, in any of the tries."""
        return not any(result.reproduced for result in self.results.values())

    @property
    def causes(self) -> int:
        """Failures that no other explains."""
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
            "seed": launch.seed,
            "seconds": round(self.seconds),
            "passed": self.count("passed"),
            "failed": self.count("failed"),
            "causes": self.causes,
            "questions": [r.as_json() for r in self.results.values()],
        }


def examine(
    adapter: Adapter,
    folder: Path,
    launch: Launch,
    only: frozenset[str] = frozenset(),
    tell: Callable[[str], None] = lambda _: None,
    limit: float = LIMIT,
) -> Exam:
    """Ask `adapter`'s trainer all questions, or `only` some.

    `folder` is where it is run, a new one, or that of an earlier exam, which is
    cleared; what failed stays there. `tell` gets what is being done now.
    `limit`: seconds that a launch may take. Raises ExamError if it does not
    even run undisturbed, and AdapterError if one of `only`, or of what it
    lacks, is no question.
    """
    names = ", ".join(BY_ID)
    for name in only - {*BY_ID}:
        raise AdapterError(f"{name!r} is no question; they are {names}")
    for name in {*adapter.lacks} - {*BY_ID, STOP, SAVE_EVERY}:
        raise AdapterError(
            f"{name!r} is nothing that a trainer may lack; these are {STOP},"
            f" {SAVE_EVERY} and the questions {names}"
        )
    if SAVE_EVERY in adapter.lacks:
        launch = replace(launch, save_every=EPOCH)
    if launch.ranks < 1 or launch.global_batch % launch.ranks:
        raise ExamError(who_can_share(launch))
    launch = replace(launch, samples=EPOCH * launch.global_batch)
    begun = monotonic()
    today = datetime.now(UTC).date().isoformat()
    exam = Exam(adapter.name, launch, today)
    bench = Bench(adapter, folder, launch, limit)
    wanted = only or frozenset(BY_ID)
    for scenario in needed(only):
        tell(", ".join(scenario.questions))
        known = {
            name
            for name, result in exam.results.items()
            if result.verdict.answer == "failed"
        }
        for result in answers(bench, scenario, tell, known, wanted):
            exam.results[result.question.id] = result
    settle(exam.results)
    order = [q.id for q in QUESTIONS if q.id in wanted & exam.results.keys()]
    exam.results = {name: exam.results[name] for name in order}
    exam.seconds = monotonic() - begun
    bench.clear()
    return exam


def who_can_share(launch: Launch) -> str:
    """What to ask for in place of ranks that cannot share the batch."""
    ranks, batch = launch.ranks, launch.global_batch
    said = f"{ranks} ranks cannot share a batch of {batch}"
    *fewer, most = (n for n in range(1, batch + 1) if batch % n == 0)
    said += f"; {', '.join(map(str, fewer))} and {most} can" if fewer else ""
    if ranks < 1:
        return said
    # One that twice as many can share too, for `resize`.
    better = 2 * ranks * max(1, round(batch / (2 * ranks)))
    return f"{said}, and {ranks} ranks can share a batch of {better}"


def needed(only: frozenset[str]) -> Iterator[Scenario]:
    """The scenarios that answer these questions, after those that they stand
    on: a stopped run, and the aspects that explain another end."""
    for scenario in SCENARIOS:
        first = {"repeat", "goes-on"} & {*scenario.questions}
        if not only or first or only & {*scenario.questions}:
            yield scenario


@dataclass
class Attempts:
    """What a scenario answered each time that it was run."""

    tries: list[dict[str, Verdict]] = field(default_factory=list)
    # By question that failed: the launches of its first failure, and the
    # folder that holds what they left.
    kept: dict[str, tuple[list[str], str]] = field(default_factory=dict)
    prevented: str = ""  # why it was not run, or not again


def answers(
    bench: Bench,
    scenario: Scenario,
    tell: Callable[[str], None],
    failures: set[str],
    wanted: frozenset[str],
) -> Iterator[Result]:
    """Answer the questions of one scenario."""
    lacks = bench.adapter.lacks
    ask = [name for name in scenario.questions if name not in lacks]
    done = Attempts()
    if scenario.compares and "repeat" in failures:
        done.prevented = DIFFER
    elif ask:
        done = attempt(bench, scenario, ask, tell, failures, wanted)
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
    bench: Bench,
    scenario: Scenario,
    ask: list[str],
    tell: Callable[[str], None],
    failures: set[str],
    wanted: frozenset[str],
) -> Attempts:
    """Run a scenario; once more, up to TIMES, if one of the `wanted` questions
    of `ask` has failed and no failure seen before explains it."""
    done = Attempts()
    for number in range(1, TIMES + 1):
        try:
            verdicts = scenario.run(bench)
        except (AdapterError, ExamError) as error:
            if scenario is SCENARIOS[0]:
                raise
            done.prevented = str(error)
            break
        done.tries.append(verdicts)
        failed = (n for n in ask if verdicts[n].answer == "failed")
        if new := [n for n in failed if n not in done.kept]:
            where = bench.set_aside(f"{scenario.run.__name__}-{number}")
            done.kept |= dict.fromkeys(new, (bench.steps, str(where)))
        again = [
            n
            for n in done.kept
            if n in wanted and unexplained(verdicts[n], failures)
        ]
        if not again or number == TIMES:
            break
        tell(f"{', '.join(again)}, once more: {number + 1} of {TIMES}")
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
    """Say of each failure which others explain it: those that ask for what
    differs, or an earlier one that differs in the same at the end. (That a
    launch does not go on has many reasons.)"""
    failures = {n for n, r in results.items() if r.verdict.answer == "failed"}
    seen: dict[frozenset[str], str] = {}
    for name in [q.id for q in QUESTIONS if q.id in failures]:
        result = results[name]
        why = {n: w for n, w in result.verdict.because.items() if n != name}
        own = frozenset(why) - failures
        compares = name in ASPECTS or why.keys() - {"goes-on"}
        if "repeat" in failures and name != "repeat" and compares:
            result.verdict = Verdict("not run", DIFFER)
        elif why and not own:
            result.same_as = tuple(sorted(why))
        elif own in seen and result.verdict.at_the_end:
            result.same_as = (seen[own],)
        elif own:
            told = "; ".join(why[n] for n in why if n in own)
            result.verdict.said = result.verdict.where + told
            if result.verdict.at_the_end:
                seen[own] = name
