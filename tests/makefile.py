"""The Makefile, to be read and to be run by tests."""

from __future__ import annotations

import os
import re
import subprocess
from typing import NamedTuple

from tests.conftest import ROOT

_RULE = re.compile(r"^([a-z][\w-]*):(?!=)([^\n#]*).*\n((?:\t.*\n)*)", re.M)


class Rule(NamedTuple):
    """What a target needs, and how it is made."""

    needs: list[str]
    recipe: str


def rules() -> dict[str, Rule]:
    """The targets that are named for what they do; none that is a file."""
    text = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    found = _RULE.findall(text)
    return {name: Rule(needs.split(), recipe) for name, needs, recipe in found}


def make(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run make in a world without our own make around it."""
    world = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        env=world | environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
