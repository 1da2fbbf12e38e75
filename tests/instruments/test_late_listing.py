"""Listings that lag: each way to list a folder leaves an entry out."""

import os
from collections.abc import Callable
from glob import glob
from pathlib import Path

import pytest

from lockstep.instruments.late_listing import listed_late

WAYS: dict[str, Callable[[Path], list[str]]] = {
    "scandir": lambda path: [entry.name for entry in os.scandir(path)],
    "listdir": lambda path: os.listdir(path),  # noqa: PTH208
    "iterdir": lambda path: [one.name for one in path.iterdir()],
    "Path.glob": lambda path: [one.name for one in path.glob("step-*")],
    "glob": lambda path: glob("step-*", root_dir=path),  # noqa: PTH207
    "walk": lambda path: next(os.walk(path))[1],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_late_entry_is_in_no_listing_until_the_end(
    way: str, tmp_path: Path
) -> None:
    for name in "step-1", "step-2":
        (tmp_path / name).mkdir()
    with listed_late(lambda name: name == "step-2"):
        assert WAYS[way](tmp_path) == ["step-1"]
        assert (tmp_path / "step-2").exists()
    assert sorted(WAYS[way](tmp_path)) == ["step-1", "step-2"]
