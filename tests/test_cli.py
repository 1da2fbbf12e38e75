"""The command as a shell meets it: pipes, Ctrl-C, folders, full disks."""

import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.cli import main
from lockstep.debugging.bugs import Bug
from lockstep.drills import Drill
from lockstep.grading.criteria import CannotGradeError
from lockstep.labs import Lab


@pytest.mark.parametrize(
    ("kind", "start", "grade", "file"),
    [
        (Lab, "lab start 01 X", "lab grade 01 X", "lab_01_collectives.py"),
        (Bug, "bug start 06 X", "bug check 06 X/bug_06", "answer.py"),
        (Drill, "drill start 1 X", "drill check 1 X", "drill_1.py"),
    ],
)
def test_a_folder_stands_for_the_file_that_start_wrote_there(
    kind: type,
    start: str,
    grade: str,
    file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """So does `.`, from within it."""

    def graded(_: object, path: Path, **__: object) -> None:
        assert path.is_file()
        raise CannotGradeError(path.name)

    monkeypatch.setattr(kind, "graded", graded)
    monkeypatch.chdir(tmp_path)
    assert main(start.split()) == 0
    capsys.readouterr()
    *command, folder = grade.split()
    assert main([*command, folder]) == 2
    assert capsys.readouterr().err == f"error: {file}\n"
    monkeypatch.chdir(tmp_path / folder)
    assert main([*command, "."]) == 2
    assert capsys.readouterr().err == f"error: {file}\n"


@pytest.mark.parametrize("command", ["lab start 01", "bug start 06"])
def test_a_folder_that_cannot_be_written_is_one_line(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "/proc/nowhere"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("error: /proc/nowhere")


def test_ctrl_c_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Lab, "graded", interrupted)
    assert main(["lab", "grade", "01", __file__]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize("command", ["--help", "plan run --help", "lab list"])
def test_a_reader_that_closes_the_pipe_gets_no_traceback(command: str) -> None:
    lockstep = f"{sys.executable} -m lockstep.cli {command}"
    done = subprocess.run(
        f"{lockstep} | head --bytes 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
