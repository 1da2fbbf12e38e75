"""Mutants: sound code with one mistake, as the diff that makes the mistake."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

Replacements = Iterable[tuple[str, str]]  # old text, new text


class MutationError(Exception):
    """A replacement does not fit the source."""


@dataclass(frozen=True)
class Mutant:
    """A wrong version of some source, described by what it replaces.

    Args:
        name: the mistake, in a few words.
        replacements: pairs of old text, which occurs exactly once in the
            source when its turn comes, and new text. Without an old text, the
            new text is added to the end, where a definition replaces earlier
            ones.
        fails: the criteria or questions that the mistake must fail.
        seconds: how long to wait for each of them, if the mistake hangs.
    """

    name: str
    replacements: tuple[tuple[str, str], ...]
    fails: Set[str] = frozenset()
    seconds: float | None = None

    @classmethod
    def diff(
        cls, name: str, fails: Set[str], text: str, seconds: float | None = None
    ) -> Mutant:
        """Return the mutant that a diff describes.

        Args:
            name: as above, like `fails` and `seconds`.
            text: lines that begin with "-" are in the source, lines with "+"
                in the mutant, and lines with a space, or without any text, in
                both. "@@" starts the next replacement. The first line of the
                source cannot change.
        """
        old, new, pairs = "", "", []
        for line in [*text.removeprefix("\n").splitlines(True), "@@"]:
            if line.startswith("@@"):
                pairs.append((f"\n{old}", f"\n{new}") if old else (old, new))
                old = new = ""
                continue
            rest = "\n" if line == "\n" else line[1:]
            if line[0] in " -\n":
                old += rest
            if line[0] in " +\n":
                new += rest
        return cls(name, tuple(pairs), fails, seconds)

    def mutated(self, source: str) -> str:
        """Return the source with the mistake.

        Raises:
            MutationError: an old text is missing, or occurs more than once.
        """
        return replaced(source, self.replacements)


def replaced(source: str, replacements: Replacements) -> str:
    """Return the source with each old text, in order, as the new text.

    Raises:
        MutationError: an old text is missing, or occurs more than once.
    """
    for old, new in replacements:
        if not old:
            source += new
            continue
        if (count := source.count(old)) != 1:
            raise MutationError(f"occurs {count} times in the source: {old}")
        source = source.replace(old, new)
    return source
