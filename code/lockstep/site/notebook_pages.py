"""A notebook's page, as mkdocs-jupyter writes it, in the site's own style.

It brings 570 KB of JupyterLab's styles, scripts that ask other hosts for more,
and labels that a screen reader stumbles over. Its cells' text is kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bs4 import BeautifulSoup, PageElement, Tag


def plain(html: str, ids: Sequence[str]) -> str:
    """The cells alone: text as on any page, code and what it printed; a cell
    with the tag `folded` opens on demand.

    Args:
        ids: of the headings, in the table of contents. mkdocs-jupyter gives
            others to those with code in them.
    """
    found = BeautifulSoup(html, "html.parser")
    new = BeautifulSoup("", "html.parser")
    for cell in found.select(".jp-Cell[id]"):
        if text := cell.select_one(".jp-RenderedMarkdown"):
            for anchor in text.select(".anchor-link"):
                anchor["class"] = "headerlink"
            new.extend(list(text.children))
        elif "celltag_folded" in cell["class"]:
            new.append(_folded(new, cell))
        else:
            written = cell.select_one(".highlight-ipynb pre")
            assert written  # of a cell with code
            new.append(_block(new, *list(written.children)))
            printed = cell.select(".jp-OutputArea-output pre")
            if said := "".join(pre.get_text() for pre in printed):
                new.append(_block(new, said))
    headings = new.find_all(re.compile(r"h[1-6]"))
    for heading, name in zip(headings, ids, strict=True):
        heading["id"] = name
        for anchor in heading.select(".headerlink"):
            anchor["href"] = f"#{name}"
    return str(new)


def _folded(new: BeautifulSoup, cell: Tag) -> Tag:
    text = cell.select_one(".clipboard-copy-txt")
    assert text
    title, _, code = text.get_text().partition("\n")
    details = new.new_tag("details", attrs={"class": "example"})
    summary = new.new_tag("summary")
    summary.string = title.removeprefix("# @title ").removeprefix("%%")
    details.extend([summary, _block(new, code)])
    return details


def _block(new: BeautifulSoup, *content: str | PageElement) -> Tag:
    """A block of code as a page has it."""
    block = new.new_tag("div", attrs={"class": "highlight"})
    pre, code = new.new_tag("pre"), new.new_tag("code")
    code.extend(content)
    pre.append(code)
    block.append(pre)
    return block
