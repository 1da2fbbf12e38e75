"""Compare two builds of the site: the same pages, headings and text?

    python -m lockstep.site.verify.compare_builds SITE_A SITE_B

MkDocs and its theme are no longer developed. Their successor builds the same
sources beside them in CI, and this says what a reader would lose by the move.
Only what an author wrote is compared: themes and navigation differ freely.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bs4 import BeautifulSoup, Tag

SHOWN = 20  # differing lines printed for a page; the rest are counted
HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
BLOCKS = [
    *HEADINGS,
    *("address", "blockquote", "br", "dd", "details", "div", "dt", "figure"),
    *("figcaption", "hr", "li", "p", "pre", "summary", "table", "td", "th"),
]
# What themes and our hooks add to a page: permalinks, buttons, source dates,
# what nobody reads, and diagrams, which only our hooks draw.
ADDED = (
    ".headerlink, .md-content__button, .md-source-file, .notebook, .linenos,"
    " script, style, template, .diagram, .mermaid"
)


def pages(site: Path) -> set[str]:
    """Return the pages of a build, as paths in it."""
    return {p.relative_to(site).as_posix() for p in site.rglob("*.html")}


def content(file: Path) -> Tag:
    """Return what an author wrote of a page: its article without `ADDED`."""
    soup = BeautifulSoup(file.read_text("utf-8"), "html.parser")
    article = soup.find("article") or soup.find("main") or soup
    assert isinstance(article, Tag)
    for added in article.select(ADDED):
        added.decompose()
    return article


def headings(article: Tag) -> list[str]:
    """Return the headings with their levels, in order."""
    found = article.find_all(HEADINGS)
    return [f"{h.name} {' '.join(h.get_text().split())}" for h in found]


def lines(article: Tag) -> list[str]:
    """Return the text as a browser lays it out: a line for each block.

    A run of white space is one space, and outside `pre` so is a line break.
    Changes `article`.
    """
    for text in article.find_all(string=True):
        if text.find_parent("pre") is None:
            text.replace_with(re.sub(r"\s+", " ", text))
    for block in article.find_all(BLOCKS):
        block.insert_before("\n")
        block.insert_after("\n")
    found = (" ".join(line.split()) for line in article.get_text().splitlines())
    return [line for line in found if line]


def differences(a: Path, b: Path) -> Iterator[str]:
    """Say what differs between two builds, page by page, and nothing else."""
    ours, theirs = pages(a), pages(b)
    yield from (f"{page}: only in {a}" for page in sorted(ours - theirs))
    yield from (f"{page}: only in {b}" for page in sorted(theirs - ours))
    for page in sorted(ours & theirs):
        left, right = content(a / page), content(b / page)
        for name, read in (("headings", headings), ("text", lines)):
            found = _changed(read(left), read(right))
            if found:
                yield f"{page}: {len(found)} lines of the {name} differ"
                yield from found[:SHOWN]
                break  # where headings differ, so does the text


def _changed(a: Sequence[str], b: Sequence[str]) -> list[str]:
    compared = difflib.unified_diff(a, b, lineterm="", n=0)
    return [f"  {d}" for d in list(compared)[2:] if not d.startswith("@@")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what differs; return 0 when nothing does, and 1 otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m lockstep.site.verify.compare_builds"
    )
    parser.add_argument("site_a", type=Path)
    parser.add_argument("site_b", type=Path)
    options = parser.parse_args(arguments)
    for site in (options.site_a, options.site_b):
        if not pages(site):
            parser.error(f"{site} holds no pages: give the folder of a build")
    found = list(differences(options.site_a, options.site_b))
    print("\n".join(found) or "the builds hold the same pages and text")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
