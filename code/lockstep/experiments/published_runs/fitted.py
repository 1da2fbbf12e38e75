"""The record of the last fit: `fit.py` prints it, and `fitted.txt` keeps it."""

from pathlib import Path

FILE = Path(__file__).with_name("fitted.txt")


def block(title: str) -> list[list[str]]:
    """Return the rows of a table of the record, each split at runs of blanks.

    Raises:
        ValueError: the record has no table with this title.
    """
    _, found, rest = FILE.read_text("utf-8").partition(f"\n{title}\n")
    if not found:
        raise ValueError(f"{FILE.name} has no table {title!r}")
    return [
        [word.strip() for word in line.split("  ") if word.strip()]
        for line in rest.partition("\n\n")[0].splitlines()
    ]
