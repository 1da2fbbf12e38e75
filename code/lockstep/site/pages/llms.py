"""llms.txt, and each page as one Markdown file: for whoever reads no HTML.

The format is that of https://llmstxt.org. A file stands where its source does,
handbook.md beside handbook/, so links between pages hold as they
are written. Code is included, figures are computed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from bs4 import BeautifulSoup, Tag
from markdown import Markdown
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from pymdownx.snippets import (
    SnippetExtension,
    SnippetMissingError,
    SnippetPreprocessor,
)

RULES = (
    "An interview's own rules come first: where they allow no help, close this"
    " file."
)
_CODE = Path(__file__).parents[3]
_MODULE = re.compile(r"^::: ([\w.]+)\n?(?: {4}.*\n?)*", re.M)
_MARKER = re.compile(r"^ *# --8<-- \[.*\n", re.M)
_BUTTONS = re.compile(
    r"^(\[Open in Colab\].*)\n[^\0]*?^\{ \.notebook \}$", re.M
)
_FIGURE = re.compile(r'<a class="figure"[^>]*>(.*?)</a>')
_PROOF = re.compile(r'<a class="proof"[^>]*>.*?>([\d,]+)</sup></a>')
_ENTRY = re.compile(r"^ *\{ #proof-\d+ \.proof-entry \}\n?", re.M)
_COMMENT = re.compile(r"^ *<!--.*?-->\n?", re.M | re.S)
_CLASSES = re.compile(r"(?<=[\])}])\{ ?(?:[.#][\w-]+ ?)+\}")
_FENCE = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.M | re.S)
_HTML = re.compile(
    r"^<(?:details|figure|svg)\b.*>$"
    r"|^<form\b.*$|^<(?:div|section)\b.{500,}$"
    r'|^<div class="practice" .*>$',
    re.M,
)
_CLOCK = re.compile(r'^<div class="clock">\n.*?^</div>\n\n', re.M | re.S)
_LAYOUT = re.compile(r"^</?div[^<>\n]*>\n+", re.M)
_LINK = re.compile(r"\[([^][]*)\]\([^)]*\)")
_MARKS = re.compile(r"\*\*|[*`]|</?\w+[^>]*>")
_SENTENCE = re.compile(r".+?[.?!](?=\s|$)", re.S)


def text(page: Page, config: MkDocsConfig) -> str:
    """Return a page as one file: its Markdown, and nothing to be fetched for
    it."""
    parts, snippets = [], _snippets(config)
    for source, is_code in _split(page.markdown or ""):
        found = _expanded(source, snippets)
        if is_code:
            parts.append(_refenced(found))
            continue
        for inside, is_code in _split(found):
            parts.append(inside if is_code else _prose(inside, page))
    whole = _MODULE.sub(_module, "".join(parts)).strip()
    return f"> {RULES}\n\n{whole}\n"


def _split(text: str) -> Iterator[tuple[str, bool]]:
    """Its parts, each with whether it is a block of code."""
    end = 0
    for fence in _FENCE.finditer(text):
        yield text[end : fence.start()], False
        yield fence[0], True
        end = fence.end()
    yield text[end:], False


def _refenced(block: str) -> str:
    """With a fence that is longer than any that was included, and no empty line
    before its end."""
    head, *inside, foot = block.split("\n")
    while inside and not inside[-1].strip():
        inside.pop()
    marks = [m[0].count("`") for x in inside if (m := re.match(" *`{3,}", x))]
    more = "`" * max(0, 1 + max(marks, default=0) - foot.count("`"))
    indent = re.match(" *", head)[0]  # type: ignore[index]
    return "\n".join([indent + more + head.lstrip(), *inside, foot + more])


def _snippets(config: MkDocsConfig) -> SnippetPreprocessor:
    """Return a preprocessor that reads includes as the strict build does."""
    extension = SnippetExtension(**config.mdx_configs["pymdownx.snippets"])
    return SnippetPreprocessor(extension.getConfigs(), Markdown())


def _expanded(text: str, snippets: SnippetPreprocessor) -> str:
    """With its includes."""
    try:
        return "\n".join(snippets.run(text.split("\n")))
    except SnippetMissingError as error:
        raise ValueError(str(error)) from None


def _prose(text: str, page: Page) -> str:
    """Without what only a browser or a test reads."""

    def widget(html: re.Match[str]) -> str:
        if not html[0].startswith(("<details", "<figure", "<svg")):
            return f"A form, on [the page]({page.canonical_url})."
        soup = BeautifulSoup(html[0], "html.parser")
        drawn = [svg.extract() for svg in soup("svg")]  # narrow, then wide
        parts = [_described(svg) for svg in drawn[:1]]
        for row in soup("tr"):
            row.replace_with(row.get_text(" | ", strip=True) + "\n")
        if said := soup.get_text("\n", strip=True):
            parts.append(f"```text\n{said}\n```")
        return "\n\n".join(parts)

    text = _CLOCK.sub("", _BUTTONS.sub(r"> \1", _COMMENT.sub("", text)))
    text = _LAYOUT.sub("", _HTML.sub(widget, text))
    text = _ENTRY.sub("", _PROOF.sub(r" [proof \1]", text))
    return _CLASSES.sub("", _FIGURE.sub(r"\1", text))


def _described(svg: Tag) -> str:
    """Describe a picture in words, as it does for readers who cannot see it."""
    return f"A chart. {svg.get('aria-label') or svg.find('desc').get_text()}"  # type: ignore[union-attr]


def _module(found: re.Match[str]) -> str:
    """Return the source of a module, which is its reference.

    It is looked up as a file: to find the module `a.b`, Python imports `a`, and
    with it what the environment of the site does not have.
    """
    path = _CODE.joinpath(*found[1].split(".")).with_suffix(".py")
    if not path.is_file():
        raise ValueError(f"there is no module {found[1]}: {path} is no file")
    source = _MARKER.sub("", path.read_text("utf-8")).rstrip()
    return f"# {found[1]}\n\n```python\n{source}\n```"


def first_sentence(markdown: str) -> str:
    """Return a page's first sentence, on one line; for a module its
    docstring's."""
    docstring = re.search(
        r'```python\n(?:#.*\n)*"""(.+?)(?:\n\n|""")', markdown, re.S
    )
    blocks = re.split(r"\n\s*\n", _FENCE.sub("", markdown))
    prose = [
        block
        for block in blocks
        if not re.match(r"\s*(?:[#>|<\-]|!!!|\?\?\?|===)", block)
        and block.strip()
    ]
    said = docstring[1] if docstring and not prose else (prose or [""])[0]
    said = " ".join(_MARKS.sub("", _LINK.sub(r"\1", said)).split())
    found = _SENTENCE.match(said)
    return found[0] if found else said


def listed(
    config: MkDocsConfig, titles: dict[str, str], texts: dict[str, str]
) -> str:
    """llms.txt: the pages of the navigation, section by section."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    lines += [RULES, ""]
    for section, pages in sections(config.nav):
        lines += [f"## {section}", ""]
        for within, uri in pages:
            title = ": ".join([*within, titles[uri]])
            address = urljoin(config.site_url or "/", uri)
            note = first_sentence(texts[uri])
            lines.append(f"- [{title}]({address}): {note}")
        lines.append("")
    return "\n".join(lines)


Pages = list[tuple[tuple[str, ...], str]]


def sections(nav: Any) -> list[tuple[str, Pages]]:
    """Return the parts of a navigation, as mkdocs.yml has it, each with its
    pages and what they stand under within it; pages outside all parts come
    first."""
    first: Pages = []
    found = []
    for item in nav or []:
        if isinstance(item, dict) and isinstance(
            inside := next(iter(item.values())), list
        ):
            found.append((next(iter(item)), [*_pages(inside, ())]))
        else:
            first += _pages([item], ())
    return [("Start", first), *found] if first else found


def _pages(nav: list[Any], within: tuple[str, ...]) -> Iterator[Any]:
    for item in nav:
        if isinstance(item, str):
            yield within, item
            continue
        [(title, inside)] = item.items()
        if isinstance(inside, list):
            yield from _pages(inside, (*within, title))
        else:
            yield within, inside


def linked(html: str, page: Page, config: MkDocsConfig) -> str:
    """Add a link to the page's Markdown to its HTML."""
    if not page.file.src_uri.endswith(".md"):
        return html
    address = urljoin(config.site_url or "/", page.file.src_uri)
    # The space says nothing to HTML, and hides it from Material, which takes
    # every link[rel=alternate] for a translation with a sitemap of its own.
    link = f'<link rel="alternate " type="text/markdown" href="{address}">'
    return html.replace("</head>", f"{link}</head>", 1)


def publish(files: Files, config: MkDocsConfig) -> None:
    """Write llms.txt, and the Markdown of every page. Where a server has read
    only what was changed, what it did not read stays as it is.

    Raises:
        ValueError: a page includes a file, or names a module, that there is
            none of.
    """
    pages = {
        file.src_uri: file.page
        for file in files.documentation_pages()
        if file.page is not None and file.src_uri.endswith(".md")
    }
    read = {
        uri: page for uri, page in pages.items() if page.markdown is not None
    }
    texts = {uri: text(page, config) for uri, page in read.items()}
    site = Path(config.site_dir)
    for uri, markdown in texts.items():
        target = site / uri
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(markdown, "utf-8")
    if len(read) == len(pages):
        titles = {uri: str(page.title) for uri, page in pages.items()}
        whole = listed(config, titles, texts)
        site.joinpath("llms.txt").write_text(whole, "utf-8")
