"""A question to break."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from lockstep.practice.bank import Admitted

FILE = Path(__file__).with_suffix(".yml")
WRITTEN: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))


def written(**other: Any) -> dict[str, Any]:
    """It, with other values; `trials__date` is a value of `trials`."""
    found = deepcopy(WRITTEN)
    for name, value in other.items():
        *path, last = name.split("__")
        place = found
        for key in path:
            place = place[key]
        place[last] = value
    return found


def specimen(**other: Any) -> Admitted:
    """The same, as a question."""
    return Admitted.model_validate(written(**other))
