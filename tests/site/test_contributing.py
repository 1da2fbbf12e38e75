"""What CONTRIBUTING.md tells a newcomer to use is there."""

import re
from importlib.util import find_spec

import pytest

from .conftest import ROOT

SPOKEN = re.findall(r"`([^`]+)`", (ROOT / "CONTRIBUTING.md").read_text("utf-8"))
SPOKEN = [" ".join(words.split()) for words in SPOKEN]
PLACE = re.compile(r"NAME|PART|MODULE|NN|ID|QUESTION|ROUND")  # to be filled in
PATHS = {
    word
    for spoken in SPOKEN
    for word in re.findall(r"[\w.-]+(?:/[\w.-]+)+/?|\w+\.(?:yml|md)", spoken)
    if not spoken.startswith(("--8<--", "."))
}
TARGETS = {target for s in SPOKEN for target in re.findall(r"^make (\S+)", s)}
MODULES = {module for s in SPOKEN for module in re.findall(r"-m (\S+)", s)}


def test_it_names_what_is_checked_here() -> None:
    assert len(PATHS) > 12
    assert {"test", "lint"} < TARGETS
    assert len(MODULES) == 3


@pytest.mark.parametrize("path", sorted(PATHS))
def test_a_path_is_there(path: str) -> None:
    while PLACE.search(path):
        path = path.rpartition("/")[0]
    assert (ROOT / path).exists()


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_make_has_the_target(target: str) -> None:
    assert f"\n.PHONY: {target}\n" in (ROOT / "Makefile").read_text("utf-8")


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_is_there(module: str) -> None:
    assert find_spec(module)
