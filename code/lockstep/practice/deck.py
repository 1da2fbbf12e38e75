"""The bank as an Anki deck, which an update changes without losing progress.

Anki knows a note by its GUID. Ours follows from the question's id alone, so
text may change, and what somebody has learned stays.
"""

from __future__ import annotations

import hashlib
from html import escape
from pathlib import Path

import genanki
from markdown_it import MarkdownIt

from .cards import TOPICS, Card

NAME = "Lockstep"
_STYLE = """\
.card { font: 18px/1.5 sans-serif; text-align: left; }
.kind { opacity: .7; font-size: 14px; }
code { font-size: .9em; }
"""
_FRONT = '<p class="kind">{{Kind}}</p><h3>{{Title}}</h3>{{Question}}'
_WRITER = MarkdownIt("commonmark", {"html": False}).enable("table")


def number(text: str) -> int:
    """An id as Anki wants it, 31 bits, that follows from a text."""
    digest = hashlib.sha256(text.encode()).digest()
    return (1 << 30) | int.from_bytes(digest[:4], "big") >> 2


MODEL = genanki.Model(
    number("model"),
    NAME,
    fields=[
        {"name": name} for name in ("Id", "Title", "Kind", "Question", "Answer")
    ],
    templates=[
        {
            "name": "Card",
            "qfmt": _FRONT,
            "afmt": _FRONT + '<hr id="answer">{{Answer}}',
        }
    ],
    css=_STYLE,
    sort_field_index=0,
)


def note(card: Card) -> genanki.Note:
    """One card; its GUID follows from its id."""
    kind = ", ".join(filter(None, [TOPICS[card.topic], card.level]))
    tags = [f"topic::{card.topic}"]
    if card.level:
        tags.append(f"level::{card.level}")
    return genanki.Note(
        model=MODEL,
        fields=[
            card.id,
            escape(card.title, quote=False),
            kind,
            _WRITER.render(card.front),
            _WRITER.render(card.back),
        ],
        guid=genanki.guid_for(NAME, card.id),
        tags=tags,
    )


def package(cards: list[Card]) -> genanki.Package:
    """A deck for each topic, below one for all."""
    decks: dict[str, genanki.Deck] = {}
    for card in cards:
        name = f"{NAME}::{TOPICS[card.topic]}"
        deck = decks.setdefault(name, genanki.Deck(number(name), name))
        deck.add_note(note(card))
    return genanki.Package(list(decks.values()))


def write(cards: list[Card], path: Path) -> None:
    """Write the deck into a file, as a whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    beside = path.with_name(path.name + ".new")
    package(cards).write_to_file(str(beside))
    beside.replace(path)
