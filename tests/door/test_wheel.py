"""What `pip install` brings does what its commands say, with no checkout."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.door.newcomer import Newcomer

pytestmark = pytest.mark.xdist_group("wheel")

TRAINER = "torchrun --standalone --nproc-per-node=2 -m lockstep.trainer"


@pytest.fixture(scope="module")
def built(newcomer: Newcomer, clone: Path) -> tuple[Path, str]:
    """The folder with what is published, and what was said in building it."""
    folder = newcomer.folder / "dist"
    build = [sys.executable, "-m", "build", "--outdir", folder, clone]
    done = subprocess.run(
        build,
        env=newcomer.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return folder, done.stdout


class Away:
    """A folder outside of any checkout, and the environment to work in it."""

    def __init__(self, newcomer: Newcomer) -> None:
        self.newcomer = newcomer
        self.folder = newcomer.folder / "away"
        self.folder.mkdir()
        self.bin = newcomer.folder / "installed" / "bin"
        self.path = f"{self.bin}:{newcomer.environ['PATH']}"

    def run(self, command: str, said: str = "", code: int = 0) -> str:
        """What a command says, that ends with this code."""
        done = self.newcomer.run(command, self.folder, said, PATH=self.path)
        assert done.returncode == code, f"{command}\n{done.stdout}"
        assert "Traceback" not in done.stdout
        return str(done.stdout)


@pytest.fixture(scope="module")
def away(newcomer: Newcomer, clone: Path, built: tuple[Path, str]) -> Away:
    """With the wheel and what it needs: torch first, then all of it pinned."""
    [wheel] = built[0].glob("*.whl")
    found = Away(newcomer)
    pins = (clone / "constraints.txt").read_text("utf-8")
    torch = newcomer.environ.get(
        "TORCH", re.findall("^torch==[^ ]+", pins, re.M)[0]
    )
    constraints = newcomer.folder / "constraints.txt"
    # Without digests: a wheel that was just built has none.
    pins = re.sub("(?m)^torch==.+", torch, pins)
    constraints.write_text(re.sub(" --hash=.+", "", pins))
    python = newcomer.environ.get("PYTHON", "python")
    pip = f"{found.bin}/python -m pip install --no-compile"
    pip += f" --constraint {constraints}"
    for command in (
        f"{python} -m venv {found.bin.parent}",
        f"{pip} '{torch}'",
        f"{pip} '{wheel}[cards,train]'",
    ):
        newcomer.must(command, found.folder)
    return found


def test_readmes_first_line_installs_the_planner_and_no_torch(
    newcomer: Newcomer, clone: Path
) -> None:
    """And an extra can be added where the package is, as the command says."""
    readme = (clone / "README.md").read_text("utf-8")
    lines = re.findall(r"^(pip install \S+)", readme, re.M)
    python = newcomer.environ.get("PYTHON", "python")
    folder = newcomer.folder / "light"
    newcomer.must(f"{python} -m venv {folder}", clone)
    path = f"{folder}/bin:{newcomer.environ['PATH']}"
    newcomer.must(lines[0], clone, PATH=path)
    said = newcomer.must(
        "lockstep plan memory --params 7.5e9", folder, PATH=path
    )
    assert re.search(r"total bytes +120 GB", said)
    assert "torch" not in newcomer.must("pip list", folder, PATH=path)
    done = newcomer.run("lockstep export anki deck.txt", folder, PATH=path)
    [line] = done.stdout.splitlines()
    newcomer.must(line[line.index("pip install") :], folder, PATH=path)
    newcomer.must("lockstep export anki deck.txt", folder, PATH=path)
    assert "torch" not in newcomer.must("pip list", folder, PATH=path)


def test_it_is_built_without_a_warning(built: tuple[Path, str]) -> None:
    folder, said = built
    assert sorted(path.suffix for path in folder.iterdir()) == [".gz", ".whl"]
    assert not re.findall(r"(?i)^.*(?:warn|deprecat|absent).*$", said, re.M)


def test_the_installed_package_is_the_one_that_runs(away: Away) -> None:
    where = away.run("python -c 'import lockstep; print(lockstep.__file__)'")
    assert Path(where.strip()).is_relative_to(away.bin.parent)


def test_the_trainer_stops_and_resumes_on_two_ranks(away: Away) -> None:
    away.run(f"{TRAINER} --run-dir runs/demo --max-epochs 1 --stop-at-step 10")
    assert re.search(r"steps +10 ", away.run("lockstep audit runs/demo"))
    away.run(f"{TRAINER} --run-dir runs/demo --max-epochs 1")
    said = away.run("lockstep audit runs/demo")
    assert "runs/demo: proven" in said
    assert re.search(r"epochs +1 .*restarts +1 ", said, re.S)


def test_it_plans(away: Away) -> None:
    said = away.run("lockstep plan memory --params 7.5e9")
    assert re.search(r"total bytes +120 GB", said)


def test_a_lab_is_graded(away: Away) -> None:
    starter = away.run("lockstep lab start 1 mine").strip()
    assert "0 of 100" in away.run(f"lockstep lab grade 1 {starter}", code=1)
    solution = away.run("lockstep lab solution 1 mine").strip()
    assert "100 of 100" in away.run(f"lockstep lab grade 1 {solution}")


def test_a_drill_is_graded(away: Away) -> None:
    assert "happy path" in away.run("lockstep drill list")
    *_, start = away.run("lockstep drill start 1 mine").split()
    said = away.run(f"lockstep drill check 1 {start}", code=1)
    assert "not attempted" in said


@pytest.mark.weekly  # as a drill is, above
def test_a_bug_is_graded(away: Away) -> None:
    assert "01" in away.run("lockstep bug list")
    start = away.run("lockstep bug start 1 mine").split()[-1]
    assert "of 100" in away.run(f"lockstep bug check 1 {start}", code=1)
    solution = away.run("lockstep bug solution 1 solved").split()[-1]
    assert "100 of 100" in away.run(f"lockstep bug check 1 {solution}")


def test_all_cards_are_there(away: Away, clone: Path) -> None:
    """Questions and first moves; estimates are no part of a deck."""
    said = away.run("lockstep quiz --count 1 --seed 1", said="\n3\n")
    assert "1 answered; kept in" in said
    practice = clone / "code" / "lockstep" / "practice"
    questions = [
        *practice.glob("core_questions/*.yml"),
        *practice.glob("traps/*.yml"),
    ]
    moves = (clone / "docs/practice/mock-prompts.md").read_text("utf-8")
    many = len(questions) + moves.count("??? question")
    deck = away.run("lockstep export anki deck.txt")
    assert f"{many} cards in deck.txt" in deck
    assert (away.folder / "deck.txt").stat().st_size > 10_000
