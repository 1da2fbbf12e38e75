"""The box of a core page that holds the one number to keep."""

from __future__ import annotations

import re
from textwrap import indent

from lockstep.site.pages import proof_marks


def number_box(number: str, applies: str, proof: str) -> str:
    """Return the box as Markdown.

    Args:
        number: the rule with its figure, in Markdown.
        applies: what the number applies to, and where it changes.
        proof: tests, recorded runs or sources, as a proof mark names them.

    Raises:
        ValueError: the rule has no figure, nothing says what it applies to, or
            no proof is named.
    """
    if not re.search(r"\d", number):
        raise ValueError(f"a number box without a figure: {number!r}")
    if not applies.strip():
        raise ValueError(f"say what the number applies to: {number!r}")
    mark = f"[✓ {proof}]"
    if not any(name for name, _ in proof_marks.named(mark)):
        raise ValueError(f"a number box without a proof or source: {number!r}")
    body = f"{number.strip()} {mark}\n\n{applies.strip()}\n"
    return '!!! abstract "The number to keep"\n\n' + indent(body, "    ")
