"""A notebook's page: mkdocs-jupyter renders it by a template of ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs_jupyter.config import settings
from pygments.token import STANDARD_TYPES

TEMPLATES = Path(__file__).parent / "templates"

# What turns a notebook into HTML, beside our template.
_TOOLS = (
    *("beautifulsoup4", "Jinja2", "Markdown", "mistune", "mkdocs-jupyter"),
    *("nbconvert", "nbformat", "Pygments"),
)
_HEADING = re.compile(
    r'<(?P<level>h[1-6]) id="[^"]*">(?P<text>.*?)'
    r'<a class="anchor-link" href="#[^"]*">',
    re.S,
)


def prepare(config: MkDocsConfig) -> None:
    """Name our templates to mkdocs-jupyter, and a place where it keeps what it
    rendered. It looks a page up by its notebook and its own settings alone, so
    the place is another one for other templates and other versions."""
    settings.templates_dir = str(TEMPLATES)
    made_by = [f"{tool} {version(tool)}" for tool in _TOOLS]
    made_by += [str(STANDARD_TYPES)]  # the classes of tokens in code
    made_by += [
        path.read_text("utf-8") for path in sorted(TEMPLATES.rglob("*.j2"))
    ]
    key = sha256("\n".join(made_by).encode()).hexdigest()[:16]
    plugin = config.plugins["mkdocs-jupyter"]
    plugin.config["cache_dir"] = f".cache/mkdocs-jupyter/{key}"


def plain(html: str, ids: Sequence[str]) -> str:
    """Return the cells alone, with the site's own links at their headings.

    Args:
        html: what mkdocs-jupyter made of the notebook.
        ids: of the headings, in the table of contents. nbconvert gives others
            to those with code in them.

    Raises:
        ValueError: there are more or fewer headings than ids.
    """
    cells, _, _ = html.rpartition("<style>")  # added behind them, unasked
    headings = _HEADING.findall(cells)
    if len(headings) != len(ids):
        raise ValueError(f"{len(headings)} headings, {len(ids)} of contents")
    names = iter(ids)

    def named(heading: re.Match[str]) -> str:
        name, level = next(names), heading["level"]
        link = f'<a class="headerlink" href="#{name}">'
        return f'<{level} id="{name}">{heading["text"]}{link}'

    return _HEADING.sub(named, cells)
