"""How the pages are written, as far as a program can see it.

    python -m lockstep.site.verify.prose

Prints one line for each fault and exits 1 when there is one. The text is what
Markdown makes of a page: code, diagrams and figures do not count.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import markdown
from bs4 import BeautifulSoup, Tag

SAY_IT = 75  # words that are spoken in half a minute
BANNED = re.compile(
    r"\b(crucial|robust|seamless|leverag|powerful)\w*"
    r"|\bnot just\b.{1,80}\bbut\b",
    re.I,
)
_EXTENSIONS = (
    "admonition",
    "attr_list",
    "footnotes",
    "md_in_html",
    "tables",
    "pymdownx.details",
    "pymdownx.superfences",
    "pymdownx.tabbed",
)
_TABBED = {"pymdownx.tabbed": {"alternate_style": True}}
_FRONT = re.compile(r"\A---\n.*?\n---\n", re.S)
_FIGURE = re.compile(r"\{\{.*?\}\}", re.S)
_STATEMENT = re.compile(r"\{%.*?%\}|\{#-.*?-#\}", re.S)
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.M | re.S)
# A page names what holds a sentence by a mark, which proof_marks.py reads.
_TEST = re.compile(r"`[^`\n]*\b(?:tests/[\w/]+|test_\w+)[^`\n]*`")
_LEFT_OUT = "pre, .footnote-backref, .md-button, script, style"


def faults(text: str, path: str = "") -> Iterator[str]:
    """What is wrong with the text of a page, in Markdown.

    Args:
        path: its address below the root; a page in `docs/` names no test.
    """
    page = _rendered(text)
    if path.startswith("docs/"):
        for found in _TEST.finditer(_FENCED.sub("", text)):
            yield f"a test in running text, where a mark would do: {found[0]}"
    yield from _headings(page)
    for quote in page.select(".admonition"):
        title = quote.select_one(".admonition-title")
        if title is not None and title.get_text().strip() == "Say it":
            title.decompose()
            if (count := _count(_plain(quote))) > SAY_IT:
                yield f"{count} words to say: {_start(_plain(quote))}"
    for block in page.select("p, li, td, dd"):
        written = _own(block)
        for found in BANNED.finditer(written):
            yield f"a banned word, {found[0]!r}: {_start(written)}"


def _rendered(text: str) -> BeautifulSoup:
    text = _FRONT.sub("", text)
    for unseen, shown in ((_FIGURE, "9"), (_STATEMENT, ""), (_COMMENT, "")):
        text = unseen.sub(shown, text)
    html = markdown.markdown(
        text, extensions=_EXTENSIONS, extension_configs=_TABBED
    )
    page = BeautifulSoup(html, "html.parser")
    for element in page.select(_LEFT_OUT):
        element.decompose()
    for code in page.select("code"):
        code.string = "code"  # one word, whatever is in it
    return page


def _headings(page: BeautifulSoup) -> Iterator[str]:
    last = 0
    for heading in page.select("h1, h2, h3, h4, h5, h6"):
        level = int(heading.name[1])
        if level > last + 1:
            yield f"a level is skipped before: {heading.get_text()}"
        last = level


def _own(block: Tag) -> str:
    """A block's text without that of the blocks in it."""
    inner = {id(b) for b in block.select("p, li, td, dd, ul, ol, table, div")}
    return "".join(
        text
        for text in block.find_all(string=True)
        if not any(id(parent) in inner for parent in text.parents)
    ).strip()


def _plain(element: Tag) -> str:
    return " ".join(element.get_text(" ").split())


def _count(text: str) -> int:
    """Words, as a reader counts them: a number with its unit is two."""
    return len(re.findall(r"[^\W_][\w'’.,/×·%-]*", text))


def _start(text: str) -> str:
    return " ".join(text.split())


def main() -> int:
    """Check the pages in the current directory."""
    root = Path.cwd()
    pages = [*sorted(root.glob("*.md")), *sorted(root.glob("docs/**/*.md"))]
    found = [
        f"{path}: {fault}"
        for path in (page.relative_to(root).as_posix() for page in pages)
        for fault in faults((root / path).read_text("utf-8"), path)
    ]
    for fault in found:
        print(fault)
    print(f"{len(found)} faults in how {len(pages)} pages are written")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
