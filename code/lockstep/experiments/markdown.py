"""A recorded result as Markdown tables, each a section that a page includes."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def sections(
    found: dict[str, Any], *parts: Callable[[dict[str, Any]], str]
) -> str:
    """What each part makes of `found`, as a section with the part's name."""
    return "\n".join(
        f"<!-- --8<-- [start:{part.__name__}] -->\n"
        f"{part(found)}"
        f"<!-- --8<-- [end:{part.__name__}] -->\n"
        for part in parts
    )


def render(result: Path, *parts: Callable[[dict[str, Any]], str]) -> int:
    """Write the sections of a result anew, into a file beside it."""
    return rewrite(result, lambda found: sections(found, *parts))


def rewrite(result: Path, text: Callable[[dict[str, Any]], str]) -> int:
    """Write what `text` makes of a result into the file next to it."""
    found = json.loads(result.read_text())
    result.with_suffix(".md").write_text(text(found))
    return 0


def table(
    head: list[str], rows: Iterable[list[str]], others: str = "---:"
) -> str:
    """Markdown, the first column to the left and the others to the right, or
    as a Markdown rule says."""
    rule = ["---"] + [others] * (len(head) - 1)
    lines = [head, rule, *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def measured(found: dict[str, Any], **how: str) -> str:
    """Where, with what and when this was measured, and `how`."""
    has, versions = found["machine"], found["versions"].items()
    said = {
        "Processor": f"{has['processor']}, {has['cores']} cores",
        "Memory": has["memory"],
        "System": f"{has['system']}, {has['file system']}",
        "Versions": ", ".join(f"{name} {text}" for name, text in versions),
        **how,
        "Measured": f"{found['date']}, revision `{found['revision']}`",
    }
    return "".join(f"- **{name}**: {text}\n" for name, text in said.items())


def with_quartiles(spread: dict[str, float], scale: float, digits: int) -> str:
    """`median (lower quartile–upper quartile)`."""
    middle, q1, q3 = (
        f"{spread[key] * scale:.{digits}f}" for key in ("median", "q1", "q3")
    )
    return f"{middle} ({q1}–{q3})"


def in_bytes(count: float) -> str:
    """3.2 MiB, 46 GiB."""
    unit, size = ("GiB", 2**30) if count >= 2**30 else ("MiB", 2**20)
    return f"{count / size:.{1 if count < 10 * size else 0}f} {unit}"
