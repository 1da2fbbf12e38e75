"""Entries of the messages' data files, and whether a real text matches one."""

import functools
import re
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "code/lockstep/explain/messages"
KINDS = {"int": r"-?\d+", "word": r"\S+", "text": r".*?"}
# Literal text, then perhaps a field: its name and its kind.
PIECE = re.compile(r"([^{]*)(?:\{(\w+)(?::(\w+))?\})?")


@functools.cache
def entries() -> dict[str, dict[str, Any]]:
    """Return all entries by id."""
    found = {}
    for path in FOLDER.glob("*.yml"):
        for entry in yaml.safe_load(path.read_text()):
            found[entry["id"]] = entry
    return found


def matches(pattern: str, text: str) -> bool:
    """Return whether a line of the text contains what the pattern describes."""
    regex = ""
    for literal, name, kind in PIECE.findall(pattern):
        regex += re.escape(literal) + (KINDS[kind or "text"] if name else "")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return any(re.search(regex, line) for line in lines)
