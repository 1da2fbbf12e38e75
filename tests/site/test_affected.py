"""`make check` runs the tests of what has changed, and names what it leaves."""

import subprocess
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from lockstep.site.pages.snippets import Include
from lockstep.site.verify import affected
from tests.conftest import ROOT, daily

from .conftest import Project, include


def of(*paths: str, budget: float = 1e9) -> affected.Affected:
    return affected.affected(ROOT, paths, budget)


@pytest.mark.parametrize(
    ("path", "test"),
    [
        (
            "code/lockstep/bio/distributed_top_k.py",
            "tests/bio/test_distributed_top_k.py",
        ),
        (
            "code/lockstep/trainer/extensions/writers/dcp.py",
            "tests/trainer/test_writers.py",
        ),
        (
            "tests/bio/test_distributed_top_k.py",
            "tests/bio/test_distributed_top_k.py",
        ),
        ("tests/interview_cut.py", "tests/test_interview.py"),
        (
            "code/lockstep/labs/lab_b1_split/wrong.py",
            "tests/labs/test_labs.py -k b1",
        ),
        (
            "code/lockstep/debugging/bugs/bug_07.py",
            "tests/debugging/bugs/test_bugs.py -k 07",
        ),
        (
            "code/lockstep/practice/traps/significance-of-five-seeds.yml",
            "tests/practice/test_bank.py -k significance-of-five-seeds",
        ),
        ("Makefile", "tests/test_setup.py"),
    ],
)
def test_a_change_asks_for_the_tests_of_it(path: str, test: str) -> None:
    assert test in of(path).tests


def test_a_page_asks_for_its_blocks() -> None:
    found = of("docs/concepts/numerics.md")
    assert (found.tests, found.blocks) == ([], ["docs/concepts/numerics.md"])


def test_a_module_asks_for_the_blocks_that_show_it() -> None:
    [block] = of("code/lockstep/bio/distributed_top_k.py").blocks
    page, _, line = block.partition("::line ")
    shown = (ROOT / page).read_text("utf-8").splitlines()[int(line) :]
    assert "code/lockstep/bio/distributed_top_k.py:" in "\n".join(shown[:3])


def test_what_is_deleted_asks_for_nothing() -> None:
    assert of("code/lockstep/bio/gone.py") == affected.Affected()


def test_what_takes_too_long_is_left_and_the_nearest_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = "code/lockstep/trainer/order.py"
    monkeypatch.setattr(affected, "durations", lambda root: Counter())
    whole, some = of(path), of(path, budget=11)
    assert some.tests == whole.tests[: len(some.tests)]
    assert some.tests[0] == "tests/trainer/test_order.py"
    assert some.left == whole.tests[len(some.tests) :] != []


def test_how_long_a_test_takes_is_read_from_the_last_report(
    tmp_path: Path,
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_one.py").touch()
    report = tmp_path / affected.REPORTS / "code.xml"
    report.parent.mkdir(parents=True)
    report.write_text(
        '<t><testcase classname="tests.test_one" time="1.5"/>'
        '<testcase classname="tests.test_one.TestIt" time="2"/></t>'
    )
    assert affected.durations(tmp_path) == {"tests/test_one.py": 3.5}


def git_in(folder: Path, *words: str) -> None:
    names = "-c", "user.name=a", "-c", "user.email=a@b.c"
    subprocess.run(["git", *names, *words], cwd=folder, check=True)


def test_new_and_edited_files_have_changed(tmp_path: Path) -> None:
    git = partial(git_in, tmp_path)
    git("init", "--quiet", "--initial-branch=main")
    for name in "ab":
        (tmp_path / name).touch()
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    (tmp_path / "a").write_text("edited")
    (tmp_path / "new").touch()
    assert affected.changed(tmp_path) == ["a", "new"]
    git("switch", "--quiet", "--create", "branch")
    git("commit", "--quiet", "--all", "--message", "second")
    assert affected.changed(tmp_path) == ["a", "new"]


def test_the_command_fails_when_a_test_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []

    def run(call: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        calls.append(call)
        return subprocess.CompletedProcess(call, len(calls) - 1)

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(affected.subprocess, "run", run)
    monkeypatch.setattr(affected, "changed_includes", lambda *_: set())
    assert affected.main(["code/lockstep/bio/distributed_top_k.py"]) == 1
    assert [call[-1].partition("::")[0] for call in calls] == [
        "tests/bio/test_distributed_top_k.py",
        "docs/biotech/wet-lab-loop.md",
    ]
    assert "tests/bio/test_distributed_top_k.py" in capsys.readouterr().out


PART = """\
# --8<-- [start:part]
def part(x):
    if x:
        return 1
    return 2
# --8<-- [end:part]
"""
COVERAGE = """\
[tool.coverage.run]
source = ["code"]
parallel = true
patch = ["subprocess"]
data_file = ".cache/coverage/data"
[tool.coverage.json]
output = ".cache/coverage/report.json"
"""


@pytest.fixture
def showing(project: Project) -> Project:
    """A page that shows a function, with a test of one of its two ways."""
    project.write("code/mine.py", PART)
    project.write("pyproject.toml", COVERAGE)
    project.write("pytest.ini", "[pytest]\npythonpath = code\n")
    project.write(
        "tests/test_mine.py",
        "import mine\ndef test_one(): assert mine.part(1) == 1\n"
        "def test_two(): assert mine.part(0) == 2\n",
    )
    project.write("tests/covering.txt", "tests/test_mine.py::test_one\n")
    project.page(include("code/mine.py:part"))
    return project


@pytest.mark.parametrize(
    "path", daily(["code/mine.py", "docs/index.md"], "docs/index.md")
)
def test_a_shown_line_that_no_covering_test_runs_is_named(
    showing: Project, path: str
) -> None:
    """Though a test that is not under coverage runs it: the code or the page
    that shows it has changed."""
    asked = affected.changed_includes(showing.root, [path])
    [problem] = affected.unrun_lines(showing.root, asked)
    assert problem == (
        "docs/index.md: code/mine.py:part shows lines that no test ran: 5"
    )


def test_a_shown_line_is_run_by_a_covering_test_that_is_far(
    showing: Project,
) -> None:
    """What the tests that import the module leave out, others may run."""
    showing.write(
        "tests/test_far.py",
        "from importlib import import_module\n"
        "def test_it(): assert import_module('mine').part(0) == 2\n",
    )
    near = (showing.root / affected.COVERING).read_text()
    showing.write(affected.COVERING, f"tests/test_far.py::test_it\n{near}")
    asked = affected.changed_includes(showing.root, ["code/mine.py"])
    assert affected.unrun_lines(showing.root, asked) == []


def test_what_a_page_has_shown_before_is_not_measured_again(
    showing: Project,
) -> None:
    git_in(showing.root, "init", "--quiet", "--initial-branch=main")
    git_in(showing.root, "add", ".")
    git_in(showing.root, "commit", "--quiet", "--message", "first")
    page = showing.root / "docs/index.md"
    showing.page("Other words.", include("code/mine.py:part"))
    asked = affected.changed_includes(showing.root, ["docs/index.md"])
    assert asked == set()
    showing.page(include("code/mine.py"))
    asked = affected.changed_includes(showing.root, ["docs/index.md"])
    assert asked == {(page, Include("code/mine.py"))}
