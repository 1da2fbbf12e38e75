"""`lockstep export …`: the bank in the form that another program reads."""

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
    """Write questions and first moves as a deck; import it again to update.

    Anki 2.1.54 or newer reads the file, by File > Import. Notes that an older
    deck of ours (.apkg) has brought are updated as well.

    Estimates stay out: what is drawn anew cannot be learned by heart.

    Args:
        file: ends in .txt; one that is there is replaced.
        topic: of the bank, or prompts.
        level: senior, staff or principal.
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
    """`lockstep export FORM …`; the exit code is 2 for what cannot be done."""
    try:
        return tyro.extras.subcommand_cli_from_dict(
            COMMANDS, prog="lockstep export", args=args
        )
    except (PlanError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
