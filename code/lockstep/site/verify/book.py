"""All cores of the built site in one PDF, in the order of the navigation.

python -m lockstep.site.verify.book SITE FILE
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin

from bs4 import BeautifulSoup, Tag
from mkdocs.utils import meta

from lockstep.practice.figures import ROOT
from lockstep.site.pages import llms
from lockstep.site.pages.chapters import depth_of
from lockstep.site.pages.snippets import site_config
from lockstep.site.verify.pdf import printed, tab

BOOK = "book.html"  # next to the first core, so that its own assets load
# A book has no controls, and Evidence is in the page that a chapter links to.
_LEFT_OUT = (
    ".headerlink, .report, .reading-time, .evidence, .proof, .chart-data,"
    " .md-path, script, nav, form, button"
)


def cores() -> list[str]:
    """Return the addresses of all cores below the site's, in order."""
    config = site_config(ROOT)
    docs = Path(config.docs_dir)
    return [
        uri.removesuffix("index.md")
        for _, pages in llms.sections(config.nav)
        for _, uri in pages
        if (page := docs / uri).is_file()
        and (docs / depth_of(uri, _front_matter(page))).is_file()
    ]


def _front_matter(page: Path) -> dict[str, Any]:
    return meta.get_data(page.read_text("utf-8"))[1]


def compose(site: Path, address: str, chapters: Sequence[str]) -> str:
    """Return the HTML of the book.

    Args:
        site: the folder of the built site.
        address: the published site's, for links that leave the book.
        chapters: addresses below it, two folders deep as `concepts/memory/`.
    """
    pages = [
        BeautifulSoup((site / one / "index.html").read_text(), "html.parser")
        for one in chapters
    ]
    book = pages[0]
    contents = book.new_tag("ol")
    articles: list[Tag] = []
    for chapter, page in zip(chapters, pages, strict=True):
        article = page.select_one("article")
        assert article
        for part in article.select(_LEFT_OUT):
            part.decompose()
        title = article.h1
        assert title
        title["id"] = ""
        for element in article.select("[id]:not(svg [id], svg)"):
            element["id"] = _anchor(chapter, str(element["id"]))
        for link in article.select("a[href]:not(svg a)"):
            _lead(link, address, chapter, chapters)
        for fold in article.select("details"):
            fold["open"] = ""
        entry = book.new_tag("li")
        leads = book.new_tag("a", href=f"#{title['id']}")
        leads.string = title.get_text().strip()
        entry.append(leads)
        contents.append(entry)
        articles.append(article.extract())
    main = book.select_one("main .md-content")
    assert main
    main.clear()
    front = book.new_tag("article", attrs={"class": "md-typeset book-front"})
    heading = book.new_tag("h1")
    heading.string = "Lockstep"
    front.extend([heading, contents])
    main.extend([front, *articles])
    for element in book.select(
        "header, footer, .md-skip, .md-sidebar, .md-tabs, script"
    ):
        element.decompose()
    return str(book)


def _anchor(chapter: str, anchor: str) -> str:
    name = chapter.strip("/").replace("/", "-")
    return f"{name}--{anchor}" if anchor else name


def _lead(
    link: Tag, address: str, chapter: str, chapters: Sequence[str]
) -> None:
    """Point a link at a chapter of the book, or at the published site. It can
    be followed, so its address isn't printed next to it."""
    del link["data-away"]
    whole, anchor = urldefrag(
        urljoin(urljoin(address, chapter), str(link["href"]))
    )
    below = whole.removeprefix(address)
    if below in chapters:
        link["href"] = f"#{_anchor(below, anchor)}"
    else:
        link["href"] = f"{whole}#{anchor}" if anchor else whole


def bind(site: Path, address: str, chapters: Sequence[str]) -> bytes:
    """Return the book as a PDF with an outline; the site stays as it is."""
    folder = chapters[0]
    file = site / folder / BOOK
    file.write_text(compose(site, address, chapters), "utf-8")
    try:
        with tab(site) as (served, page):
            page.goto(f"{served}{folder}{BOOK}")
            return printed(page)
    finally:
        file.unlink()


def main() -> None:
    """Write the book."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("site", type=Path, help="the folder of the built site")
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    config = site_config(ROOT)
    pdf = bind(given.site, config.site_url or "", cores())
    given.file.parent.mkdir(parents=True, exist_ok=True)
    given.file.write_bytes(pdf)


if __name__ == "__main__":
    main()
