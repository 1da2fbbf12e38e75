"""A quiz asks what is due, and no grade is lost."""

from __future__ import annotations

import io
import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from select import select

import fsrs
import pytest
from rich.console import Console

from lockstep.cli import main, quiz
from lockstep.planner.figures import PlanError
from lockstep.practice import bank
from lockstep.practice.cards import (
    SORTS,
    TOPICS,
    Card,
    Kept,
    Progress,
    cards,
    chosen,
    computed_card,
    drawn,
    graded,
    listed,
    read,
    write,
)
from lockstep.practice.kinds import KINDS
from tests.conftest import ROOT

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
LEAVES = KeyboardInterrupt, EOFError
# The browser's scheduler on the same grades, each when the card is due.
BROWSER = """
import { createEmptyCard, fsrs } from "ts-fsrs";
const scheduler = fsrs();
for (const grades of JSON.parse(process.argv[1])) {
  let now = new Date("2026-11-22T12:00:00Z");
  let card = createEmptyCard(now);
  for (const grade of grades) {
    const before = card;
    card = scheduler.next(card, now, grade).card;
    now = card.due;
    console.log(JSON.stringify([before, grade, card]));
  }
}
"""


@cache
def every() -> list[Card]:
    """The cards of the questions on trial, and all that are no questions."""
    return cards(bank.load().values())


def test_every_sort_of_card_is_there_whole() -> None:
    assert {card.sort for card in every()} == {*SORTS}
    assert len({card.id for card in every()}) == len(every())
    prompts = [card for card in every() if card.sort == "prompt"]
    page = (ROOT / "docs/practice/mock-prompts.md").read_text("utf-8")
    assert len(prompts) == page.count('??? question "First move"') >= 16
    for card in every():
        assert card.topic in TOPICS
        assert card.title
        text = card.front + card.back
        if card.sort == "estimate":
            card, given = drawn(card, 3)
            assert given["answer"] in card.back
            text = card.front + card.back
        assert card.front
        assert card.back
        assert not re.search(r"{{|{%|<a |<!--|\]\((?!https?:)", text), card.id


LOOKS = [
    *("Ask", "Audit", "Compare", "Compute", "Count", "Divide", "Find"),
    *("Multiply", "Read"),
]


def section(page: str, anchor: str) -> str:
    """The text under a heading, up to the next heading."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    return text.partition(f"{{ #{anchor} }}\n")[2].partition("\n#")[0]


def test_a_first_move_looks_before_it_changes_anything() -> None:
    """Each first move of the mock prompts, the cheat sheet and the handbook's
    table begins with a verb that reads or compares and leaves a job alone."""
    prompts = [card.back for card in every() if card.sort == "prompt"]
    moves = [re.search(r"\*\*(\w+)", back) for back in prompts]
    found = [move[1] for move in moves if move]
    sheet = section("cheat-sheet.md", "moves")
    found += re.findall(r"^- \*\*.+?\*\*: (\w+)", sheet, re.M)
    table = section("handbook.md", "perf-table")
    found += re.findall(r"^\| .+ \| .+ \| (\w+) [^|]+\|$", table, re.M)[1:]
    assert len(found) == len(prompts) + 7 + 6
    assert {word.capitalize() for word in found} <= {*LOOKS}


def test_a_quiz_computes_the_cards_that_it_shows_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quiz starts without computing the bank's figures."""
    computed: list[str] = []

    def counted(card: Card) -> Card:
        computed.append(card.id)
        return computed_card(card)

    monkeypatch.setattr("lockstep.practice.cards.computed_card", counted)
    table = Table(tmp_path / "cards.json", chosen(listed(), kind="question"))
    table.sit(["", "3", "q"])
    assert len(computed) == 2
    assert "{{" not in table.written.getvalue()


def test_filters_choose() -> None:
    assert chosen(every()) == every()
    memory = chosen(every(), topic="memory")
    assert {card.topic for card in memory} == {"memory"}
    assert {"question", "estimate"} == {card.sort for card in memory}
    staff = chosen(every(), level="staff")
    assert {card.level for card in staff} == {"staff"}
    assert len(chosen(every(), kind="estimate")) == len(KINDS)
    [one] = chosen(every(), kind="ring-seconds")
    assert one.id == "estimate:ring-seconds"
    for no in (
        {"topic": "weather"},
        {"level": "junior"},
        {"kind": "poem"},
        {"kind": "estimate", "level": "staff"},
    ):
        with pytest.raises(PlanError, match=r"^there is no|^no card has"):
            chosen(every(), **no)


@pytest.mark.usefixtures("node_modules")
def test_a_browser_would_ask_when_we_do() -> None:
    numbers = random.Random(5)
    runs = [numbers.choices((1, 2, 3, 4), k=6) for _ in range(30)]
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("node")),
            *("--input-type=module", "-e", BROWSER, json.dumps(runs)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 180
    for before, grade, after in lines:
        known = Kept.model_validate(before) if before["reps"] else None
        now = datetime.fromisoformat(after["last_review"])
        ours = graded(known, fsrs.Rating(grade), now)
        theirs = Kept.model_validate(after)
        for key in ("stability", "difficulty"):
            same = pytest.approx(getattr(theirs, key), rel=1e-4)
            assert getattr(ours, key) == same, (before, grade)
        for key in ("state", "learning_steps", "reps", "lapses"):
            assert getattr(ours, key) == getattr(theirs, key), (before, grade)
        # There Good comes a day after Hard at least, and Easy a day after it;
        # and Hard is a little sooner while a card is learned.
        off = theirs.due - ours.due
        assert timedelta(minutes=-4) <= off <= timedelta(days=2)


def kept(due: datetime, last: datetime = NOW) -> Kept:
    one = graded(None, fsrs.Rating.Good, last)
    return one.model_copy(update={"due": due})


def test_progress_is_what_the_browser_exports(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cards.json"
    write(path, Progress(cards={"a": kept(NOW)}))
    assert read(path).cards["a"] == kept(NOW)
    given = json.loads(path.read_text())
    assert given["version"] == 1
    assert given["cards"]["a"]["due"] == "2026-11-22T12:00:00.000Z"
    # The words that docs/assets/practice/cards.js checks.
    script = (ROOT / "docs/assets/practice/cards.js").read_text("utf-8")
    assert all(f'"{name}"' in script or f"  {name}:" in script
               for name in Kept.model_fields)  # fmt: skip


def test_of_two_files_the_later_review_is_taken() -> None:
    later = NOW + timedelta(days=1)
    ours = Progress(cards={"a": kept(NOW), "b": kept(NOW, later)})
    theirs = Progress(
        cards={"a": kept(NOW, later), "b": kept(NOW), "c": kept(NOW)}
    )
    assert ours.take(theirs) == 2
    reviewed = {name: one.last_review for name, one in ours.cards.items()}
    assert reviewed == {"a": later, "b": later, "c": NOW}


def test_progress_follows_a_renamed_question(tmp_path: Path) -> None:
    """A file that names the old id is read under the new id. If it has both,
    the later review counts."""
    old, new = "six-and-five-again", "distributed-sampler-padding"
    path, later = tmp_path / "cards.json", NOW + timedelta(days=1)
    for before, counts in (
        ({old: kept(NOW)}, NOW),
        ({old: kept(NOW), new: kept(NOW, later)}, later),
        ({old: kept(NOW, later), new: kept(NOW)}, later),
    ):
        path.write_text(
            json.dumps(
                {
                    "version": 1,
                    "cards": {
                        name: one.model_dump(mode="json")
                        for name, one in before.items()
                    },
                }
            )
        )
        known = read(path).cards
        assert [*known] == [new]
        assert known[new].last_review == counts


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "the whole: Invalid JSON"),
        ('{"version": 2}', "version: Input should be 1"),
        ('{"cards": {"a": {}}}', "cards.a.due: Field required"),
        ('{"cards": []}', "cards: Input should be an object"),
    ],
)
def test_a_file_that_is_none_is_refused_in_a_line(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cards.json"
    path.write_text(text)
    assert main(["quiz", "--progress", str(path)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {path}: {why}")
    assert path.read_text() == text


class Table:
    """A console that is written into a text, and a person who types."""

    def __init__(self, path: Path, some: list[Card]) -> None:
        self.path, self.some = path, some
        self.asked: list[str] = []
        self.written = io.StringIO()

    def sit(self, typed: Iterable[str | type[BaseException]]) -> int:
        """Answer with these; what is an exception is raised."""
        console = Console(file=self.written, width=100)
        hands = iter(typed)

        def ask(prompt: str) -> str:
            self.asked.append(prompt)
            one = next(hands)
            if isinstance(one, str):
                return one
            raise one

        known = read(self.path) if self.path.exists() else Progress()
        numbers = random.Random(1)
        return quiz.session(
            console, ask, self.some, known, self.path, 5, numbers
        )

    @property
    def said(self) -> str:
        return self.written.getvalue()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    some = [card for card in every() if card.sort == "prompt"][:2]
    return Table(tmp_path / "cards.json", some)


def test_a_card_is_asked_shown_graded_and_kept(table: Table) -> None:
    first = quiz.coming(table.some, Progress())
    assert first is not None
    assert table.sit(["", "", "5", "3", "q"]) == 0
    assert first.title in table.said
    assert "Nothing is no grade" in table.said
    assert "5 is no grade" in table.said
    assert "1 answered; kept in" in table.said
    known = read(table.path).cards
    assert [*known] == [first.id]
    assert known[first.id].reps == 1
    # The one that is new comes next, then none: both wait.
    other = quiz.coming(table.some, read(table.path))
    assert other is not None
    assert other.id != first.id
    assert table.sit(["", "4"]) == 0
    assert table.sit([]) == 0
    assert "Nothing is due. The next card is, in" in table.said


def test_what_is_due_comes_before_what_is_new(table: Table) -> None:
    one, two = table.some
    past = datetime.now(UTC) - timedelta(days=1)
    for card in (one, two):
        assert quiz.coming(table.some, Progress(cards={card.id: kept(past)})) \
            == card  # fmt: skip
    early = kept(past - timedelta(days=1))
    known = Progress(cards={one.id: kept(past), two.id: early})
    assert quiz.coming(table.some, known) == two


@pytest.mark.parametrize("leaves", LEAVES)
def test_who_leaves_keeps_every_grade(
    leaves: type[BaseException], table: Table
) -> None:
    code = table.sit(["", "3", "", leaves])
    assert code == (130 if leaves is KeyboardInterrupt else 0)
    assert len(read(table.path).cards) == 1
    assert "1 answered; kept in" in table.said


def test_an_estimate_is_checked_and_proposes_its_grade(tmp_path: Path) -> None:
    table = Table(tmp_path / "cards.json", chosen(every(), kind="mtbf"))
    assert table.sit(["many", "1 s", ""]) == 0
    assert "many is no estimate here" in table.said
    assert "too low, not within a factor of 1.5" in table.said
    assert "(Enter is 1)" in table.asked[-1]
    known = read(table.path).cards["estimate:mtbf"]
    assert (known.due - known.last_review) == timedelta(minutes=1)
    again = Table(tmp_path / "other.json", chosen(every(), kind="mtbf"))
    _, given = drawn(again.some[0], random.Random(1).randrange(1_000_000))
    assert again.sit([f"{given['value']} s", ""]) == 0
    assert "right on it" in again.said
    assert "(Enter is 3)" in again.asked[-1]


def test_a_file_that_cannot_be_written_is_said(table: Table) -> None:
    table.path.mkdir()
    with pytest.raises(PlanError, match=r"cards\.json: "):
        write(table.path, Progress())


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--topic", "weather"], "there is no topic weather; there is arith"),
        (["--level", "junior"], "there is no level junior; there is senior"),
        (["--kind", "poem"], "there is no kind poem; there is question"),
        (["--count", "0"], "--count is 0; it must be 1 or more"),
        (["--show", "poem"], "there is no kind poem; there is activations"),
        (["--show", "mtbf", "--seed", "-1"], "--seed is -1; it must be 0 to"),
        (["--import", "no-such-file"], "no-such-file: "),
    ],
)
def test_bad_input_is_one_line(
    args: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quiz", *args]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {why}")


def test_one_question_is_shown_with_its_derivation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["quiz", "--show", "mtbf", "--seed", "2"]) == 0
    said = capsys.readouterr().out
    assert "mtbf_seconds = 3600 * gpu_mtbf_hours / gpus = 3600 * " in said
    assert "in round numbers" in said


def test_progress_is_exported_and_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs, ours = tmp_path / "browser.json", tmp_path / "ours.json"
    back = tmp_path / "back.json"
    write(theirs, Progress(cards={"prompt:hang": kept(NOW)}))
    keep = ["quiz", "--progress", str(ours)]
    assert main([*keep, "--import", str(theirs)]) == 0
    assert main([*keep, "--take", str(theirs), "--export", str(back)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 cards imported")
    assert "0 cards imported" in said
    assert back.read_text() == theirs.read_text()


def in_a_terminal() -> None:
    """The terminal is its own, and Ctrl-C a signal to it: a shell's background
    jobs have that one ignored, and so would this process."""
    os.close(os.open(os.ttyname(0), os.O_RDWR))
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_in_a_terminal_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cards.json"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "lockstep.cli", "quiz", "--kind", "prompt"),
            *("--progress", str(path)),
        ],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=in_a_terminal,
        env=os.environ | {"TERM": "dumb", "COLUMNS": "100"},
    )
    os.close(theirs)
    said = ""

    def until(text: str, key: bytes = b"") -> None:
        nonlocal said
        while text not in said:
            # A signal between a prompt and its read waits for the next key.
            while not select([ours], [], [], 5)[0]:
                os.write(ours, key)
            said += os.read(ours, 4096).decode(errors="replace")
        said = said.partition(text)[2]

    until("then Enter:")
    os.write(ours, b"\n")
    until("4 easy:")
    os.write(ours, b"3\n")
    until("then Enter:")
    os.write(ours, b"\x03")
    until("1 answered; kept in", key=b"\x03")
    assert process.wait(timeout=60) == 130
    os.close(ours)
    assert len(read(path).cards) == 1
