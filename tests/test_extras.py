"""What a plain `pip install` can do, and what it says of a missing extra."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from lockstep.cli import EXTRAS as WANTED
from lockstep.cli import OPTIONAL
from tests.conftest import ROOT
from tests.dependency_groups import EXTRAS, brought, hiding_all_but

PLANS = [
    ["--help"],
    ["plan", "memory", "--params", "7.5e9"],
    ["plan", "memory", "--params", "7.5e9", "--json"],
    ["plan", "search", "--help"],
]
# What an extra is for; each module of it is imported, but for answers that are
# wrong, and for what wants pytest.
PACKAGES = {
    "train": ["trainer", "pieces", "parallel", "rl", "exercises", "cli"],
    "exam": ["exam"],
    "cards": ["practice.deck", "practice.rounds", "cli"],
    "bio": ["bio"],
    "fleet": ["experiments.fleet"],
    "explain": ["explain"],
}
IMPORT_ALL = """\
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    module = importlib.import_module(f"lockstep.{name}")
    for one in pkgutil.walk_packages(
        getattr(module, "__path__", []), f"lockstep.{name}."
    ):
        parts = one.name.split(".")
        if not {"wrong", "__main__", "pytest_plugin"} & {*parts}:
            importlib.import_module(one.name)
"""
# What needs more than the base, and the extra that has it.
OTHERS = {
    "exam lockstep.examples.plain_loop_exam": "exam",
    "explain answer.py": "explain",
    "export anki deck.txt": "cards",
    "plan fleet --report llama3": "fleet",
    "quiz --kind prompt": "cards",
    "lab grade 1 answer.py": "train",
    "drill check 1 answer.py": "train",
    "bug check 1 answer": "train",
    "audit run": "train",
}


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which Python finds the base's packages and `lockstep`."""
    folder = tmp_path_factory.mktemp("light")
    (folder / "sitecustomize.py").write_text(hiding_all_but(""))
    (folder / "answer.py").touch()
    return folder


def lockstep(
    folder: Path, *args: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    """The command, run there."""
    return subprocess.run(
        [sys.executable, "-m", "lockstep.cli", *args],
        cwd=folder,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_base_brings_no_torch() -> None:
    assert not brought("") & {"torch", "numpy", "pydantic", "scikit-learn"}
    assert "torch" in brought("train") & brought("exam")


@pytest.mark.parametrize("args", PLANS, ids=" ".join)
def test_a_plan_is_the_same_without_torch(light: Path, args: list[str]) -> None:
    """`lockstep plan` prints with the base alone what it prints with all."""
    alone = lockstep(light, *args, PYTHONPATH=str(light))
    assert alone.returncode == 0, alone.stderr
    assert alone.stdout == lockstep(light, *args).stdout


@pytest.mark.parametrize("command", OTHERS)
def test_what_is_missing_is_one_line(light: Path, command: str) -> None:
    """A command that wants an extra names it, and ends with exit code 2."""
    done = lockstep(light, *command.split(), PYTHONPATH=str(light))
    [line] = done.stderr.splitlines()
    said = re.fullmatch(
        r"error: lockstep (\w+) needs (\w+):"
        r" pip install 'lockstep-handbook\[(\w+)\]'",
        line,
    )
    assert said, line
    assert said[1] == command.split()[0]
    assert said[3] == OTHERS[command]
    assert done.returncode == 2


def test_a_missing_package_of_a_readers_own_is_not_ours(light: Path) -> None:
    """An adapter that imports what is not there is told so."""
    (light / "theirs.py").write_text("import no_such_package\n")
    done = lockstep(light, "exam", "theirs.py")
    assert "lockstep-handbook[" not in done.stderr
    assert "no_such_package" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("extra", PACKAGES)
def test_an_extra_brings_what_its_modules_import(
    tmp_path: Path, extra: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(hiding_all_but("", extra))
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *PACKAGES[extra]],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_every_extra_of_a_command_is_declared() -> None:
    named = {"train", *WANTED.values()}
    assert named <= EXTRAS.keys()
    names = {
        Requirement(text).name for extra in named for text in EXTRAS[extra]
    }
    modules = {
        "markdown-it-py": "markdown_it",
        "pyyaml": "yaml",
        "scikit-learn": "sklearn",
    }
    assert {modules.get(name, name) for name in names} == OPTIONAL


def test_readme_tells_what_to_install() -> None:
    """Each extra that README names is there, and one line needs no torch."""
    readme = (ROOT / "README.md").read_text("utf-8")
    assert re.search(r"^pip install \. ", readme, re.M)
    named = re.findall(r"pip install '\.\[([\w,]+)\]'", readme)
    assert named
    assert {one for name in named for one in name.split(",")} <= EXTRAS.keys()
