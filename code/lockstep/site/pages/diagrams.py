"""Mermaid diagrams, drawn by the real Mermaid without a browser.

A page holds the drawing itself, as SVG. Its colors and its type come from
`docs/assets/diagrams.css`, so one drawing serves both schemes and paper.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from multiprocessing import get_context, parent_process
from pathlib import Path
from signal import SIG_IGN, SIGINT, signal
from tempfile import NamedTemporaryFile
from threading import Thread
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from mermaidx.engines import quickjs_engine

# A drawing takes a quarter of a second, so it is kept from build to build.
CACHE = Path(".cache/diagrams")

# What Mermaid makes of `accTitle` and `accDescr`, for who listens to a page.
_READ_ALOUD = {"accTitle": "title", "accDescr": "desc"}
# A phone of 360 CSS pixels leaves 356 for a diagram, and labels of 16 may
# shrink to 12.
WIDEST = 356 * 16 / 12
# The sources are our own, and `violations` refuses tags. To purify the labels
# would take a quarter of the time, and leaves each drawing as it is.
_SETTINGS = {"securityLevel": "loose"}
# What a drawing refers to by its id. Mermaid defines more than it uses.
_REFERRED_TO = ("filter", "marker", "symbol")


class _Engine(quickjs_engine.Engine):
    """Mermaid, loaded once for all drawings of a process.

    `mermaidx.render` is the public way, but loads Mermaid again for each
    drawing. That takes 0.45 s of the processor, and drawing takes 0.3 s: over
    a hundred diagrams it would be half of the whole build. If mermaidx renames
    this method, drawing becomes slower and nothing else changes.
    """

    def _ensure_fresh_context(self) -> None:
        """Keep the context that `start` has made."""


_ENGINE = _Engine()


@cache
def draw(source: str) -> str:
    """Return the diagram as Mermaid draws it, a whole SVG document.

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
    _ENGINE.start()
    try:
        return _ENGINE.render_svg(source, "default", _SETTINGS, None)
    except RuntimeError:
        _ENGINE.close()  # an earlier drawing may have left something behind
        _ENGINE.start()
        try:
            return _ENGINE.render_svg(source, "default", _SETTINGS, None)
        finally:
            _ENGINE.close()


def _kept(source: str) -> Path:
    key = f"{version('mermaidx')}\n{_SETTINGS}\n{source}"
    return CACHE / f"{sha256(key.encode()).hexdigest()}.svg"


class Ahead:
    """Draws diagrams in other processes, while this one builds the pages."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._asked: dict[str, Future[str]] = {}

    def ask(self, source: str) -> None:
        """Have a diagram drawn, unless it is kept."""
        if _kept(source).exists() or source in self._asked:
            return
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                min(4, os.cpu_count() or 1), get_context("spawn"), _follow
            )
        self._asked[source] = self._pool.submit(draw, source)

    def wait(self, source: str) -> None:
        """Return when a diagram that was asked for is drawn.

        Raises:
            RuntimeError: it has a syntax error.
        """
        try:
            if source in self._asked:
                self._asked.pop(source).result()
        except BrokenExecutor:
            draw(source)

    def end(self) -> None:
        """Draw no more."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._pool, self._asked = None, {}


def _follow() -> None:
    """End with the process that asks, which alone hears the keyboard."""
    signal(SIGINT, SIG_IGN)
    parent = parent_process()
    assert parent

    def end() -> None:
        parent.join()
        os._exit(1)

    Thread(target=end, daemon=True).start()


def picture(source: str, name: str) -> str:
    """Return the diagram as an element of a page.

    Args:
        source: The diagram in Mermaid's language.
        name: Begins each id in the drawing; no other diagram of the page may
            have it.

    Raises:
        RuntimeError: the diagram has a syntax error.
    """
    drawn = draw(source)
    svg = ElementTree.fromstring(drawn)
    for element in svg.iter():
        element.tag = element.tag.rpartition("}")[2]
    used = re.findall(r"url\(#([^)]+)\)", drawn)
    ids = {old: f"{name}-{n}" for n, old in enumerate(dict.fromkeys(used))}
    _tidy(svg, ids)
    for tag in _READ_ALOUD.values():
        if (said := svg.find(tag)) is not None:
            said.set("id", f"{name}-{tag}")
    width, height = size(source)
    box, kind = svg.attrib["viewBox"], svg.get("class", "sequence")
    svg.attrib.clear()
    svg.attrib |= {
        "class": kind,
        "viewBox": box,
        "width": f"{width:.0f}",
        "height": f"{height:.0f}",
        "role": "img",
        "aria-labelledby": f"{name}-title {name}-desc",
    }
    html = ElementTree.tostring(svg, "unicode")
    return f'<div class="diagram">{html}</div>'


def _tidy(parent: Element, ids: dict[str, str]) -> None:
    """Leave out what a page does not need, and rename ids."""
    for child in list(parent):
        _tidy(child, ids)
        if _is_idle(child, ids):
            parent.remove(child)
            continue
        style = child.attrib.pop("style", "")
        if child.tag == "div":
            child.attrib.clear()
            if "break-spaces" in style:
                child.set("class", "wrapped")
        else:
            child.attrib = dict(_attributes(child, style, ids))
        if child.tag == "span" and [part.tag for part in child] == ["p"]:
            [paragraph] = child
            child.text, child[:] = paragraph.text, list(paragraph)
        if child.tag in ("title", "desc", "foreignObject", "text"):
            child.tail = "\n"  # or search would join their words


def _is_idle(element: Element, ids: dict[str, str]) -> bool:
    if element.tag in _REFERRED_TO:
        return element.get("id") not in ids
    if element.tag in ("g", "defs"):
        return not len(element)
    if element.tag == "foreignObject":
        return element.get("width") == "0"
    return element.tag == "style" or (
        element.tag == "rect" and "width" not in element.attrib
    )


def _attributes(
    element: Element, style: str, ids: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the visible parts' styles as attributes, which a page's own styles
    can overrule."""
    for key, value in element.attrib.items():
        if key == "class":
            yield key, " ".join(dict.fromkeys(value.split()))
        elif key == "id" and value in ids:
            yield key, ids[value]
        elif key.startswith("marker-"):
            yield key, re.sub(r"#([^)]+)", lambda m: f"#{ids[m[1]]}", value)
        elif key not in ("id", "name") and not key.startswith("data-"):
            yield key, value
    for declared in style.split(";"):
        key, _, value = declared.partition(":")
        if value:
            yield key.strip(), value.strip()


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
