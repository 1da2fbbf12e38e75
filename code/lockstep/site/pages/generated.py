"""Pages that are written when the site is built, and stand in no folder."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File

# By index page, the pages below each of its headings.
Groups = dict[str, dict[str, list[str]]]
KEPT = Path(".cache/pages")  # below the folder of mkdocs.yml


def page(config: MkDocsConfig, uri: str, text: str) -> File:
    """Make a page whose Markdown is `text`. It is read from a file that is as
    old as its text, so that a server writes only those pages again that
    changed."""
    path = Path(config.config_file_path).parent / KEPT / uri
    if not path.exists() or path.read_text("utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return File.generated(config, uri, abs_src_path=str(path))
