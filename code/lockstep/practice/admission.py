"""The questions that were admitted to the bank, and so are shown."""

from __future__ import annotations

from pathlib import Path

from .bank import QUESTIONS, Admitted
from .origins import vetted


def admitted(folder: Path = QUESTIONS) -> dict[str, Admitted]:
    """All questions that passed, by id, in the order of topics; perhaps none.

    Raises:
        ValueError: as `vetted` does.
    """
    return vetted(folder, Admitted)
