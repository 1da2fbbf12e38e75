"""Which installed packages a dependency group brings, and which it does not."""

from __future__ import annotations

import tomllib
from importlib.metadata import (
    PackageNotFoundError,
    packages_distributions,
    requires,
)

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
GROUPS: dict[str, list[str]] = PROJECT["dependency-groups"]
# What a plain `pip install` brings is a group as well, without a name.
EXTRAS: dict[str, list[str]] = {
    "": PROJECT["project"]["dependencies"],
    **PROJECT["project"]["optional-dependencies"],
}
# What Python imports first in every process. A module that is hidden cannot be
# told from one that is not installed, by `find_spec` either.
_CUSTOMIZE = """\
import sys
from importlib.machinery import PathFinder


class Inside(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in {hidden}:
            return None
        return super().find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Inside
"""


def brought(group: str) -> set[str]:
    """What a group or an extra installs here, directly or because that needs
    it."""
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    waiting = [Requirement(text) for text in (GROUPS | EXTRAS)[group]]
    while waiting:
        asked = waiting.pop()
        name = canonicalize_name(asked.name)
        found.add(name)
        for extra in {"", *asked.extras}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            waiting += [
                r
                for r in _needed(name)
                if r.marker is None or r.marker.evaluate({"extra": extra})
            ]
    return found


def _needed(name: str) -> list[Requirement]:
    """What an installed package asks for; some are for other systems."""
    try:
        return [Requirement(text) for text in requires(name) or []]
    except PackageNotFoundError:
        return []


def hiding_all_but(*groups: str) -> str:
    """A `sitecustomize.py` that hides what no group or extra brings.

    The standard library stays, and so does `lockstep`.
    """
    inside = set().union(*map(brought, groups))
    hidden = {
        module
        for module, homes in packages_distributions().items()
        if not inside & {canonicalize_name(home) for home in homes}
    }
    return _CUSTOMIZE.format(hidden=sorted(hidden - {"lockstep"}))
