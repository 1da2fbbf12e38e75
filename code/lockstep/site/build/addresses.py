"""MkDocs hook: what was published stays reachable.

    python -m lockstep.site.build.addresses   at a release: keep all addresses

`docs/published.txt` names each page that a release had, `docs/redirects.yml`
where those have gone that are no more.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from mkdocs.config.defaults import MkDocsConfig

PUBLISHED = "published.txt"
REDIRECTS = "redirects.yml"


def address(page: str) -> str:
    """The address of `concepts/memory.md` is `concepts/memory/`."""
    return page.removesuffix("index.md").replace(".md", "/")


def published(docs: Path) -> list[str]:
    """The pages of all releases, as paths below `docs`."""
    return (docs / PUBLISHED).read_text("utf-8").split()


def redirects(docs: Path) -> dict[str, str]:
    """Of each page that is no more: a page, or an anchor on it."""
    file = docs / REDIRECTS
    return yaml.safe_load(file.read_text("utf-8")) if file.exists() else {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give the redirects to the plugin that writes them."""
    maps = redirects(Path(config.docs_dir))
    config.plugins["redirects"].config["redirect_maps"] = maps
    return config


def main() -> int:
    """Add the pages of this checkout to those that were published."""
    docs = Path("docs")
    now = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    pages = sorted(now.union(published(docs)))
    (docs / PUBLISHED).write_text("\n".join(pages) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
