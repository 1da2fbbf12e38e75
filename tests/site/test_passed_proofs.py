"""A mark whose test did not pass is named."""

from pathlib import Path

import pytest

from lockstep.site.pages import errors
from lockstep.site.verify import passed_proofs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository of one page, whose mark names one test."""
    page = tmp_path / "docs/page.md"
    page.parent.mkdir()
    page.write_text("It holds. [✓ test_it_holds]\n")
    test = tmp_path / "tests/test_it.py"
    test.parent.mkdir()
    test.write_text('def test_it_holds() -> None:\n    """It holds."""\n')
    return tmp_path


@pytest.mark.parametrize(
    ("inside", "code", "said"),
    [
        ("", 0, ""),
        ("<skipped/>", 0, "was skipped"),
        ("<failure/>", 1, "failed"),
        (None, 1, "did not run"),
    ],
)
def test_a_mark_is_checked_against_what_ran(
    inside: str | None,
    code: int,
    said: str,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A page's mark names a test. That it failed or did not run is a fault with
    a line of its own; that it was skipped is told."""
    name = "test_it_holds" if inside is not None else "test_another"
    (root / "report.xml").write_text(
        f'<testsuite><testcase classname="tests.test_it" name="{name}">'
        f"{inside or ''}</testcase></testsuite>"
    )
    monkeypatch.setattr(passed_proofs, "ROOT", root)
    found = dict(
        passed_proofs.unproven(
            [root / "docs/page.md"],
            passed_proofs.outcomes([root / "report.xml"]),
            root,
        )
    )
    line = f"docs/page.md: tests/test_it.py::test_it_holds {said}"
    assert list(found) == ([line] if said else [])
    monkeypatch.setattr(passed_proofs, "unproven", lambda *_: found.items())
    assert passed_proofs.main([str(root)]) == code
    assert said in capsys.readouterr().out


def test_no_report_is_a_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without any report the check says what to run, and fails."""
    assert passed_proofs.main([str(tmp_path)]) == 1
    assert "holds no report" in capsys.readouterr().out


def test_error_message_is_checked_against_what_ran(root: Path) -> None:
    """An error message names a test that raises it. That the test did not run
    is a fault that names the message."""
    test = "tests/test_it.py::test_it_holds"
    given = next(iter(errors.messages().values())).model_dump()
    one = errors.Message.model_validate(given | {"test": test})
    found = passed_proofs.unproven([], {}, root, [one])
    assert dict(found) == {f"{one.id}: {test} did not run": "did not run"}
    ended = {"tests.test_it.test_it_holds": ["passed"]}
    assert not list(passed_proofs.unproven([], ended, root, [one]))
