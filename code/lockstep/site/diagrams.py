"""Mermaid diagrams, laid out by the real Mermaid without a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import mermaidx

# What Mermaid makes of `accTitle` and `accDescr`, for who listens to a page.
_READ_ALOUD = {"accTitle": "title", "accDescr": "desc"}


@cache
def draw(source: str) -> str:
    """The diagram as SVG.

    Raises:
        RuntimeError: it has a syntax error.
    """
    return str(mermaidx.render(source).svg())


def size(source: str) -> tuple[float, float]:
    """Width and height, in CSS pixels, of a diagram at its full size.

    Raises:
        RuntimeError: it has a syntax error.
    """
    box = re.search(r'viewBox="\S+ \S+ ([\d.]+) ([\d.]+)"', draw(source))
    if box is None:
        raise RuntimeError("Mermaid drew nothing")
    return float(box[1]), float(box[2])


def violations(source: str) -> Iterator[str]:
    """Say what keeps a diagram from being drawn or being read aloud."""
    if re.search(r"</?[a-z]", source, re.I):
        # The fence is not escaped, so a browser would take the tag away.
        yield "the diagram holds an HTML tag; quote the label and break it"
    try:
        svg = draw(source)
    except RuntimeError as error:
        yield f"the diagram has a syntax error: {error}"
        return
    for name, tag in _READ_ALOUD.items():
        if not re.search(rf"<{tag}\b[^>]*>\s*[^<\s]", svg):
            yield f"the diagram has no {name}"
