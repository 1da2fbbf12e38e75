"""Mermaid diagrams, laid out by the real Mermaid without a browser.

    python -m lockstep.site.diagrams

draws those that it is told of, each a line of JSON on its input, and answers
with a line for each that is done.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from tempfile import NamedTemporaryFile
from typing import Any

from mermaidx.engines import quickjs_engine

# A drawing takes a third of a second, so it is kept from build to build.
CACHE = Path(".cache/diagrams")

# What Mermaid makes of `accTitle` and `accDescr`, for who listens to a page.
_READ_ALOUD = {"accTitle": "title", "accDescr": "desc"}
# A phone of 360 CSS pixels leaves 356 for a diagram, and labels of 16 may
# shrink to 12.
WIDEST = 356 * 16 / 12


class _Engine(quickjs_engine.Engine):
    """Mermaid, loaded once.

    mermaidx loads it anew for each drawing, which takes longer than to draw, so
    that elements are numbered from one. No size depends on their numbers.
    """

    _ctx: Any = None

    def _ensure_fresh_context(self) -> None:
        if self._ctx is None:
            self._ctx = self._build_context()


_ENGINE = _Engine()


@cache
def draw(source: str) -> str:
    """The diagram as SVG.

    Raises:
        RuntimeError: it has a syntax error.
    """
    path = _kept(source)
    if not path.exists():
        svg = _drawn(source)
        CACHE.mkdir(parents=True, exist_ok=True)
        # Renamed when it is whole: another build may be reading.
        with NamedTemporaryFile(dir=CACHE, delete=False) as file:
            file.write(svg.encode())
        Path(file.name).rename(path)
    return path.read_text("utf-8")


def _drawn(source: str) -> str:
    how = ("default", None, None)  # theme, settings, styles
    _ENGINE.start()
    with suppress(RuntimeError):
        return _ENGINE.render_svg(source, *how)
    _ENGINE.close()  # if an earlier drawing left something behind, it is gone
    _ENGINE.start()
    try:
        return _ENGINE.render_svg(source, *how)
    finally:
        _ENGINE.close()


def _kept(source: str) -> Path:
    key = f"{version('mermaidx')}\n{source}"
    return CACHE / f"{sha256(key.encode()).hexdigest()}.svg"


class Ahead:
    """Draws diagrams in another process, while this one goes on to the next
    page. What fails there is drawn once more by who asks for it."""

    def __init__(self) -> None:
        self._drawer: Popen[str] | None = None
        self._asked: list[str] = []

    def ask(self, source: str) -> None:
        """Have a diagram drawn, unless it is kept."""
        if _kept(source).exists() or source in self._asked:
            return
        if self._drawer is None:
            # It ends with its input, and so with this process; of the keys that
            # interrupt this one it hears nothing.
            self._drawer = Popen(
                [sys.executable, "-m", "lockstep.site.diagrams"],
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                text=True,
                process_group=0,
            )
        assert self._drawer.stdin
        with suppress(BrokenPipeError):
            print(json.dumps(source), file=self._drawer.stdin, flush=True)
        self._asked.append(source)

    def wait(self, source: str) -> None:
        """Return when a diagram that was asked for is drawn."""
        while source in self._asked:
            assert self._drawer
            assert self._drawer.stdout
            self._drawer.stdout.readline()
            self._asked.pop(0)

    def end(self) -> None:
        """Draw no more."""
        if self._drawer is not None:
            with self._drawer:  # waits for its end
                self._drawer.terminate()
        self._drawer, self._asked = None, []


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


def main() -> int:
    """Draw what comes in, until no more does."""
    for line in sys.stdin:
        with suppress(RuntimeError):
            draw(json.loads(line))
        print(flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
