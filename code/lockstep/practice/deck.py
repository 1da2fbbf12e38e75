"""The bank as an Anki deck, which an update changes without losing progress.

Anki knows a note by its GUID. Ours follows from the first id that the question
had, so text and ids may change, and reviews stay. The deck is a text file;
its headers are those of Anki's manual, under "Text Files".
"""

from __future__ import annotations

import csv
import hashlib
import io
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

from . import bank
from .cards import TOPICS, Card

NAME = "Lockstep"
# A note is of the type that comes with Anki, except where an older deck of ours
# has left a type of its own: of two `notetype` lines, the last that is known
# counts. Their fields are found by name, so each side is there for both.
_COLUMNS = "GUID", "Deck", "Tags", "Front", "Back"
_OLDER = "Id", "Title", "Kind", "Question", "Answer"
_HEADERS = f"""\
#separator:tab
#html:true
#if matches:update current
#guid column:1
#deck column:2
#tags column:3
#notetype:Basic
#notetype:{NAME}
"""
# What Anki writes a GUID with; its value is a number of 64 bits.
_DIGITS = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    "!#$%&()*+,-./:;<=>?@[]^_`{|}~"
)
_WRITER = MarkdownIt("commonmark", {"html": False}).enable("table")


def guid(card: Card) -> str:
    """Return a card's GUID in Anki, which follows from its first id alone."""
    first = {new: old for old, new in reversed([*bank.renamed().items()])}
    known = first.get(card.id, card.id)
    digest = hashlib.sha256(f"{NAME}__{known}".encode()).digest()
    number, found = int.from_bytes(digest[:8], "big"), ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        found = _DIGITS[digit] + found
    return found


def row(card: Card) -> list[str]:
    """One card, in the order of the columns."""
    kind = ", ".join(filter(None, [TOPICS[card.topic], card.level]))
    tags = [f"topic::{card.topic}"]
    if card.level:
        tags.append(f"level::{card.level}")
    title = escape(card.title, quote=False)
    question, answer = map(_WRITER.render, (card.front, card.back))
    front = f"<p><small>{kind}</small></p><h3>{title}</h3>{question}"
    sides = (
        f'<div style="text-align: left">{x}</div>' for x in (front, answer)
    )
    deck = f"{NAME}::{TOPICS[card.topic]}"
    shown = guid(card), deck, " ".join(tags), *sides
    return [*shown, card.id, title, kind, question, answer]


def text(cards: list[Card]) -> str:
    """Write the whole file with all fields quoted, since a GUID may begin with
    `#`."""
    file = io.StringIO()
    labels = "\t".join([*_COLUMNS, *_OLDER])
    file.write(f"{_HEADERS}#columns:{labels}\n")
    writer = csv.writer(
        file, delimiter="\t", quoting=csv.QUOTE_ALL, lineterminator="\n"
    )
    writer.writerows(map(row, cards))
    return file.getvalue()


def write(cards: list[Card], path: Path) -> None:
    """Write the deck into a file, as a whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    beside = path.with_name(path.name + ".new")
    beside.write_text(text(cards), "utf-8")
    beside.replace(path)
