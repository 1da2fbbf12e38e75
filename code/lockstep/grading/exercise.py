"""What a reader is asked to do and gets points for: labs, drills, bugs."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # a list of exercises needs no torch
    from lockstep.grading.criteria import Report


@dataclass(frozen=True)
class Exercise:
    """A module of its kind's package, named for the kind: `lab_01_slug`."""

    name: str

    @property
    def number(self) -> str:
        """As it is asked for: 01."""
        return self.name.split("_")[1]

    @property
    def module(self) -> ModuleType:
        """The module itself."""
        return importlib.import_module(f"{type(self).__module__}.{self.name}")

    @property
    def title(self) -> str:
        """What it is about: the first line of the module's docstring."""
        first = (self.module.__doc__ or "").partition("\n")[0]
        return first.partition(": ")[2].removesuffix(".")

    @property
    def notebook(self) -> str:
        """Its notebook's name, without the suffix."""
        return self.name.replace("_", "-")

    @property
    def grader(self) -> str:
        """The module that grades it."""
        return f"{type(self).__module__}.{self.name}.grader"

    @property
    def brings(self) -> list[str]:
        """The modules that its notebook has beside the grader."""
        return [self.module.__name__]

    def graded(self, file: Path) -> Report:
        """Grade the answer in `file`.

        Raises:
            CannotGradeError: the file is none that can be graded.
        """
        raise NotImplementedError


Kind = TypeVar("Kind", bound=Exercise)


def found(kind: type[Kind]) -> dict[str, Kind]:
    """All exercises of a kind, by number."""
    home = importlib.import_module(kind.__module__)
    prefix = f"{kind.__name__.lower()}_"
    names = sorted(m.name for m in pkgutil.iter_modules(home.__path__))
    known = (kind(name) for name in names if name.startswith(prefix))
    return {one.number: one for one in known}
