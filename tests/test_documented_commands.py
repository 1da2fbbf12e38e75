"""Somebody runs each command that README.md and CONTRIBUTING.md tell."""

from __future__ import annotations

import re

import pytest

from tests import documented_commands
from tests.documented_commands import (
    PAGES,
    commands,
    filled,
    of_the_door,
    target,
)
from tests.makefile import rules

MADE = documented_commands.made_in_ci()


def test_commands_are_read_as_they_are_printed() -> None:
    readme, contributing = map(commands, PAGES)
    assert readme[:2] == ["make serve", "make test"]
    run = "torchrun --standalone --nproc-per-node=2 -m lockstep.trainer"
    assert f"{run} --run-dir runs/demo --stop-at-step 100" in readme
    assert "lockstep audit runs/demo" in readme
    assert ". .venv/bin/activate" in readme
    assert any(x.startswith("REPO_URL=") for x in readme)
    assert "make install" in contributing
    assert "constraints.txt" not in readme


@pytest.mark.parametrize("page", PAGES)
def test_ci_makes_every_target_that_is_told(page: str) -> None:
    told = [name for x in commands(page) if (name := target(x))]
    assert told
    nobody = [f"make {name}" for name in told if name not in MADE]
    assert not nobody, f"{page} tells of what no stage and no workflow runs"


def test_what_ci_makes_is_there() -> None:
    assert MADE.keys() <= rules().keys()
    assert MADE["serve"] == MADE["door"] == "stage door of .ci/run"
    assert MADE["test"].startswith("stage test ")


def test_the_door_can_run_all_other_commands() -> None:
    """No place is left open that it would not know how to fill."""
    for command in of_the_door():
        words = re.sub(r"https?://\S+|\b[A-Z_]+=", "", filled(command))
        assert not re.search(r"\b[A-Z]{2,}\b", words), command
