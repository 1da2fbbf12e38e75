"""The deck is one that Anki reads, and an update keeps what was learned."""

import json
import sqlite3
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from lockstep.cli import main
from lockstep.practice import bank, deck
from lockstep.practice.cards import Card, cards

CARDS = [
    card for card in cards(bank.load().values()) if card.sort != "estimate"
]


def opened(path: Path) -> sqlite3.Connection:
    """The collection that a package holds."""
    with zipfile.ZipFile(path) as package:
        assert {*package.namelist()} == {"collection.anki2", "media"}
        assert json.loads(package.read("media")) == {}
        package.extract("collection.anki2", path.parent)
    return sqlite3.connect(path.parent / "collection.anki2")


def notes(path: Path) -> dict[str, tuple[str, list[str], str]]:
    """By id: GUID, fields and tags."""
    with opened(path) as collection:
        found = collection.execute("select guid, flds, tags from notes")
        rows = [(guid, flds.split("\x1f"), tags) for guid, flds, tags in found]
    return {fields[0]: (guid, fields, tags) for guid, fields, tags in rows}


def written(some: list[Card], path: Path) -> dict[str, tuple]:
    deck.write(some, path)
    return notes(path)


def test_every_question_is_a_note_with_both_sides(tmp_path: Path) -> None:
    found = written(CARDS, tmp_path / "deck.apkg")
    assert found.keys() == {card.id for card in CARDS}
    assert len({guid for guid, _, _ in found.values()}) == len(CARDS)
    for card in CARDS:
        _, (_, title, kind, front, back), tags = found[card.id]
        assert front.startswith("<")
        assert back.startswith("<p><strong>")
        for text in (title, kind, front, back):
            assert "{{" not in text
            assert "<img" not in text
        assert f" topic::{card.topic} " in tags
        assert f" level::{card.level} " in tags
    with opened(tmp_path / "deck.apkg") as collection:
        [(count,)] = collection.execute("select count(*) from cards")
        [(decks, models)] = collection.execute("select decks, models from col")
    assert count == len(CARDS)
    names = {one["name"] for one in json.loads(decks).values()}
    assert "Lockstep::Memory" in names
    assert "Lockstep::First moves" in names
    [model] = json.loads(models).values()
    assert [field["name"] for field in model["flds"]][:2] == ["Id", "Title"]


def test_an_update_changes_the_text_and_no_id(tmp_path: Path) -> None:
    before = written(CARDS, tmp_path / "before.apkg")
    changed = [replace(CARDS[0], back="Other *words*."), *CARDS[2:]]
    after = written(changed, tmp_path / "after.apkg")
    one = CARDS[0].id
    assert after[one][0] == before[one][0]
    assert after[one][1][4].strip() == "<p>Other <em>words</em>.</p>"
    assert CARDS[1].id not in after
    assert all(after[name][0] == before[name][0] for name in after)
    with (
        opened(tmp_path / "before.apkg") as first,
        opened(tmp_path / "after.apkg") as second,
    ):
        [old], [new] = (
            x.execute("select distinct mid from notes") for x in (first, second)
        )
    assert old == new


def test_ids_are_those_of_every_release() -> None:
    # Another number here would make every reader's progress worthless.
    assert deck.MODEL.model_id == 1692184860
    hang = next(card for card in CARDS if card.id == "prompt:hang")
    assert deck.note(hang).guid == "B1&]GzZeK?"


def test_what_looks_like_html_is_text(tmp_path: Path) -> None:
    card = replace(CARDS[0], title="a < b & c", front="`<b>` <i>x</i>")
    _, fields, _ = written([card], tmp_path / "deck.apkg")[card.id]
    assert fields[1] == "a &lt; b &amp; c"
    assert "<code>&lt;b&gt;</code> &lt;i&gt;" in fields[3]


def test_the_command_filters_and_replaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "deck.apkg"
    for topic in ([], ["--topic", "prompts"]):
        assert main(["export", "anki", str(path), *topic]) == 0
        found = notes(path)
        assert f"{len(found)} cards in {path}" in capsys.readouterr().out
        assert not any(name.startswith("estimate:") for name in found)
    assert all(name.startswith("prompt:") for name in found)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["deck.zip"], "deck.zip must end in .apkg"),
        (["no/folder/deck.apkg"], "no/folder/deck.apkg: "),
        (["deck.apkg", "--topic", "weather"], "there is no topic weather"),
        (["deck.apkg", "--level", "junior"], "there is no level junior"),
    ],
)
def test_bad_input_is_one_line(
    args: list[str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", "anki", *args]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {why}")
    assert not list(tmp_path.iterdir())
