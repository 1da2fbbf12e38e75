"""Includes on a page, read and expanded exactly as the site expands them.

pymdownx prints a malformed include as it stands, includes to the end of the
file where an end marker is missing, and includes nothing for a line range past
the end. Here each of these is an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown import Markdown
from mkdocs.config import load_config
from mkdocs.config.defaults import MkDocsConfig
from pymdownx.snippets import (
    SnippetExtension,
    SnippetMissingError,
    SnippetPreprocessor,
)

_MARKDOWN = Markdown()  # the preprocessor asks it for the width of a tab
_INCLUDE = SnippetPreprocessor.RE_ALL_SNIPPETS
_MARKER = SnippetPreprocessor.RE_SNIPPET_SECTION
_TARGET = re.compile(r"(?P<path>[\w./-]+)(?::(?P<section>[a-z][\w-]*))?")


class BadInclude(Exception):
    """An include that the site would not show as its author meant."""


@dataclass(frozen=True)
class Include:
    """One include line: a whole file, or a named section of it."""

    path: str
    section: str | None = None

    def __str__(self) -> str:
        return f"{self.path}:{self.section}" if self.section else self.path


@cache
def site_config(root: Path) -> MkDocsConfig:
    """Return `mkdocs.yml` as MkDocs itself reads it, without plugins and hooks:
    importing those takes over a second."""
    return load_config(str(root / "mkdocs.yml"), plugins=[], hooks=[])


def site_root(path: Path) -> Path:
    """Return the nearest folder above `path` that holds a `mkdocs.yml`."""
    for parent in path.resolve().parents:
        if (parent / "mkdocs.yml").is_file():
            return parent
    raise FileNotFoundError(f"no mkdocs.yml above {path}")


def parse(line: str) -> Include | None:
    """Read one line of a page; None where it holds no include.

    Raises:
        BadInclude: the line looks like an include and pymdownx would print it,
            or it names anything but a file or a section.
    """
    if not re.search(r"8<-|-8<", line) or line.lstrip().startswith(";"):
        return None
    match = _INCLUDE.match(line)
    if match is None or match["snippet"] is None:
        raise BadInclude(f"pymdownx does not read this include: {line!r}")
    target = _TARGET.fullmatch(match["snippet"][1:-1])
    if target is None:
        raise BadInclude(
            f"an include names a file or a section, not {match['snippet']}"
        )
    return Include(target["path"], target["section"])


def includes(text: str) -> list[Include]:
    """Every include in `text`, in order."""
    return [found for line in text.splitlines() if (found := parse(line))]


def sections(source: Path) -> dict[str, range]:
    """Line numbers, from 1, that each named section of a file spans.

    Raises:
        BadInclude: a section is opened twice, or not closed where it should be.
    """
    spans: dict[str, range] = {}
    opened: list[tuple[str, int]] = []
    text = source.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        match = _MARKER.match(line) if "8<" in line else None
        if match is None or match["escape"]:
            continue
        name = match["name"]
        where = f"{source.name}:{number}"
        if match["type"].lower() == "start":
            if name in spans or any(name == other for other, _ in opened):
                raise BadInclude(f"{where}: section {name!r} opens twice")
            opened.append((name, number))
        elif not opened or opened[-1][0] != name:
            raise BadInclude(f"{where}: [end: {name}] closes no open section")
        else:
            spans[name] = range(opened.pop()[1] + 1, number)
    if opened:
        name, number = opened[-1]
        raise BadInclude(
            f"{source.name}:{number}: section {name!r} is never closed, so a "
            "page would show the rest of the file"
        )
    return spans


def expand(text: str, root: Path) -> str:
    """Expand every include in `text` by the site's own preprocessor.

    Raises:
        BadInclude: one is malformed, missing, unbalanced or empty.
    """
    for include in includes(text):
        source = root / include.path
        if not source.is_file():
            raise BadInclude(f"{include} names no file")
        if include.section and include.section not in sections(source):
            raise BadInclude(f"{include} names no section")
        if not _expanded(f'--8<-- "{include}"', root).strip():
            raise BadInclude(f"{include} expands to nothing")
    return _expanded(text, root)


def _expanded(text: str, root: Path) -> str:
    if "8<" not in text:
        return text
    options = site_config(root).mdx_configs["pymdownx.snippets"]
    extension = SnippetExtension(**options)
    processor = SnippetPreprocessor(extension.getConfigs(), _MARKDOWN)
    try:
        return "\n".join(processor.run(text.split("\n")))
    except SnippetMissingError as error:
        raise BadInclude(str(error)) from None
