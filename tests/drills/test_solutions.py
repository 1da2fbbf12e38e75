"""Every drill's solution: graded, and as the program that it is."""

import json
import subprocess
from pathlib import Path

import pytest

from lockstep.drills import Drill, drills
from tests.conftest import daily

pytestmark = pytest.mark.timeout(300)
SECONDS = 60  # a criterion takes one, where nothing else runs
DRILLS = list(drills().values())


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill.name)
def test_the_solution_gets_full_marks(drill: Drill) -> None:
    report = drill.graded(drill.solution, seconds=SECONDS)
    assert [c for c in report.criteria if c.status != "passed"] == []
    assert report.full == 100
    assert drill.change in {c.name for c in report.criteria}


@pytest.mark.parametrize(
    "drill", daily(DRILLS, *DRILLS[::2]), ids=lambda drill: drill.name
)
def test_a_solution_in_another_style_gets_full_marks(drill: Drill) -> None:
    name = f"alternative_{drill.number}{drill.solution.suffix}"
    report = drill.graded(Path(__file__).with_name(name), seconds=SECONDS)
    assert [c for c in report.criteria if c.status != "passed"] == []
    assert report.score == 100


def run_as_it_is_typed(
    drill: Drill, folder: Path, rate: str, warm: Path
) -> subprocess.CompletedProcess:
    """The solution as a program, on one rank."""
    launcher = ["-m", "torch.distributed.run", "--standalone"]
    if drill.number == "1":
        launcher = []
    settings = {"run-dir": folder, "max-steps": 3, "learning-rate": rate}
    flags = [f"--{name}={value}" for name, value in settings.items()]
    return subprocess.run(
        [warm / "python", *launcher, str(drill.solution), *flags],
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("drill", DRILLS[:3], ids=lambda drill: drill.name)
def test_a_solution_runs_as_a_program(
    drill: Drill, tmp_path: Path, warm: Path
) -> None:
    done = run_as_it_is_typed(drill, tmp_path, "0.01", warm)
    assert json.loads(done.stdout.splitlines()[-1])["step"] == 3


@pytest.mark.parametrize("drill", DRILLS[:2], ids=lambda drill: drill.name)
def test_a_solution_ends_when_gradients_are_not_finite(
    drill: Drill, tmp_path: Path, warm: Path
) -> None:
    done = run_as_it_is_typed(drill, tmp_path, "inf", warm)
    assert done.returncode
    assert "FloatingPointError: gradient norm nan" in done.stderr
