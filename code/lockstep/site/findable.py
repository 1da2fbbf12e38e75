"""MkDocs hooks: what the search box knows of a page beside its text.

A page's front matter may name, as `tags`, what readers call its subject.
"""

from __future__ import annotations

import re

from mkdocs.structure.pages import Page

_REFERENCE = "reference/api/"
_IN_FRONT = ("reference/api/index.md", "reference/api/cli/")
_QUESTIONS = "practice/questions/"
_BEHIND, _LAST = 0.6, 0.3


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Place a module behind the page that explains its subject, and a question
    behind both. Let a page be
    found by its name in the navigation, where its title says it otherwise."""
    uri = page.file.src_uri
    if uri.startswith(_REFERENCE) and not uri.startswith(_IN_FRONT):
        page.meta["search"] = {"boost": _BEHIND}
    if uri.startswith(_QUESTIONS) and not uri.endswith("index.md"):
        page.meta["search"] = {"boost": _LAST}
    name, title = str(page.title), page.toc.items[0].title if page.toc else ""
    if not _words(name) & _words(title):
        page.meta["tags"] = [*page.meta.get("tags", []), name]
    return html


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))
