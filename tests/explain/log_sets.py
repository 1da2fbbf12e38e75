"""The log sets in tests/data/explain_logs, and whether a verdict is right."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lockstep.explain import catalog, reading
from lockstep.explain.patterns import Index
from lockstep.explain.together import explained

FOLDER = Path(__file__).parents[1] / "data" / "explain_logs"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/expected.yml"))
ASIDE = (FOLDER / "set-aside.txt").read_text("utf-8").split()


@cache
def expected(name: str) -> dict[str, Any]:
    """Return what is expected of a set: `known`, `says`, `rank`, `node`."""
    return yaml.safe_load((FOLDER / name / "expected.yml").read_text("utf-8"))


def verdict(name: str, index: Index | None = None) -> dict[str, Any]:
    """Return the verdict on a set."""
    files = reading.found([str(FOLDER / name / "logs")])
    return explained(files, index or catalog.index())


def wrong(name: str, found: dict[str, Any]) -> list[str]:
    """Return how a verdict differs from what is expected."""
    right = expected(name)
    faults = []
    if found["known"] != right["known"]:
        faults.append(f"known is {found['known']}")
    shown = [found["text"], found["title"]]
    shown += [one["text"] for one in found["evidence"]]
    if not right["known"]:
        shown += [one["first"]["text"] for one in found["echoes"]]
    says = " ".join(right["says"].split())
    if says and not any(says in text for text in shown):
        faults.append(f"{says!r} isn't what it names, but {found['text']!r}")
    if found["rank"] != right["rank"]:
        faults.append(f"rank is {found['rank']}, not {right['rank']}")
    if right["node"] and found["node"] != right["node"]:
        faults.append(f"node is {found['node']!r}, not {right['node']!r}")
    return faults
