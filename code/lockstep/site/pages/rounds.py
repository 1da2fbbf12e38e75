"""The design rounds on the site: for each of them the round itself, a page for
the candidate and one for the interviewer, and a list of all.

All of it is made at build time from `lockstep.practice.rounds`, where the
navigation has a place for the list.
"""

from __future__ import annotations

import json
import posixpath
from html import escape
from textwrap import indent
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files

from lockstep.practice.bank import TOPICS
from lockstep.practice.figures import template
from lockstep.practice.rounds import STAGES, Round, rounds
from lockstep.site.pages import generated
from lockstep.site.pages.questions import (
    ROUNDS,
    TEMPLATES,
    evidence,
    filling,
    names,
    tree,
)

HOME = posixpath.dirname(ROUNDS)


def publish(
    files: Files, config: MkDocsConfig, repository: str
) -> generated.Groups:
    """Add the pages, if the navigation names the list. Return the list's
    groups, which are the three pages of each round.

    Raises:
        PluginError: a round is not whole, or a figure cannot be computed.
    """
    if not names(config.nav, ROUNDS):
        return {}
    try:
        found = list(rounds().values())
        pages = {ROUNDS: index(found)}
        groups = {}
        for one in found:
            made = pages_of(one, repository)
            groups[one.title] = list(made)
            pages |= made
    except ValueError as error:
        raise PluginError(f"rounds: {error}") from None
    for address, text in pages.items():
        files.append(generated.page(config, address, text))
    return {ROUNDS: groups}


def index(found: list[Round]) -> str:
    """Return the Markdown of the list."""
    return _template("rounds.md").render(rows=found, topics=TOPICS)


def pages_of(one: Round, repository: str) -> dict[str, str]:
    """Return the Markdown of a round's three pages, by address."""
    return {
        address: page(name, address, one, repository)
        for name, address in (
            ("round.md", f"{HOME}/{one.id}.md"),
            ("candidate.md", f"{HOME}/{one.id}/candidate.md"),
            ("interviewer.md", f"{HOME}/{one.id}/interviewer.md"),
        )
    }


def page(name: str, address: str, one: Round, repository: str) -> str:
    """Return the Markdown of one of them."""
    shown = filling(address, repository)
    clock = [[STAGES[key], of.minutes] for key, of in one.stages.items()]
    return _template(name).render(
        one=one,
        topic=TOPICS[one.topic],
        titles=STAGES,
        begins=one.begins,
        stages=escape(json.dumps(clock)),
        shown=shown,
        tree=tree(one.pushbacks, shown),
        evidence=shown(evidence(one, repository)),
        quoted=lambda text: indent(text, "> ", lambda _: True),
        folded=lambda text: indent(text, "    "),
        line=_line,
        quote=lambda text: _line(text).replace('"', "'"),
    )


def _line(text: str) -> str:
    return " ".join(text.split())


def _template(name: str) -> Any:
    return template((TEMPLATES / name).read_text("utf-8"))
