"""The fenced blocks of a page, and what each of them must hold to."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound
from pytest_codeblocks.main import extract_from_file

from lockstep.site.pages.snippets import (
    BadInclude,
    Include,
    expand,
    includes,
    parse,
    site_config,
    site_root,
)

SHELL = ("shell", "console")
_LEXERS = {
    "Python": "python",
    "Python 2.x": "python",
    "Bash": "shell",
    "Bash Session": "console",
}


@dataclass(frozen=True)
class Block:
    """A fenced block as its author wrote it, with what is said about it."""

    page: Path
    line: int
    language: str
    written: str
    expected: str | None
    marks: tuple[pytest.MarkDecorator, ...]

    @cached_property
    def root(self) -> Path:
        """The folder of the `mkdocs.yml` that the page belongs to."""
        return site_root(self.page)

    @property
    def published(self) -> bool:
        """Whether MkDocs builds the page (it does not build the README)."""
        return self.page.is_relative_to(site_config(self.root).docs_dir)

    @property
    def where(self) -> str:
        """The block's place, for messages: page and line."""
        return f"{self.page.relative_to(self.root)}:{self.line}"

    @property
    def text(self) -> str:
        """The block as a reader sees it."""
        return self._shown(self.written)

    @property
    def sources(self) -> list[Include]:
        """What the block includes, in order."""
        return includes(self.written) if self.published else []

    @property
    def expected_text(self) -> str | None:
        """The output that a reader sees under the block."""
        return None if self.expected is None else self._shown(self.expected)

    @property
    def recorded(self) -> Path | None:
        """The file under `recorded/` that holds the block's output."""
        found = includes(self.expected or "") if self.published else []
        paths = [self.root / include.path for include in found]
        folder = self.root / "docs" / "recorded"
        return paths[0] if paths and folder in paths[0].parents else None

    def mark(self, name: str) -> pytest.Mark | None:
        """Return the block's pytest mark of that name."""
        return next((m.mark for m in self.marks if m.name == name), None)

    @property
    def runs(self) -> bool:
        """Whether the block is run, rather than shown alone."""
        runnable = self.language == "python" or self.language in SHELL
        condition = self.mark("skipif")
        skipped = self.mark("skip") or (condition and condition.args[0])
        return runnable and not skipped

    def _shown(self, text: str) -> str:
        return expand(text, self.root) if self.published else text


def language(info: str | None) -> str:
    """Name the language of a fence from whatever follows its backticks.

    Pygments decides, so that every spelling it highlights as Python counts.
    """
    match = re.match(r"\{[^}]*?\.([\w+-]+)|([\w+-]+)", (info or "").strip())
    word = (match[1] or match[2]).lower() if match else ""
    try:
        name = get_lexer_by_name(word).name
    except ClassNotFound:
        return word
    return _LEXERS.get(name, word)


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page, in order."""
    return [
        Block(
            page.resolve(),
            found.lineno,
            language(found.syntax),
            found.code,
            found.expected_output,
            tuple(_mark(text) for text in found.marks),
        )
        for found in extract_from_file(page)
    ]


def pages(root: Path) -> list[Path]:
    """Return the pages whose blocks are verified: the site's and README."""
    docs = Path(site_config(root).docs_dir)
    readme = root / "README.md"
    return [*sorted(docs.rglob("*.md")), *([readme] if readme.exists() else [])]


def violations(block: Block) -> Iterator[str]:
    """Say what is wrong with a block before it is run."""
    try:
        if block.published:
            yield from _typed(block)
        elif block.language in ("python", "pycon"):
            yield "Python outside the site can come from no tested file"
        for text in (block.text, block.expected_text):
            if text is not None and not text.strip():
                yield "the block is empty"
    except BadInclude as error:
        yield str(error)
    skip = block.mark("skip")
    if skip and not skip.kwargs.get("reason"):
        yield "a block that is not run says why: pytest.mark.skip(reason=…)"
    if block.language == "console":
        yield from _prompts(block)


def _typed(block: Block) -> Iterator[str]:
    """On the site only commands and diagrams are typed by hand."""
    if block.language not in (*SHELL, "mermaid"):
        for offset, line in enumerate(block.written.splitlines(), 1):
            if line.strip() and parse(line) is None:
                yield (
                    f"line {block.line + offset} is typed by hand; include it "
                    "from a file that is tested"
                )
                return
    if block.expected is not None and block.recorded is None:
        yield "the output is typed by hand; include it from docs/recorded/"


def _prompts(block: Block) -> Iterator[str]:
    previous = ""
    for line in block.written.splitlines():
        if not line.startswith("$ ") and not previous.endswith("\\"):
            yield f"in a console block {line!r} is no command (it lacks `$ `)"
        previous = line


def _mark(text: str) -> Any:
    # pytest-codeblocks evaluates the same comments in the same way.
    return eval(text, {"pytest": pytest, "sys": sys})
