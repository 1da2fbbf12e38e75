"""One newcomer for each file of tests, in a folder that goes with them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.door.newcomer import Newcomer


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    """Somebody who begins with nothing of ours."""
    folder = tmp_path_factory.mktemp("door")
    yield Newcomer(folder)
    # An environment with torch is large; Python would take a minute for it.
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture(scope="module")
def clone(newcomer: Newcomer) -> Path:
    """A new clone of what is committed."""
    return newcomer.clone()
