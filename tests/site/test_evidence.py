"""What holds an answer is there and has passed, or a line says what has not."""

from pathlib import Path

import pytest

from lockstep.practice.bank import Admitted
from lockstep.site.pages import evidence
from lockstep.site.pages.evidence import (
    ending,
    headings,
    missing,
    outcomes,
    unproven,
)
from tests.practice.specimen import specimen

TEST = "tests/practice/test_bank.py::test_what_holds_an_answer_is_there"
MODULE = 'classname="tests.practice.test_bank"'
NAME = "test_what_holds_an_answer_is_there"


@pytest.mark.parametrize(
    ("kind", "named", "why"),
    [
        ("tests", f"{TEST}_not", f"there is no test {TEST}_not"),
        ("tests", "tests/no.py::test_it", "there is no test tests/no.py"),
        ("pages", "concepts/no.md", "there is no page concepts/no.md"),
        (
            "pages",
            "concepts/arithmetic/index.md#no",
            "there is no place concepts/a",
        ),
        ("labs", "99", "there is no lab 99"),
        ("drills", "99", "there is no drill 99"),
        ("bugs", "99", "there is no bug 99"),
    ],
)
def test_what_is_not_there_is_named(kind: str, named: str, why: str) -> None:
    [line] = missing(specimen(**{f"evidence__{kind}": [named]}))
    assert line.startswith(f"specimen: {why}")


def test_a_test_of_a_class_and_a_case_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        "class TestIt:\n    def test_one(self): ...\n"
    )
    for name, there in (("TestIt::test_one[2]", True), ("test_one", False)):
        held = {"tests": [f"test_x.py::{name}"]}
        assert there != bool(list(missing(specimen(evidence=held), tmp_path)))


def test_a_heading_is_known_by_its_id_or_its_words(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n## Some `state` { #state }\n\n*x*{ #y }\n")
    assert headings(page) == {
        "a-page": "A page",
        "state": "Some `state`",
        "y": "",
    }


def report(folder: Path, *cases: str) -> Path:
    """A report of some test cases, as pytest writes it."""
    path = folder / "code.xml"
    suite = f"<testsuite>{''.join(cases)}</testsuite>"
    path.write_text(f"<testsuites>{suite}</testsuites>")
    return path


def case(name: str, inside: str = "") -> str:
    return f'<testcase {MODULE} name="{name}">{inside}</testcase>'


@pytest.mark.parametrize(
    ("cases", "how"),
    [
        ([], "did not run"),
        ([case(f"{NAME}_too")], "did not run"),
        ([case(NAME, '<skipped type="pytest.skip"/>')], "was skipped"),
        ([case(NAME, "<failure/>")], "failed"),
        ([case(NAME, "<error/>")], "failed"),
        ([case(f"{NAME}[1]"), case(f"{NAME}[2]", "<failure/>")], "failed"),
        ([case(f"{NAME}[1]"), case(f"{NAME}[2]", "<skipped/>")], "was skipped"),
        ([case(NAME), case(NAME, "<error/>")], "failed"),
    ],
)
def test_what_did_not_pass_is_one_line(
    tmp_path: Path, cases: list[str], how: str
) -> None:
    ended = outcomes([report(tmp_path, *cases)])
    assert [*unproven(specimen(), ended)] == [f"specimen: {TEST} {how}"]


@pytest.mark.parametrize(
    ("cases", "named"),
    [
        ([case(NAME)], TEST),
        ([case(NAME, "<system-out>said</system-out>")], TEST),
        ([case(f"{NAME}[1]"), case(f"{NAME}[2]")], TEST),
        ([case(f"{NAME}[1]"), case(f"{NAME}[2]", "<failure/>")], f"{TEST}[1]"),
    ],
)
def test_what_passed_holds(
    tmp_path: Path, cases: list[str], named: str
) -> None:
    one = specimen(evidence__tests=[named])
    assert [*unproven(one, outcomes([report(tmp_path, *cases)]))] == []


def test_only_weekly_tests_may_be_absent_from_a_daily_report(
    tmp_path: Path,
) -> None:
    """One of two tests is marked weekly; neither is in the report. A weekly
    test that ran and failed is named as any other."""
    (tmp_path / "test_x.py").write_text(
        "@pytest.mark.weekly\ndef test_slow(): ...\n"
        "@pytest.mark.slow\ndef test_quick(): ...\n"
    )
    slow, quick = "test_x.py::test_slow", "test_x.py::test_quick"
    assert ending(slow, {}, tmp_path) == "passed"
    assert ending(quick, {}, tmp_path) == "did not run"
    assert ending(slow, {"test_x.test_slow": ["failed"]}, tmp_path) == "failed"


def test_the_command_exits_with_1_for_a_fault(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found: dict[str, Admitted] = {}
    monkeypatch.setattr(evidence, "admitted", lambda: found)
    monkeypatch.setattr(evidence, "core", dict)
    monkeypatch.setattr(evidence, "rounds", dict)
    assert evidence.main([str(tmp_path)]) == 0
    found["specimen"] = specimen()
    assert evidence.main([str(tmp_path)]) == 1
    assert "holds no report: run `make evidence" in capsys.readouterr().out
    report(tmp_path, case(NAME))
    assert evidence.main([str(tmp_path)]) == 0
    report(tmp_path, case(NAME, "<failure/>"))
    assert evidence.main([str(tmp_path)]) == 1
    assert f"specimen: {TEST} failed\n1 questions" in capsys.readouterr().out
    (tmp_path / "code.xml").write_text("<")
    assert evidence.main([str(tmp_path)]) == 1
    assert "code.xml: " in capsys.readouterr().out
