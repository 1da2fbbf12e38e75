"""The command `lockstep quiz`: spaced repetition in the terminal."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zlib import crc32

import tyro
from rich.console import Console
from rich.markdown import Markdown
from rich.rule import Rule

from lockstep.planner.figures import PlanError

if TYPE_CHECKING:
    from lockstep.practice.cards import Card, Progress

GRADES = "1 again, 2 hard, 3 good, 4 easy"
LEAVE = "q", "quit"

Ask = Callable[[str], str]


class Leave(Exception):
    """The reader quits."""


def quiz(
    topic: str | None = None,
    level: str | None = None,
    kind: str | None = None,
    count: int = 20,
    progress: Path | None = None,
    seed: int | None = None,
    show: str | None = None,
    take: Annotated[
        Path | None, tyro.conf.arg(name="import", aliases=["--take"])
    ] = None,
    give: Annotated[
        Path | None, tyro.conf.arg(name="export", aliases=["--give"])
    ] = None,
) -> int:
    """Ask the cards that are due, then new cards.

    Args:
        topic: Topic of the questions, or prompts.
        level: Level: senior, staff or principal. Estimates have no level.
        kind: Kind of card: question, prompt, estimate, or one kind of estimate.
        count: Maximum number of cards.
        progress: Progress file. The default is in your data folder.
        seed: Seed for the numbers in estimates.
        show: Kind of estimate to print with its derivation, without asking.
        take: Progress file to import, from this command or the site's cards.
        give: Progress file to export, for this command or the site's cards.
    """
    console = Console(highlight=False)
    if show:
        return shown(console, show, seed or 0)
    # Only here: what only shows needs neither the bank nor a scheduler.
    from platformdirs import user_data_path

    from lockstep.practice import cards

    if count < 1:
        raise PlanError(f"--count is {count}; it must be 1 or more")
    some = cards.chosen(cards.listed(), topic, level, kind)
    path = progress or user_data_path("lockstep") / "cards.json"
    known = cards.read(path) if path.exists() else cards.Progress()
    if take or give:
        if take:
            newer = known.take(cards.read(take))
            cards.write(path, known)
            console.print(f"{newer} cards imported from {take}")
        if give:
            cards.write(give, known)
            console.print(f"{len(known.cards)} cards exported to {give}")
        return 0
    numbers = random.Random(seed)
    return session(console, console.input, some, known, path, count, numbers)


def shown(console: Console, kind: str, seed: int) -> int:
    """Print one estimate with its answer and derivation."""
    from lockstep.practice.estimates import SEEDS, generate

    if not 0 <= seed < SEEDS:
        raise PlanError(f"--seed is {seed}; it must be 0 to {SEEDS - 1}")
    card = generate(kind, seed)
    console.print(card["question"], "", soft_wrap=True, sep="\n")
    for title, lines in (
        (card["answer"], card["derivation"]),
        (f"in round numbers {card['round']}", card["by_hand"]),
    ):
        console.print(f"{title}:", soft_wrap=True)
        for line in lines:
            console.print("  " + line, soft_wrap=True, markup=False)
    console.print("", card["thumb"], sep="\n", soft_wrap=True)
    return 0


def session(
    console: Console,
    ask: Ask,
    some: list[Card],
    known: Progress,
    path: Path,
    count: int,
    numbers: random.Random,
) -> int:
    """Ask until nothing is due, `count` cards are answered or the reader quits.
    Each grade is saved before the next card."""
    answered, code = 0, 0
    try:
        while answered < count and (card := coming(some, known)):
            turn(console, ask, card, known, path, numbers)
            answered += 1
    except (EOFError, Leave):
        pass
    except KeyboardInterrupt:
        code = 130
    console.print()
    if not answered and not coming(some, known):
        first = min(known.cards[card.id].due for card in some)
        wait = span(first - datetime.now(UTC))
        console.print(f"Nothing is due. The next card is, in {wait}.")
    else:
        console.print(f"{answered} answered; kept in {path}", soft_wrap=True)
    return code


def coming(some: list[Card], known: Progress) -> Card | None:
    """Return the card that has been due longest, or else a new card."""
    now = datetime.now(UTC)
    due = [
        (known.cards[card.id].due, card)
        for card in some
        if card.id in known.cards and known.cards[card.id].due <= now
    ]
    if due:
        return min(due, key=lambda one: one[0])[1]
    # In an order that is always the same and mixes topics.
    new = [card for card in some if card.id not in known.cards]
    return min(new, key=lambda card: crc32(card.id.encode()), default=None)


def turn(
    console: Console,
    ask: Ask,
    card: Card,
    known: Progress,
    path: Path,
    numbers: random.Random,
) -> None:
    """One card: asked, shown, graded, written.

    Raises:
        Leave: nothing of this card is kept.
    """
    import fsrs

    from lockstep.practice import cards
    from lockstep.practice.estimates import SEEDS

    given = None
    if card.sort == "estimate":
        card, given = cards.drawn(card, numbers.randrange(SEEDS))
    card = cards.computed_card(card)
    named = ", ".join(filter(None, [cards.TOPICS[card.topic], card.level]))
    console.print(Rule(named, align="left"))
    console.print(Markdown(f"**{card.title}**\n\n{card.front}"))
    usual = estimated(console, ask, given) if given else ""
    if not given:
        said(ask, "\nAnswer aloud, then Enter: ")
    console.print(Markdown(card.back))
    hint = f" (Enter is {usual})" if usual else ""
    while (typed := said(ask, f"\n{GRADES}{hint}: ") or usual) not in tuple(
        "1234"
    ):
        console.print(f"{typed or 'Nothing'} is no grade; q leaves.")
    now = datetime.now(UTC)
    before = known.cards.get(card.id)
    after = cards.graded(before, fsrs.Rating(int(typed)), now)
    known.cards[card.id] = after
    cards.write(path, known)
    console.print(f"Back in {span(after.due - now)}.")


def said(ask: Ask, prompt: str) -> str:
    """Return the typed text; raise Leave if the reader quits."""
    if (typed := ask(prompt).strip()).lower() in LEAVE:
        raise Leave
    return typed


def estimated(console: Console, ask: Ask, given: dict) -> str:
    """Take an estimate; the grade that it earns."""
    from lockstep.practice.estimates import check

    while True:
        typed = said(ask, "\nYour estimate (Enter shows the answer): ")
        if not typed:
            return "1"
        try:
            right, verdict = check(given, typed)
        except PlanError as error:
            console.print(str(error), markup=False)
            continue
        console.print(verdict, markup=False)
        return "3" if right else "1"


def span(wait: timedelta) -> str:
    """How long, in the largest unit that is not zero."""
    minutes = max(1, round(wait.total_seconds() / 60))
    if minutes < 60:
        return f"{minutes} min"
    hours = round(minutes / 60)
    return f"{hours} h" if hours < 24 else f"{round(hours / 24)} d"


def main(args: list[str]) -> int:
    """`lockstep quiz …`; the exit code is 2 for what cannot be asked."""
    try:
        return tyro.cli(quiz, prog="lockstep quiz", args=args)
    except (PlanError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
