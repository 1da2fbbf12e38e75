"""The glossary: a page of it, and a definition at each word's first use.

`glossary.yml` has the words. The page lists them all; elsewhere a word is
marked once, as `<abbr title="…">`, so nothing but the hover needs the mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from lockstep.practice.bank import LOADER
from lockstep.site.pages.evidence import headings

DOCS = Path(__file__).parents[4] / "docs"
DATA = Path(__file__).with_suffix(".yml")
PAGE = "reference/glossary.md"

# Words in these are names, or already do something when they are touched.
_CLOSED = {"a", "abbr", "button", "code", "figure", "form", "kbd", "label"}
_CLOSED |= {"pre", "script", "style", "summary", "svg", "th"}
_CLOSED |= {f"h{level}" for level in range(1, 7)}
_TOKEN = re.compile(
    r"<!--.*?-->"
    r"|<(?P<close>/?)(?P<name>[a-zA-Z][\w-]*)"
    r"(?P<rest>(?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>",
    re.S,
)
_TITLE = re.compile(r'class="[^"]*\badmonition-title\b')


class Term(BaseModel):
    """A word and what it means here."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    term: str
    id: str  # of its place on the glossary's page
    forms: tuple[str, ...]  # what is marked in a text
    told: str  # a page below docs/ and the anchor that explains it
    means: str

    @property
    def place(self) -> str:
        """Where it is told, by the text of headings."""
        return place(self.told)


def place(target: str) -> str:
    """Return the headings of a page and of its section: `Memory: State`."""
    path, _, anchor = target.partition("#")
    found = headings(DOCS / path)
    title = next(iter(found.values()), path)
    section = found.get(anchor) or title
    return title if section == title else f"{title}: {section}"


@cache
def load(path: Path = DATA) -> dict[str, list[Term]]:
    """Return the words by subject.

    Raises:
        ValueError: an entry has another shape than `Term`.
    """
    whole = yaml.load(path.read_text("utf-8"), LOADER)
    return TypeAdapter(dict[str, list[Term]]).validate_python(whole)


def terms() -> list[Term]:
    """Return the words, in the page's order."""
    return [one for some in load().values() for one in some]


def marked(html: str) -> str:
    """Add a definition at each word's first use to a page's content.

    Args:
        html: what Markdown made of the page.
    """
    by_form, pattern = _forms()
    seen: set[str] = set()

    def mark(found: re.Match[str]) -> str:
        one = by_form[" ".join(found[0].split()).lower()]
        if one.id in seen:
            return found[0]
        seen.add(one.id)
        return f'<abbr title="{escape(one.means)}">{found[0]}</abbr>'

    return "".join(
        pattern.sub(mark, text) if is_open and not text.isspace() else text
        for text, is_open in _pieces(html)
    )


@cache
def _forms() -> tuple[dict[str, Term], re.Pattern[str]]:
    """Words by their form in lower case, and what finds each in a text."""
    by_form = {form.lower(): one for one in terms() for form in one.forms}
    forms = sorted(
        (form for one in terms() for form in one.forms), key=len, reverse=True
    )
    spelt = []
    for form in forms:
        first = re.escape(form[0])
        if form == form.lower() and form[0].isalpha():
            first = f"[{form[0]}{form[0].upper()}]"
        spelt.append(first + re.escape(form[1:]).replace(r"\ ", r"\s+"))
    return by_form, re.compile(rf"(?<![\w-])(?:{'|'.join(spelt)})(?![\w-])")


def _pieces(html: str) -> Iterator[tuple[str, bool]]:
    """Tags and texts in turn, and whether words may be marked there."""
    at, closed, depth = 0, "", 0
    for tag in _TOKEN.finditer(html):
        yield html[at : tag.start()], not closed
        yield tag[0], False
        at, name = tag.end(), (tag["name"] or "").lower()
        if closed:
            if name == closed and not (tag["rest"] or "").endswith("/"):
                depth += -1 if tag["close"] else 1
            closed = closed if depth else ""
        elif not tag["close"] and (
            name in _CLOSED or _TITLE.search(tag["rest"] or "")
        ):
            closed, depth = name, 1
    yield html[at:], not closed
