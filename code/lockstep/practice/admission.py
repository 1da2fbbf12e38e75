"""The questions that were admitted to the bank, and so are shown."""

from __future__ import annotations

from pathlib import Path

from .bank import QUESTIONS, Admitted, loaded
from .origins import CHECKOUT, typed


def admitted(folder: Path = QUESTIONS) -> dict[str, Admitted]:
    """All questions that passed, by id, in the order of topics; perhaps none.

    Raises:
        ValueError: a file holds none, or, in a checkout, one with a number that
            is typed; says which, and why.
    """
    found = loaded(folder, Admitted)
    for name, one in found.items():
        if CHECKOUT and (bad := list(typed(one))):
            raise ValueError(f"{name}.yml: {bad[0]}")
    return found
