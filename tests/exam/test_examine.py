"""What fails is done again, failures are explained by one another, and the
answers come out as a table, a page, a badge and tests."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup

from lockstep.cli import main
from lockstep.exam import examine as examining
from lockstep.exam import pytest_plugin, report
from lockstep.exam.adapter import Adapter, AdapterError, Launch
from lockstep.exam.cures import CURE_OF, CURES
from lockstep.exam.examine import Exam, examine, settle
from lockstep.exam.questions import BY_ID, FORMER, QUESTIONS, Result, Verdict
from lockstep.exam.sandbox import ExamError, Sandbox
from lockstep.exam.scenarios import (
    ASPECTS,
    SCENARIOS,
    Scenario,
    failed,
    passed,
)
from lockstep.site.build.addresses import address
from tests.conftest import ROOT

pytest_plugins = ["pytester"]
ADAPTER = Adapter(Path("a.py"), "a trainer", lambda _: [], lambda _: [], {})


def held(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    *scenarios: Scenario,
    adapter: Adapter = ADAPTER,
    only: frozenset[str] = frozenset(),
) -> Exam:
    """An exam of these scenarios."""
    monkeypatch.setattr(examining, "SCENARIOS", [*scenarios])
    return examine(adapter, folder, Launch(Path()), only)


def scenario(*tries: dict[str, Verdict]) -> tuple[Scenario, list[int]]:
    """One whose tries end so, the last of them again and again; and how often
    it was tried."""
    count: list[int] = []

    def run(sandbox: Sandbox) -> dict[str, Verdict]:
        sandbox.begin()
        sandbox.steps.append("something was done")
        count.append(1)
        return tries[min(len(count), len(tries)) - 1]

    return Scenario(run, (*tries[0],)), count


def test_failure_is_confirmed_by_three_tries(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The exam tries a failed question three times and reports a failure if all
    tries fail. If some tries pass, it reports neither a pass nor a failure."""
    steady, three = scenario({"kill": failed("bad"), "order": passed()})
    flaky, two = scenario(
        {"kill-during-save": failed("bad")}, {"kill-during-save": passed()}
    )
    exam = held(monkeypatch, tmp_path, steady, flaky)
    assert (len(three), len(two)) == (3, 2)
    assert exam.results["kill"].verdict.answer == "failed"
    assert exam.results["kill"].reproduced == "3 of 3"
    assert exam.results["kill"].steps == ["something was done"]
    assert Path(exam.results["kill"].kept).is_dir()
    assert exam.results["order"].verdict.answer == "passed"
    assert exam.results["kill-during-save"].verdict.answer == "not run"
    assert "1 of 2 tries" in exam.results["kill-during-save"].verdict.said


def test_what_was_not_asked_for_is_tried_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It may explain what was asked for, and is not shown."""
    first, count = scenario(
        {"resumes-latest": passed(), "rng-state": failed("bad")}
    )
    kill, tried = scenario({"kill": failed("bad", "rng-state")})
    exam = held(monkeypatch, tmp_path, first, kill, only=frozenset({"kill"}))
    assert (len(count), len(tried)) == (1, 1)
    assert [*exam.results] == ["kill"]
    assert exam.results["kill"].same_as == ("rng-state",)


def test_a_try_that_a_failure_explains_speaks_for_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An odd first try is not called a cause of its own if the second one
    failed for a cause that is known."""
    cause, _ = scenario({"rng-state": failed("bad")})
    name = "kill-during-save"
    odd, tried = scenario({name: failed("no step", "resumes-latest")},
                          {name: failed("bad", "rng-state")})  # fmt: skip
    exam = held(monkeypatch, tmp_path, cause, odd)
    assert len(tried) == 2
    assert exam.results["kill-during-save"].same_as == ("rng-state",)


def test_what_fails_in_a_later_try_only_is_not_called_passed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where another failure of the same launches had them tried again."""
    both, _ = scenario(
        {"order": failed("bad"), "rng-state": passed()},
        {"order": failed("bad"), "rng-state": failed("races")},
    )
    exam = held(monkeypatch, tmp_path, both)
    assert exam.results["order"].reproduced == "3 of 3"
    random = exam.results["rng-state"]
    assert random.verdict.answer == "not run"
    assert "2 of 3 tries" in random.verdict.said
    assert random.verdict.said.endswith("races")
    assert random.kept != exam.results["order"].kept
    assert Path(random.kept).is_dir()


def test_what_cannot_be_tried_again_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A failure after which the launches break down is neither called one nor
    lost, and what had passed has passed."""
    once, count = scenario({"kill": failed("bad"), "order": passed()})

    def breaks(sandbox: Sandbox) -> dict[str, Verdict]:
        if count:
            raise ExamError("out of memory")
        return once.run(sandbox)

    exam = held(monkeypatch, tmp_path, Scenario(lambda _: {}, ()),
                once._replace(run=breaks))  # fmt: skip
    assert exam.results["kill"].verdict.answer == "not run"
    assert "1 of 2 tries" in exam.results["kill"].verdict.said
    assert exam.results["order"].verdict.answer == "passed"
    assert exam.exit_code == 1


def test_explained_failures_are_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If a question's failure follows from a failure that is already known, the
    exam doesn't try the question again, and both failures count as one
    cause."""
    cause, _ = scenario({"learning-rate": failed("bad")})
    other, tried = scenario({"kill": failed("bad", "learning-rate")})
    exam = held(monkeypatch, tmp_path, cause, other)
    assert len(tried) == 1
    assert exam.results["kill"].same_as == ("learning-rate",)
    assert exam.causes == 1
    assert exam.count("failed") == 2


def test_what_does_not_apply_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A question that the adapter lacks is not asked; an error in a scenario,
    or in the adapter, is no failure."""

    def breaks(_: Sandbox) -> dict[str, Verdict]:
        raise ExamError("it never came up")

    def slips(_: Sandbox) -> dict[str, Verdict]:
        raise AdapterError("checkpoints(run_dir) raises")

    lacks = {"scaler": "no scaler", "order": "no order"}
    half, _ = scenario({"order": passed(), "kill": passed()})
    gone, tried = scenario({"scaler": passed()})
    exam = held(
        monkeypatch, tmp_path, half, gone, Scenario(breaks, ("hang",)),
        Scenario(slips, ("kill-during-save",)),
        adapter=replace(ADAPTER, lacks=lacks),
    )  # fmt: skip
    verdicts = {n: r.verdict for n, r in exam.results.items()}
    said = {n: (v.answer, v.said) for n, v in verdicts.items()}
    assert said == {
        "order": ("not applicable", "no order"),
        "kill": ("passed", ""),
        "scaler": ("not applicable", "no scaler"),
        "kill-during-save": ("not run", "checkpoints(run_dir) raises"),
        "hang": ("not run", "it never came up"),
    }
    assert not tried


def test_what_would_be_compared_with_chance_is_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where two undisturbed runs end differently, no disturbed run is launched
    that would have to end as they do."""
    differ, _ = scenario({"reproducible": failed("bad")})
    compared, tried = scenario({"kill": failed("bad", "rng-state")})
    alone, _ = scenario({"hang": passed()})
    compared = compared._replace(compares=True)
    exam = held(monkeypatch, tmp_path, differ, compared, alone)
    assert not tried
    assert exam.results["kill"].verdict.answer == "not run"
    assert "see reproducible" in exam.results["kill"].verdict.said
    assert exam.results["hang"].verdict.answer == "passed"


def stopped(**verdicts: Verdict) -> Scenario:
    """The scenario that the aspects are read from, where these names with
    underscores got verdicts, and the other aspects passed."""
    found = {name: passed() for name in ("resumes-latest", *ASPECTS, "ema")}
    found |= {n.replace("_", "-"): v for n, v in verdicts.items()}
    return scenario(found)[0]


def test_failed_prerequisite_is_shown_and_fails_the_exam(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`--only final-weights` for a trainer that loses its optimizer's state
    shows `optimizer`, which was tried three times, and exits with 1. Other
    questions that were not asked don't matter."""
    lost = stopped(
        optimizer=failed("lost"),
        final_weights=Verdict("not run", "explained by what failed before"),
    )
    exam = held(monkeypatch, tmp_path, lost, only=frozenset({"end"}))
    answers = {n: r.verdict.answer for n, r in exam.results.items()}
    assert answers == {"optimizer": "failed", "final-weights": "not run"}
    assert exam.results["optimizer"].reproduced == "3 of 3"
    assert exam.exit_code == 1
    exam = held(monkeypatch, tmp_path, lost, only=frozenset({"order"}))
    assert [*exam.results] == ["order"]
    assert exam.exit_code == 0
    never = stopped(resumes_latest=failed("unknown weights"))
    exam = held(monkeypatch, tmp_path, never, only=frozenset({"buffers"}))
    assert [*exam.results] == ["resumes-latest", "buffers"]
    assert exam.exit_code == 1


def test_unanswered_question_exits_with_code_3(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit code 3 means that nothing failed, and that a question was not run or
    doesn't apply for a reason that hides a danger. Questions that the adapter
    lacks, that the trainer doesn't have, or that `only` leaves out give code
    0."""
    unsure = Verdict("not applicable", "no epoch ended", danger="repeats")
    fine, _ = scenario({"kill": passed(), "order": passed()})
    nature, _ = scenario({"ema": Verdict("not applicable", "no average")})
    unrun, _ = scenario({"hang": Verdict("not run", "it never came")})
    danger, _ = scenario({"exactly-once": unsure})
    bad, _ = scenario({"pickle": failed("code was run")})
    lacks = replace(ADAPTER, lacks={"order": "no order"})
    for scenarios, only, code in [
        ((fine, nature), frozenset(), 0),
        ((fine, nature, unrun), frozenset(), 3),
        ((fine, nature, unrun), frozenset({"kill"}), 0),
        ((fine, danger), frozenset(), 3),
        ((fine, unrun, danger, bad), frozenset(), 1),
    ]:
        exam = held(monkeypatch, tmp_path, *scenarios, adapter=lacks, only=only)
        assert exam.exit_code == code, scenarios
        assert report.conclusion(exam).startswith(f"Exit code {code}: ")
    assert "pickle" in report.conclusion(exam)
    assert "repeats" in report.seen(exam.results["exactly-once"])


def result(name: str, *because: str) -> Result:
    """A failure."""
    return Result(BY_ID[name], failed("bad", *because))


def test_a_trainer_that_never_ends_alike_is_not_compared() -> None:
    """Where two undisturbed runs differ, what is compared with one is not
    called a failure; what needs no comparison still is."""
    results = {
        n: result(n, *w)
        for n, w in [
            ("reproducible", ()), ("order", ()), ("kill", ("final-weights",)),
            ("hang", ()),
        ]
    }  # fmt: skip
    settle(results)
    answers = {n: r.verdict.answer for n, r in results.items()}
    assert answers == {
        "reproducible": "failed",
        "order": "not run",
        "kill": "not run",
        "hang": "failed",
    }


def test_two_that_differ_in_the_same_are_one() -> None:
    """Of failures with one and the same difference the first is the cause."""
    results = {
        "kill": result("kill", "exactly-once"),
        "loader-workers": result("loader-workers", "exactly-once"),
        "kill-during-save": result("kill-during-save", "resumes-latest"),
        "flipped-bit": result("flipped-bit", "exactly-once"),  # it fell back
        "truncated": result("truncated", "exactly-once"),  # it did not
        "sigterm": result("sigterm", "resumes-latest"),
    }
    for name in "kill", "loader-workers", "flipped-bit":
        results[name].verdict.at_the_end = True
    settle(results)
    assert results["kill"].same_as == ()
    assert results["loader-workers"].same_as == ("kill",)
    assert results["flipped-bit"].same_as == ("kill",)
    assert results["truncated"].same_as == ()
    assert results["kill-during-save"].same_as == ()
    assert results["sigterm"].same_as == ()  # that has many reasons


def test_nothing_explains_itself() -> None:
    """A trainer that never goes on fails that question by its own cause, and
    the others for it."""
    results = {
        "resumes-latest": result("resumes-latest", "resumes-latest"),
        "kill": result("kill", "resumes-latest"),
    }
    settle(results)
    assert results["resumes-latest"].same_as == ()
    assert results["kill"].same_as == ("resumes-latest",)


def test_the_first_unexplained_difference_is_told() -> None:
    """A run with known and unknown differences has a separate cause. It tells
    the first unknown difference in the exam's order, and names the others."""
    because = {
        "rng-state": "another state",
        "learning-rate": "another rate",
        "order": "other samples",
    }
    said = "without it: another state"
    both = Verdict("failed", said, because, "without it: ")
    results = {
        "rng-state": result("rng-state"),
        "two-restarts": Result(BY_ID["two-restarts"], both),
    }
    settle(results)
    assert results["two-restarts"].same_as == ()
    told = "without it: other samples (also different: learning-rate)"
    assert results["two-restarts"].verdict.said == told


def test_former_names_of_questions_are_accepted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`--only` and an adapter's `lacks` take a question's former name, and the
    results have its present name."""
    both, _ = scenario({"kill": passed(), "wrong-run": passed()})
    save, _ = scenario({"kill-during-save": passed()})
    exam = held(
        monkeypatch, tmp_path, both, save,
        adapter=replace(ADAPTER, lacks={"torn": "no saves"}),
        only=frozenset({"foreign", "torn", "kill"}),
    )  # fmt: skip
    answers = {n: r.verdict.answer for n, r in exam.results.items()}
    assert answers == {
        "kill": "passed",
        "kill-during-save": "not applicable",
        "wrong-run": "passed",
    }
    assert {*FORMER.values()} <= {*BY_ID}
    assert not {*FORMER} & {*BY_ID}


def test_every_question_is_answered_by_one_scenario() -> None:
    """No question is left out or asked twice, and each has its words."""
    asked = [name for s in SCENARIOS for name in s.questions]
    assert sorted(asked) == sorted(BY_ID)
    assert len(BY_ID) == len(QUESTIONS)
    assert all(q.title and q.why.endswith(".") for q in QUESTIONS)


@pytest.fixture
def exam() -> Exam:
    """One of everything."""
    found = Exam("a <trainer>", Launch(Path()), "2026-01-01", 61.0)
    found.asked = frozenset(BY_ID)
    for name, verdict in {
        "reproducible": passed(),
        "learning-rate": failed("step 9: 1, not 2"),
        "ema": Verdict("not applicable", "none"),
        "kill": failed("the same", "learning-rate"),
        "kill-during-save": Verdict("not run", "unreached"),
    }.items():
        times = "3 of 3" if verdict.answer == "failed" else ""
        found.results[name] = Result(
            BY_ID[name], verdict, (), times, ["launched: x"], "there"
        )
    settle(found.results)
    return found


def without_failures(exam: Exam) -> None:
    """Its failed questions pass instead."""
    for name in "learning-rate", "kill":
        exam.results[name] = Result(BY_ID[name], passed())


def test_the_report_is_one_file_that_says_all(exam: Exam) -> None:
    """It asks for nothing from elsewhere, begins with the exit code, and has
    each question with its answer. A failure has its usual cause, the piece that
    cures it, the handbook's page, and how it is seen again."""
    soup = BeautifulSoup(report.page(exam), "html.parser")
    assert not soup.select("[src], link, script")
    rows = [row.get_text(" ", strip=True) for row in soup.select("tr")][1:]
    assert len(rows) == 5
    assert "as learning-rate failed: the same" in rows[3]
    (heading,) = soup.select("h2")
    assert heading.get_text() == BY_ID["learning-rate"].title
    assert soup.select_one("li pre").get_text() == "launched: x"  # type: ignore[union-attr]
    assert "a <trainer>" in soup.h1.get_text()  # type: ignore[union-attr]
    assert soup.select("p")[0].get_text() == report.conclusion(exam)
    said = soup.get_text()
    for word in (
        "lockstep.pieces",
        "Usual cause:",
        "`Run.save`",
        CURE_OF["learning-rate"].path,
    ):
        assert word in said


def test_every_question_has_a_fix_and_a_page() -> None:
    """Each question has a usual cause and a fix, and the page that the report
    names exists, with its anchor, at the address that the report gives."""
    assert {*BY_ID} <= {*CURE_OF}
    for cure in CURES:
        page, anchor = cure.page.split("#")
        assert f"{{ #{anchor} }}" in (ROOT / "docs" / page).read_text(), cure
        assert cure.path == f"{address(page)}#{anchor}"


def test_the_cause_of_an_explained_failure_is_told_though_it_was_not_asked(
    exam: Exam,
) -> None:
    """`--only kill` of a trainer with a wrong learning rate names the learning
    rate's usual cause and page."""
    del exam.results["learning-rate"]
    lines = [*report.failures(exam)]
    assert max(map(len, lines)) <= 80
    said = " ".join(line.strip() for line in lines)
    assert "ask --only learning-rate" in said
    for told in said, BeautifulSoup(report.page(exam), "html.parser").text:
        assert CURE_OF["learning-rate"].cause in told


def test_the_badge_counts_what_was_asked(exam: Exam) -> None:
    """Of what applies, with what has no answer: red if something failed, and
    green only if everything passed."""

    def label() -> str | None:
        return ElementTree.fromstring(report.badge(exam)).get("aria-label")

    assert label() == "resume exam: 1 of 4 passed, 1 unanswered"
    assert "#b3261e" in report.badge(exam)
    without_failures(exam)
    assert label() == "resume exam: 3 of 4 passed, 1 unanswered"
    assert "#b3261e" not in report.badge(exam)
    assert "#1b6e3c" not in report.badge(exam)
    exam.results["kill-during-save"].verdict = passed()
    assert label() == "resume exam: 4 of 4 passed"
    assert "#1b6e3c" in report.badge(exam)


@pytest.fixture
def command(
    exam: Exam, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> list[str]:
    """The command, and an exam that is over at once."""

    monkeypatch.setattr(examining, "examine", lambda *_: exam)
    (tmp_path / "a.py").write_text("def command(launch): ...")
    return ["exam", str(tmp_path / "a.py")]


def test_the_command_prints_and_writes(
    command: list[str],
    exam: Exam,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command prints the exit code with its reason, a table, the failures
    that no other explains with their cures, and a last line. It writes a page
    and a badge if they are asked for, in a folder that need not be there. What
    a trainer said is printed as it is."""
    page, badge = tmp_path / "new/r.html", tmp_path / "b.svg"
    words = "[rank0]: nothing in [/data/run]"
    exam.results["reproducible"].verdict.said = words
    asked = [*command, "--html", str(page), "--badge", str(badge)]
    assert main(asked) == 1
    said = capsys.readouterr().out
    assert said.splitlines()[0] == (
        "Exit code 1: 2 questions failed: learning-rate, kill; 1 question"
        " without an answer: kill-during-save."
    )
    assert said.count("To see it again") == 1
    assert f"Handbook page: {CURE_OF['learning-rate'].path}" in said
    assert words in said
    assert (
        "a <trainer>: 1 passed, 2 failed (causes: 1), 1 not applicable, 1 not"
        " run" in said.replace("\n", " ")
    )
    assert page.read_text() == report.page(exam)
    assert badge.read_text() == report.badge(exam)


def test_for_machines_and_without_failures(
    command: list[str], exam: Exam, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--json` prints the answers and the exit code. It is 3 if nothing failed
    and a question has no answer, and 0 if everything that applies passed."""
    without_failures(exam)
    assert main([*command, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] == 3
    assert found["exit_code"] == 3
    assert found["unanswered"] == ["kill-during-save"]
    answers = [q["answer"] for q in found["questions"]]
    assert answers == [r.verdict.answer for r in exam.results.values()]
    exam.results["kill-during-save"].verdict = passed()
    assert main(command) == 0
    assert "everything that applies passed" in capsys.readouterr().out


def test_question_that_failed_once_does_not_pass(
    command: list[str], exam: Exam, capsys: pytest.CaptureFixture[str]
) -> None:
    """A question that failed in one of its tries is reported as neither passed
    nor failed. The exit code is 1, and the report says what was seen and where
    the files are."""
    without_failures(exam)
    exam.results["kill-during-save"].reproduced = "1 of 2"
    assert main(command) == 1
    said = capsys.readouterr().out
    assert "Seen, 1 of 2 times: unreached" in said
    assert "Left in there" in said


@pytest.fixture
def under_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., list[str]]:
    """A command whose exam has these scenarios."""

    def asked(*scenarios: Scenario) -> list[str]:
        monkeypatch.setattr(examining, "SCENARIOS", [*scenarios])
        monkeypatch.chdir(tmp_path)
        Path("a.py").write_text("def command(launch): return []")
        return ["exam", "a.py", "--folder", "runs", "--badge", "b.svg"]

    return asked


def test_verdicts_are_printed_as_they_arrive(
    under_way: Callable[..., list[str]],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Each verdict is a line on stderr as soon as its scenario is over, with
    its number, the total, and the time left. A failed prerequisite has no
    number."""
    told: list[str] = []

    def later(_: Sandbox) -> dict[str, Verdict]:
        told.extend(capfd.readouterr().err.splitlines())
        return {"hang": passed()}

    first = stopped(resumes_latest=failed("from step 4"))
    only = ["--only", "order", "hang"]
    command = under_way(first, Scenario(later, ("hang",)))
    assert main([*command, *only]) == 1
    assert len(told) == 2
    assert told[0].startswith("needed for others: resumes-latest failed: from")
    assert told[1].startswith("1 of 2: order passed (about ")
    said = capfd.readouterr()
    assert said.err == "2 of 2: hang passed\n"


@pytest.mark.parametrize("code", [130, 143])
def test_interrupted_exam_prints_its_results(
    under_way: Callable[..., list[str]],
    capsys: pytest.CaptureFixture[str],
    code: int,
) -> None:
    """Ctrl-C and SIGTERM end the exam. It says so in one line, prints the
    results so far, and writes the requested reports. The exit code is the
    signal's."""

    def ends(_: Sandbox) -> dict[str, Verdict]:
        raise KeyboardInterrupt if code == 130 else SystemExit(code)

    first, _ = scenario({"kill": failed("bad"), "order": passed()})
    assert main(under_way(first, Scenario(ends, ("hang",)))) == code
    said = capsys.readouterr().out.splitlines()
    assert said[0] == (
        f"Exit code {code}: interrupted after 2 of {len(BY_ID)} questions; 1"
        " question failed: kill."
    )
    assert any(line.startswith("kill") for line in said[1:])
    assert Path("b.svg").exists()


def test_message_names_a_batch_that_ranks_can_share(
    under_way: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Three ranks can't share 16 samples. The message names a batch that they
    can share, and with that batch epochs still have six steps."""
    launches: list[Launch] = []

    def run(sandbox: Sandbox) -> dict[str, Verdict]:
        launches.append(sandbox.launch)
        return {"hang": passed()}

    command = [*under_way(Scenario(run, ("hang",))), "--ranks", "3"]
    assert main(command) == 2
    assert "--batch 18 would fit" in capsys.readouterr().err
    assert main([*command, "--batch", "18", "--only", "hang"]) == 0
    assert [(one.global_batch, one.samples) for one in launches] == [(18, 108)]


def test_questions_become_pytest_tests(
    pytester: pytest.Pytester, exam: Exam, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin makes a test of each question: it passes, fails with what was
    seen, or is skipped with the reason. One exam answers all of them, and asks
    only the selected questions."""
    asked = []

    def at_once(*args: Any, limit: float) -> Exam:
        asked.append(args[3])
        assert limit == 7
        return exam

    monkeypatch.setattr(pytest_plugin, "examine", at_once)
    path = pytester.makepyfile(a="def command(launch): ...")
    ran = pytester.inline_run(
        "-p", "lockstep.exam.pytest_plugin", "--exam", str(path), "-p",
        "no:cacheprovider", "-k", "repeat or rate or ema or torn", str(path),
        "--exam-limit", "7",
    )  # fmt: skip
    passing, skipped, failing = ran.listoutcomes()
    assert [r.nodeid.split("::")[1] for r in passing] == ["reproducible"]
    assert [r.nodeid.split("::")[1] for r in skipped] == [
        "ema",
        "kill-during-save",
    ]
    (found,) = failing
    assert "step 9: 1, not 2" in str(found.longrepr)
    assert asked == [
        {"reproducible", "learning-rate", "ema", "kill-during-save"}
    ]


def ended(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *words: str
) -> pytest.RunResult:
    """How the plugin's tests end, of a trainer that loses its optimizer's
    state, and whose hang was not examined."""
    lost = stopped(
        optimizer=failed("lost"), final_weights=Verdict("not run", "see above")
    )
    unrun, _ = scenario({"hang": Verdict("not run", "it never came")})
    monkeypatch.setattr(examining, "SCENARIOS", [lost, unrun])
    path = pytester.makepyfile(a="def command(launch): return []")
    return pytester.runpytest_inprocess(
        "-p", "lockstep.exam.pytest_plugin", "--exam", str(path), "-p",
        "no:cacheprovider", str(path), *words,
    )  # fmt: skip


def test_unanswered_exam_test_warns_or_fails(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question that was not run is skipped with a warning, or fails if the
    option says so. If a prerequisite that wasn't chosen failed, the question
    fails."""
    ran = ended(pytester, monkeypatch, "-k", "hang")
    ran.assert_outcomes(skipped=1, deselected=len(QUESTIONS) - 1)
    ran.stdout.fnmatch_lines("*UserWarning: hang not run: it never came")
    fail = "-k", "hang", "--exam-unanswered", "fail"
    ran = ended(pytester, monkeypatch, *fail)
    ran.assert_outcomes(failed=1, deselected=len(QUESTIONS) - 1)
    ran = ended(pytester, monkeypatch, "-k", "final-weights")
    ran.assert_outcomes(failed=1, deselected=len(QUESTIONS) - 1)
    ran.stdout.fnmatch_lines("optimizer: lost")
    both = "-k", "final-weights or optimizer"
    ran = ended(pytester, monkeypatch, *both)
    ran.assert_outcomes(failed=1, skipped=1, deselected=len(QUESTIONS) - 2)


def test_what_cannot_be_examined_is_launched_once(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question says why, and the trainer is not tried again for each.
    Adapters of one name have folders of their own."""
    folders = []

    def broken(_: Adapter, folder: Path, *__: object, **___: object) -> Exam:
        folders.append(folder)
        raise ExamError("it cannot be launched")

    monkeypatch.setattr(pytest_plugin, "examine", broken)
    paths = []
    for name in "one", "two":
        paths.append(pytester.mkdir(name) / "a.py")
        paths[-1].write_text("def command(launch): ...")
    args = [word for path in paths for word in ("--exam", str(path))]
    ran = pytester.inline_run(
        "-p", "lockstep.exam.pytest_plugin", *args, "-p", "no:cacheprovider",
        "-k", "repeat or rate",
    )  # fmt: skip
    failing = ran.listoutcomes()[2]
    assert ["it cannot be launched" in str(f.longrepr) for f in failing] == (
        [True] * 4
    )
    assert len({*folders}) == len(folders) == 2
