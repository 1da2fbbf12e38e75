"""README's and CONTRIBUTING's commands, as printed, where nothing else was run.

A newcomer follows README from its top: `make install`, then each command in the
order of the page. `tests/test_documented_commands.py` says who runs the others.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import daily
from tests.documented_commands import filled, of_the_door
from tests.door.newcomer import Newcomer

pytestmark = pytest.mark.xdist_group("documented")

ACTIVATE = ". .venv/bin/activate"


@pytest.fixture(scope="module")
def installed(newcomer: Newcomer, clone: Path) -> Path:
    """A clone in which the first command has been run."""
    said = newcomer.must("make install", clone)
    assert "Installing torch" in said
    return clone


def test_everything_is_installed_from_nothing(
    newcomer: Newcomer, installed: Path
) -> None:
    torch = f"{ACTIVATE} && python -c 'import torch; print(torch.__version__)'"
    assert newcomer.must(torch, installed)
    assert (installed / "node_modules" / "axe-core").is_dir()
    changed = newcomer.must("git status --porcelain", installed)
    assert changed == "", "what is made is not ignored"


# `make install` is asked above and the site in test_site, so `make site` with
# another address and a whole exam run every week.
LONG = "make site", "lockstep exam"
COMMANDS = of_the_door()
SHORT = [one for one in COMMANDS if not any(part in one for part in LONG)]


@pytest.mark.parametrize("command", daily(COMMANDS, *SHORT))
def test_a_command_ends_well_as_printed(
    newcomer: Newcomer, installed: Path, command: str
) -> None:
    line = filled(command)
    if command != ACTIVATE and not command.endswith(("make", "make site")):
        line = f"{ACTIVATE} && {line}"
    said = newcomer.must(line, installed)
    assert "Traceback" not in said
