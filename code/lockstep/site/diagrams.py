"""Mermaid diagrams, laid out by the real Mermaid without a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile

import mermaidx

# A drawing takes about a second, so it is kept from build to build.
CACHE = Path(".cache/diagrams")

# What Mermaid makes of `accTitle` and `accDescr`, for who listens to a page.
_READ_ALOUD = {"accTitle": "title", "accDescr": "desc"}
# A phone of 360 CSS pixels leaves 356 for a diagram, and labels of 16 may
# shrink to 12.
WIDEST = 356 * 16 / 12


@cache
def draw(source: str) -> str:
    """The diagram as SVG.

    Raises:
        RuntimeError: it has a syntax error.
    """
    key = f"{version('mermaidx')}\n{source}"
    path = CACHE / f"{sha256(key.encode()).hexdigest()}.svg"
    if not path.exists():
        svg = mermaidx.render(source).svg()
        CACHE.mkdir(parents=True, exist_ok=True)
        # Renamed when it is whole: another build may be reading.
        with NamedTemporaryFile(dir=CACHE, delete=False) as file:
            file.write(str(svg).encode())
        Path(file.name).rename(path)
    return path.read_text("utf-8")


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
    if (width := size(source)[0]) > WIDEST:
        yield (
            f"the diagram is {width:.0f} px wide; beyond {WIDEST:.0f} its "
            "labels are smaller than 12 px on a phone"
        )
    for name, tag in _READ_ALOUD.items():
        if not re.search(rf"<{tag}\b[^>]*>\s*[^<\s]", svg):
            yield f"the diagram has no {name}"
