"""The messages: one YAML file for each group, next to this module.

An entry's fields: `id` names its page; `title` is what people paste;
`patterns` find it (see `lockstep.explain.patterns`); `role` is cause, echo or
either; `layer` is where the fault usually is; `means`, `confirm`, `causes`,
`otherwise` and `see` are what its page says.
"""

from functools import cache
from importlib.util import find_spec
from json import dumps
from pathlib import Path

from lockstep.explain.patterns import Index

FOLDER = Path(__file__).with_name("messages")
# What the matcher and the verdict need; the rest is for the pages.
SHIPPED = (
    "id", "title", "patterns", "role", "layer", "means", "confirm", "causes",
    "otherwise", "see",
)  # fmt: skip


def parsed(text: str) -> list[dict]:
    """Return the entries of a group's file."""
    import yaml

    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, fast) or []


def load(folder: Path = FOLDER) -> list[dict]:
    """Return the entries of all groups, by group and place in its file."""
    return [
        {"group": path.stem} | entry
        for path in sorted(folder.glob("*.yml"))
        for entry in parsed(path.read_text("utf-8"))
    ]


@cache
def index() -> Index:
    """Return the messages, ready to be found in logs."""
    return Index(load())


def shipped() -> str:
    """Return as JSON what a browser needs."""
    entries = [
        {key: entry[key] for key in SHIPPED if key in entry} for entry in load()
    ]
    return dumps(entries, ensure_ascii=False, separators=(",", ":"))


def has_torch() -> bool:
    """Whether torch can be imported, without importing it."""
    return find_spec("torch") is not None
