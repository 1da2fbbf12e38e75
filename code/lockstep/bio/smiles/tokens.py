"""SMILES as tokens of one byte, without a token that is unknown.

A character is its own id. Atoms of several characters have the ids from 128
on, as many as there is room for; one that has none is spelled out. So a
vocabulary that was counted on a sample reads all of a billion molecules.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

PAD, BEGIN, END = 0, 1, 2
FIRST, VOCAB = 128, 256  # of tokens that are not characters; of all
ALWAYS = "Br", "Cl"


# --8<-- [start:tokens]
# An atom in brackets, a halogen, a ring's number of two digits.
MANY = re.compile(r"\[[^\]]+\]|Br|Cl|%\d\d")


class Tokens:
    """Text to ids and back.

    Args:
        many: tokens of several characters, 128 at most.
    """

    def __init__(self, many: Sequence[str]) -> None:
        if len(many) > VOCAB - FIRST:
            raise ValueError(f"{len(many)} tokens do not fit into 128 ids")
        self.id = {text: chr(FIRST + i) for i, text in enumerate(many)}
        self.text = {id_: text for text, id_ in self.id.items()}

    def encode(self, smiles: str) -> bytes:
        """One byte a token.

        Raises:
            UnicodeEncodeError: it is not ASCII.
        """
        smiles.encode("ascii")
        return MANY.sub(
            lambda found: self.id.get(found[0], found[0]), smiles
        ).encode("latin-1")

    def decode(self, ids: bytes) -> str:
        """Return the text again."""
        return "".join(self.text.get(one, one) for one in ids.decode("latin-1"))


def frequent(lines: Iterable[str]) -> list[str]:
    """Return the tokens of several characters that most of these lines need."""
    counts = Counter(one for line in lines for one in MANY.findall(line))
    kinds = sorted(
        counts.keys() - {*ALWAYS}, key=lambda one: (-counts[one], one)
    )
    return [*ALWAYS, *kinds][: VOCAB - FIRST]


# --8<-- [end:tokens]
