"""The deck is one that Anki reads, and an update keeps what was learned."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from lockstep.cli import main
from lockstep.practice import bank, deck
from lockstep.practice.cards import TOPICS, Card, cards

CARDS = [
    card for card in cards(bank.load().values()) if card.sort != "estimate"
]
# The fields of the two types of notes that a collection may have, in order.
FIELDS = {
    "Basic": ["Front", "Back"],
    "Lockstep": ["Id", "Title", "Kind", "Question", "Answer"],
}


def headers(text: str) -> tuple[dict[str, list[str]], str]:
    """What the lines at the top say, and the rest: Anki's rules for headers."""
    found: dict[str, list[str]] = {}
    while text.startswith("#"):
        line, _, text = text.partition("\n")
        key, _, value = line[1:].partition(":")
        found.setdefault(key, []).append(value)
    return found, text


def notes(path: Path, known: str = "Basic") -> dict[str, dict[str, str]]:
    """By GUID, what Anki takes from the file where it has that type of note:
    columns are found by their names."""
    head, rest = headers(path.read_text("utf-8"))
    assert head["separator"] == ["tab"]
    assert head["html"] == ["true"]
    assert known in head["notetype"]
    [labels] = (line.split("\t") for line in head["columns"])
    meta = {
        name: int(head[f"{name} column"][0]) - 1
        for name in ("guid", "deck", "tags")
    }
    found = {}
    for row in csv.reader(rest.splitlines(keepends=True), delimiter="\t"):
        assert len(row) == len(labels)
        about = {name: row[place] for name, place in meta.items()}
        sides = {x: row[labels.index(x)] for x in FIELDS[known]}
        assert about["guid"] not in found
        found[about["guid"]] = about | sides
    return found


def written(
    some: list[Card], path: Path, known: str = "Basic"
) -> dict[str, dict[str, str]]:
    deck.write(some, path)
    found = notes(path, known)
    return {card.id: found[deck.guid(card)] for card in some}


@pytest.mark.parametrize("known", FIELDS)
def test_every_question_is_a_note_with_both_sides(
    tmp_path: Path, known: str
) -> None:
    found = written(CARDS, tmp_path / "deck.txt", known)
    assert len(notes(tmp_path / "deck.txt")) == len(CARDS)
    for card in CARDS:
        note = found[card.id]
        *_, front, back = (note[name] for name in FIELDS[known])
        assert front.startswith("<")
        assert "<p><strong>" in back[:100]
        for text in note.values():
            assert "{{" not in text
            assert "<img" not in text
        tags = f"topic::{card.topic} level::{card.level}"
        assert note["tags"] == tags
        assert note["deck"] == f"Lockstep::{TOPICS[card.topic]}"


def test_the_type_of_an_older_deck_comes_before_that_of_anki(
    tmp_path: Path,
) -> None:
    """Anki takes the last type that it knows, and updates notes of no other."""
    deck.write(CARDS[:1], tmp_path / "deck.txt")
    head, _ = headers((tmp_path / "deck.txt").read_text("utf-8"))
    assert head["notetype"] == ["Basic", "Lockstep"]
    assert head["if matches"] == ["update current"]


def test_an_update_changes_the_text_and_no_id(tmp_path: Path) -> None:
    before = written(CARDS, tmp_path / "before.txt", "Lockstep")
    changed = [replace(CARDS[0], back="Other *words*."), *CARDS[2:]]
    after = written(changed, tmp_path / "after.txt", "Lockstep")
    one = CARDS[0].id
    assert after[one]["guid"] == before[one]["guid"]
    assert after[one]["Answer"].strip() == "<p>Other <em>words</em>.</p>"
    assert CARDS[1].id not in after
    assert all(after[name]["guid"] == before[name]["guid"] for name in after)


def test_ids_are_those_of_every_release() -> None:
    # Another GUID here would make every reader's progress worthless.
    hang = next(card for card in CARDS if card.id == "prompt:hang")
    assert deck.guid(hang) == "B1&]GzZeK?"


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("distributed-sampler-padding", "e!E-VELU.a"),  # six-and-five-again
        ("nccl-timeout", "D3QK2q!]F}"),  # nccl-time-out
    ],
)
def test_renamed_question_keeps_its_note(name: str, known: str) -> None:
    card = replace(CARDS[0], id=name)
    assert deck.guid(card) == known


def test_what_looks_like_html_is_text(tmp_path: Path) -> None:
    card = replace(CARDS[0], title="a < b & c", front="`<b>` <i>x</i>")
    front = written([card], tmp_path / "deck.txt")[card.id]["Front"]
    assert "<h3>a &lt; b &amp; c</h3>" in front
    assert "<code>&lt;b&gt;</code> &lt;i&gt;" in front


def test_the_command_filters_and_replaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "deck.txt"
    for topic in ([], ["--topic", "prompts"]):
        assert main(["export", "anki", str(path), *topic]) == 0
        found = [note["Id"] for note in notes(path, "Lockstep").values()]
        assert f"{len(found)} cards in {path}" in capsys.readouterr().out
        assert not any(name.startswith("estimate:") for name in found)
    assert all(name.startswith("prompt:") for name in found)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["deck.apkg"], "a deck is a text file for Anki now: write deck.txt"),
        (["no/folder/deck.txt"], "no/folder/deck.txt: "),
        (["deck.txt", "--topic", "weather"], "there is no topic weather"),
        (["deck.txt", "--level", "junior"], "there is no level junior"),
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
