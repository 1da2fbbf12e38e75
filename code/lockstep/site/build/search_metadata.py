"""MkDocs hooks: what the search box knows of a page beside its text.

A page's front matter may name, as `tags`, what readers call its subject.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

_REFERENCE = "reference/api/"
_IN_FRONT = ("reference/api/index.md", "reference/api/cli/")
_WHOLE = "reference/api/cli/__main__.md"  # names every command
_ASKED = "practice/questions/", "practice/rounds/"
_MESSAGES = "reliability/errors/"
_BEHIND, _FOUND, _LAST = 0.6, 0.55, 0.3
# Lunr merges the nodes of its index that it names alike, and a name is each
# edge's letter and the number of the node behind it, with nothing in between:
# "1" to node 23 and "12" to node 3 are one. Words with digits so come to be
# mixed, and a query that reaches a word that does not exist answers nothing
# (olivernn/lunr.js, issue 503, describes the like).
_SEPARATED = """
lunr.TokenSet.prototype.toString = function () {
  if (this._str) return this._str
  const edges = Object.keys(this.edges).sort()
  const named = edges.map(letter => letter + this.edges[letter].id)
  return [this.final, ...named].join(" ")
}
"""


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Place a module or an error message behind the page that explains its
    subject, and a question or a round behind both. Let a page be found by its
    name in the navigation, where its title says it otherwise."""
    uri = page.file.src_uri
    behind = uri.startswith(_REFERENCE) and not uri.startswith(_IN_FRONT)
    if behind or uri == _WHOLE:
        page.meta["search"] = {"boost": _BEHIND}
    if uri.startswith(_MESSAGES) and not uri.endswith("index.md"):
        page.meta["search"] = {"boost": _FOUND}
    if uri.startswith(_ASKED) and not uri.endswith("index.md"):
        page.meta["search"] = {"boost": _LAST} | page.meta.get("search", {})
    name, title = str(page.title), page.toc.items[0].title if page.toc else ""
    if not _words(name) & _words(title):
        page.meta["tags"] = [*page.meta.get("tags", []), name]
    return html


def on_post_build(config: MkDocsConfig) -> None:
    """Mend how the search's worker indexes words with digits."""
    workers = Path(config.site_dir) / "assets" / "javascripts" / "workers"
    for worker in workers.glob("search.*.js"):
        script = worker.read_text("utf-8")
        if _SEPARATED not in script:  # a dirty build copies it once
            worker.write_text(script + _SEPARATED, "utf-8")


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))
