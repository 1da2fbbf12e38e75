"""A trap and a question of the core, to break."""

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lockstep.practice.bank import Admitted
from lockstep.practice.core_questions import Core

FILE = Path(__file__).with_suffix(".yml")
CORE_FILE = Path(__file__).with_name("core_specimen.yml")


def written(file: Path = FILE, **other: Any) -> dict[str, Any]:
    """It, with other values; `trials__date` is a value of `trials`."""
    found: dict[str, Any] = deepcopy(_read(file))
    for name, value in other.items():
        *path, last = name.split("__")
        place = found
        for key in path:
            place = place[key]
        place[last] = value
    return found


def specimen(**other: Any) -> Admitted:
    """The same, as a trap."""
    return Admitted.model_validate(written(**other))


def core_specimen(**other: Any) -> Core:
    """Another, of the core."""
    return Core.model_validate(written(CORE_FILE, **other))


@cache
def _read(file: Path) -> Any:
    return yaml.safe_load(file.read_text("utf-8"))
