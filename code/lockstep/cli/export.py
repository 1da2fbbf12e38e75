"""The command `lockstep export`: the question bank for other programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import tyro
from tyro.conf import Positional

from lockstep.planner.figures import PlanError


def anki(
    file: Positional[Path], topic: str | None = None, level: str | None = None
) -> int:
    """Write questions and first moves as a deck. Import it again to update.

    Import the file with File > Import in Anki 2.1.54 or newer. The import also
    updates notes from Lockstep's older .apkg decks.

    The deck leaves out estimates, because their numbers change each time.

    Args:
        file: Text file (.txt) to write. An existing file is replaced.
        topic: Topic of the questions, or prompts.
        level: Level: senior, staff or principal.
    """
    # Only here: the other commands need no deck.
    from lockstep.practice import deck
    from lockstep.practice.cards import cards, chosen

    if file.suffix != ".txt":
        text = file.with_suffix(".txt")
        raise PlanError(f"a deck is a text file for Anki now: write {text}")
    found = [card for card in cards() if card.sort != "estimate"]
    some = chosen(found, topic, level)
    try:
        deck.write(some, file)
    except OSError as error:
        raise PlanError(f"{file}: {error.strerror or error}") from None
    print(f"{len(some)} cards in {file}")
    return 0


COMMANDS: dict[str, Callable[..., int]] = {"anki": anki}


def main(args: list[str]) -> int:
    """Run `lockstep export FORMAT` and return its exit code."""
    try:
        return tyro.extras.subcommand_cli_from_dict(
            COMMANDS, prog="lockstep export", args=args
        )
    except (PlanError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
