"""A statement that a page shows and no test ran is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from lockstep.site.verify.shown_lines import GPU_RECORD, main, record, unrun

from .conftest import Project, include

PATH = "code/lockstep/shown.py"
SOURCE = """\
def always() -> int:
    return 1


# --8<-- [start:branch]
def branch(cuda: bool) -> int:
    if cuda:
        a = 2  # gpu
        return a  # gpu
    return 3
# --8<-- [end:branch]


def never() -> int:
    a = 4
    return a
"""
RAN = [1, 2, 6, 7, 10, 14]
ABOUT = {"revision": "abc", "date": "2026-11-21", "hardware": "a GPU"}


@pytest.fixture
def shown(project: Project) -> Project:
    project.write(PATH, SOURCE)
    project.page(include(f"{PATH}:branch"))
    return project


def coverage(
    project: Project,
    ran: list[int],
    missing: list[int],
    excluded: list[int] | None = None,
    name: str = PATH,
) -> Path:
    lines = {
        "executed_lines": ran,
        "missing_lines": missing,
        "excluded_lines": excluded or [],
    }
    text = json.dumps({"files": {name: lines}})
    return project.write("coverage.json", text)


def faults(project: Project, report: Path) -> list[str]:
    return list(unrun(project.root, report, project.root / "gpu.json"))


def test_lines_that_ran_pass(shown: Project) -> None:
    assert faults(shown, coverage(shown, [*RAN, 8, 9], [15, 16])) == []


def test_lines_that_did_not_run_are_named(shown: Project) -> None:
    report = coverage(shown, [1, 2, 6, 7, 9], [8, 10, 15, 16])
    [fault] = faults(shown, report)
    assert fault == (
        f"docs/index.md: {PATH}:branch shows lines that no test ran: 8, 10"
    )


def test_whole_file_shows_all_its_lines(shown: Project) -> None:
    shown.page(include(PATH))
    report = coverage(shown, [*RAN, 8, 9], [15, 16])
    [fault] = faults(shown, report)
    assert fault.endswith("no test ran: 15-16")


def test_lines_left_out_of_coverage_have_not_run(shown: Project) -> None:
    report = coverage(shown, [6, 7, 8, 9], [], excluded=[10])
    [fault] = faults(shown, report)
    assert fault.endswith("no test ran: 10")


def test_file_in_no_report_is_named(shown: Project) -> None:
    report = coverage(shown, RAN, [], name="code/lockstep/other.py")
    [fault] = faults(shown, report)
    assert fault.endswith("is in no coverage report")


def test_absolute_names_in_a_report_are_the_same_files(shown: Project) -> None:
    name = str(shown.root / PATH)
    assert faults(shown, coverage(shown, [*RAN, 8, 9], [], name=name)) == []


def record_on_gpu(project: Project, ran: list[int]) -> None:
    report = coverage(project, ran, [])
    record(project.root, report, project.root / "gpu.json", ABOUT)


def test_recorded_gpu_lines_count(shown: Project) -> None:
    cpu = (RAN, [8, 9, 15, 16])
    [fault] = faults(shown, coverage(shown, *cpu))
    assert fault.endswith("no test ran: 8-9")
    record_on_gpu(shown, [*RAN, 8, 9])
    assert faults(shown, coverage(shown, *cpu)) == []
    record_on_gpu(shown, [*RAN, 8])
    [fault] = faults(shown, coverage(shown, *cpu))
    assert fault.endswith("no test ran: 9")


def test_edited_gpu_line_no_longer_counts(shown: Project) -> None:
    record_on_gpu(shown, [*RAN, 8, 9])
    shown.write(PATH, SOURCE.replace("a = 2  #", "a = 5  #"))
    [fault] = faults(shown, coverage(shown, RAN, [8, 9]))
    assert fault.endswith("no test ran: 8")


def test_gpu_line_counts_as_often_as_it_ran(shown: Project) -> None:
    record_on_gpu(shown, [*RAN, 8, 9])
    twice = "        a = 2  # gpu\n"
    shown.write(PATH, SOURCE.replace(twice, twice * 2))
    [fault] = faults(shown, coverage(shown, [6, 7, 11], [8, 9, 10]))
    assert fault.endswith("no test ran: 8-9")


def test_unmarked_line_never_counts_by_the_record(shown: Project) -> None:
    record_on_gpu(shown, [*RAN, 8, 9])
    [fault] = faults(shown, coverage(shown, [6, 7], [8, 9, 10]))
    assert fault.endswith("no test ran: 10")


def test_record_says_where_it_comes_from(shown: Project) -> None:
    record_on_gpu(shown, [*RAN, 8, 9])
    written = json.loads((shown.root / "gpu.json").read_text())
    assert written == ABOUT | {
        "lines": {PATH: ["a = 2  # gpu", "return a  # gpu"]}
    }


def test_command_records_what_ran_on_a_gpu(
    shown: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shown.root)
    shown.write("tests/test_shown.py", "")
    report = str(coverage(shown, [*RAN, 8, 9], []))
    about = ["--hardware", "a GPU", "--revision", "abc"]
    assert main([report, "--record", *about]) == 0
    written = json.loads(shown.root.joinpath(GPU_RECORD).read_text())
    assert written["hardware"] == "a GPU"
    assert written["revision"] == "abc"
    assert written["torch"] == torch.__version__
    assert main([str(coverage(shown, RAN, [8, 9]))]) == 0


def test_nothing_is_recorded_where_no_gpu_line_ran(shown: Project) -> None:
    with pytest.raises(ValueError, match="ran here"):
        record_on_gpu(shown, RAN)
    assert not (shown.root / "gpu.json").exists()


def test_command_fails_and_names_the_lines(
    shown: Project,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(shown.root)
    report = coverage(shown, RAN, [8, 9])
    assert main([str(report)]) == 1
    assert f"docs/index.md: {PATH}:branch" in capsys.readouterr().out
    assert main([str(coverage(shown, [*RAN, 8, 9], []))]) == 0
    with pytest.raises(SystemExit):
        main(["absent.json"])
    assert "run `coverage json`" in capsys.readouterr().err
