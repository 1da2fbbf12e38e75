"""What fails is done again, failures are explained by one another, and the
answers come out as a table, a page, a badge and tests."""

import json
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
from lockstep.exam.bench import Bench, ExamError
from lockstep.exam.examine import Exam, examine, settle
from lockstep.exam.questions import BY_ID, FORMER, QUESTIONS, Result, Verdict
from lockstep.exam.scenarios import SCENARIOS, Scenario, failed, passed

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

    def run(bench: Bench) -> dict[str, Verdict]:
        bench.begin()
        bench.steps.append("something was done")
        count.append(1)
        return tries[min(len(count), len(tries)) - 1]

    return Scenario(run, (*tries[0],)), count


def test_a_failure_is_seen_three_times(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What fails is tried three times and called a failure if it failed each
    time; what failed and then did not is called neither."""
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

    def breaks(bench: Bench) -> dict[str, Verdict]:
        if count:
            raise ExamError("out of memory")
        return once.run(bench)

    exam = held(monkeypatch, tmp_path, Scenario(lambda _: {}, ()),
                once._replace(run=breaks))  # fmt: skip
    assert exam.results["kill"].verdict.answer == "not run"
    assert "1 of 2 tries" in exam.results["kill"].verdict.said
    assert exam.results["order"].verdict.answer == "passed"
    assert not exam.sound


def test_what_a_failure_explains_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run that ends otherwise for a cause that is known counts once."""
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

    def breaks(_: Bench) -> dict[str, Verdict]:
        raise ExamError("it never came up")

    def slips(_: Bench) -> dict[str, Verdict]:
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


def test_of_several_differences_the_unexplained_ones_are_told() -> None:
    """A run that differs in what is known and in more has a cause of its own,
    and says which."""
    because = {
        "rng-state": "another state",
        "order": "other samples",
        "learning-rate": "another rate",
    }
    said = "without it: another state"
    both = Verdict("failed", said, because, "without it: ")
    results = {
        "rng-state": result("rng-state"),
        "two-restarts": Result(BY_ID["two-restarts"], both),
    }
    settle(results)
    assert results["two-restarts"].same_as == ()
    told = "without it: other samples; another rate"
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


def test_the_report_is_one_file_that_says_all(exam: Exam) -> None:
    """It asks for nothing from elsewhere, has each question with its answer,
    and for a failure how it is seen again."""
    soup = BeautifulSoup(report.page(exam), "html.parser")
    assert not soup.select("[src], link, script")
    rows = [row.get_text(" ", strip=True) for row in soup.select("tr")][1:]
    assert len(rows) == 5
    assert "as learning-rate failed: the same" in rows[3]
    (heading,) = soup.select("h2")
    assert heading.get_text() == BY_ID["learning-rate"].title
    assert soup.select_one("li pre").get_text() == "launched: x"  # type: ignore[union-attr]
    assert "a <trainer>" in soup.h1.get_text()  # type: ignore[union-attr]


def test_the_badge_counts_what_was_asked(exam: Exam) -> None:
    """Of what applies; in red if something failed."""
    picture = ElementTree.fromstring(report.badge(exam))
    assert picture.get("aria-label") == "resume exam: 1 of 4 passed"
    assert "#b3261e" in report.badge(exam)
    for name in "learning-rate", "kill":
        exam.results[name].verdict = passed()
    assert "#b3261e" not in report.badge(exam)


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
    """A table, the failures that no other explains, and a last line; a page
    and a badge if they are asked for, in a folder that need not be there. What
    a trainer said is printed as it is."""
    page, badge = tmp_path / "new/r.html", tmp_path / "b.svg"
    words = "[rank0]: nothing in [/data/run]"
    exam.results["reproducible"].verdict.said = words
    asked = [*command, "--html", str(page), "--badge", str(badge)]
    assert main(asked) == 1
    said = capsys.readouterr().out
    assert said.count("To see it again") == 1
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
    """`--json` prints the answers; the exit code is 0 if nothing failed."""
    for name in "learning-rate", "kill":
        exam.results[name].verdict = passed()
        exam.results[name].reproduced = ""
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] == 3
    answers = [q["answer"] for q in found["questions"]]
    assert answers == [r.verdict.answer for r in exam.results.values()]


def test_what_failed_once_is_no_success(command: list[str], exam: Exam) -> None:
    """A question that failed in one of its tries is called neither passed nor
    failed, and the exit code is 1 all the same."""
    for name in "learning-rate", "kill":
        exam.results[name].verdict = passed()
        exam.results[name].reproduced = ""
    exam.results["kill-during-save"].reproduced = "1 of 2"
    assert main(command) == 1
    exam.results["kill-during-save"].reproduced = ""
    assert main(command) == 0


def test_questions_become_tests(
    pytester: pytest.Pytester, exam: Exam, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin makes a test of each question: it passes, it fails with what
    was seen, or it is skipped with the reason. One exam answers all of them,
    and only those that are to be run are asked."""
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
