"""Mutants: sound code with one mistake, as the diff that makes the mistake."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Replacements = Iterable[tuple[str, str]]  # old text, which occurs once; new


class MutationError(Exception):
    """A replacement does not fit the source."""


@dataclass(frozen=True)
class Mutant:
    """A wrong version of some source, described by what it replaces.

    Args:
        name: the mistake, in a few words.
        replacements: pairs of old text, which occurs exactly once in the
            source when its turn comes, and new text.
        fails: the criteria or questions that the mistake must fail.
    """

    name: str
    replacements: tuple[tuple[str, str], ...]
    fails: frozenset[str] = frozenset()

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
        if (count := source.count(old)) != 1:
            raise MutationError(f"occurs {count} times in the source: {old}")
        source = source.replace(old, new)
    return source
