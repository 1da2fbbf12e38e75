"""MkDocs hooks: what the search box knows of a page beside its text.

A page's front matter may name, as `tags`, what readers call its subject.
"""

from __future__ import annotations

import re

from mkdocs.structure.pages import Page

from lockstep.site.pages.chapters import core_of

# The page that explains a subject comes before its depth, before a lab or a
# question about it, and before the module with its name.
_DEPTH = 0.95
_BEHIND = {
    "practice/labs/": 0.9,
    "reliability/errors/": 0.9,
    "practice/questions/": 0.8,
    "practice/rounds/": 0.8,
    "reference/api/": 0.6,
}
_IN_FRONT = ("reference/api/index.md", "reference/api/cli/")
_WHOLE = "reference/api/cli/__main__.md"  # names every command


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Place practice and modules behind the page that explains their subject.
    Let a page be found by its name in the navigation, where its title says it
    otherwise."""
    uri = page.file.src_uri
    if uri == _WHOLE or not uri.startswith(_IN_FRONT):
        for folder, boost in _BEHIND.items():
            if uri.startswith(folder) and not uri.endswith("index.md"):
                _place(page, boost)
    if core_of(uri):
        _place(page, _DEPTH)
    name, title = str(page.title), page.toc.items[0].title if page.toc else ""
    if not _words(name) & _words(title):
        page.meta["tags"] = [*page.meta.get("tags", []), name]
    return html


def _place(page: Page, boost: float) -> None:
    page.meta["search"] = {"boost": boost} | page.meta.get("search", {})


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))
