"""One newcomer for each file of tests, in a folder that goes with them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.door.newcomer import Newcomer


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    """Somebody who begins with nothing of ours."""
    folder = tmp_path_factory.mktemp("door")
    yield Newcomer(folder)
    shutil.rmtree(folder)  # an environment with torch is large


@pytest.fixture(scope="module")
def clone(newcomer: Newcomer) -> Path:
    """A new clone of what is committed."""
    return newcomer.clone()
