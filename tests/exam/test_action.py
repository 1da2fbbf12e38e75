"""The GitHub Action's script: what the job does with the exam's exit code."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT

ACTION = yaml.safe_load((ROOT / ".github/actions/exam/action.yml").read_text())
(SCRIPT,) = (
    step["run"]
    for step in ACTION["runs"]["steps"]
    if "lockstep exam" in step.get("run", "")
)
EXAM = """\
#!/bin/bash
echo "Exit code $CODE: so"
echo "$@" > "$ARGUMENTS"
exit $CODE
"""


def ran(
    folder: Path, code: int, **inputs: str
) -> subprocess.CompletedProcess[str]:
    """The script's end, where the exam ends with `code`."""
    (folder / "lockstep").write_text(EXAM)
    (folder / "lockstep").chmod(0o755)
    defaults = {
        name.upper(): told.get("default", "a.py")
        for name, told in ACTION["inputs"].items()
    }
    environ = os.environ | defaults | inputs | {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "CODE": str(code),
        "ARGUMENTS": str(folder / "arguments"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
    }  # fmt: skip
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", SCRIPT],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("code", "unanswered", "ends", "warns"),
    [
        (0, "warn", 0, False),
        (1, "warn", 1, False),
        (2, "warn", 2, False),
        (3, "warn", 0, True),
        (3, "fail", 3, False),
        (1, "fail", 1, False),
        (143, "warn", 143, False),
    ],
)
def test_unanswered_question_warns_or_fails_the_job(
    tmp_path: Path, code: int, unanswered: str, ends: int, warns: bool
) -> None:
    """Exit code 3 becomes a warning annotation by default, and fails the job
    with `unanswered: fail`. Every other code is the job's. The report is kept
    in the job's summary, in a fence."""
    done = ran(tmp_path, code, UNANSWERED=unanswered)
    assert done.returncode == ends, done.stderr
    assert ("::warning title=Resume exam::" in done.stdout) == warns
    summary = (tmp_path / "summary").read_text().splitlines()
    assert summary == ["```", f"Exit code {code}: so", "```"]


def test_an_unknown_value_of_unanswered_is_refused(tmp_path: Path) -> None:
    """The job says which values there are, before the exam begins."""
    done = ran(tmp_path, 0, UNANSWERED="ignore")
    assert done.returncode == 2
    assert "unanswered is fail or warn, not ignore" in done.stdout
    assert not (tmp_path / "arguments").exists()


def test_the_inputs_reach_the_command(tmp_path: Path) -> None:
    """`unanswered` is `warn` unless the workflow says otherwise, and questions
    and the batch are passed on."""
    assert ACTION["inputs"]["unanswered"]["default"] == "warn"
    ran(tmp_path, 0, ONLY="kill order", BATCH="24", ADAPTER="mine.py")
    arguments = (tmp_path / "arguments").read_text()
    assert arguments.startswith("exam mine.py ")
    assert "--only kill order" in arguments
    assert "--batch 24" in arguments
