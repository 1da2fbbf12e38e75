"""The labs: per lab a starter, a grader, a solution, and wrong answers."""

import importlib
import pkgutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Lab:
    """A lab's folder in the package."""

    name: str  # lab_01_collectives

    @property
    def number(self) -> str:
        """As it is asked for: 01."""
        return self.name.split("_")[1]

    @property
    def title(self) -> str:
        """What it is about: the first line of the package's docstring."""
        return self._told[0].partition(": ")[2].removesuffix(".")

    @property
    def introduction(self) -> str:
        """The paragraphs after that line."""
        return self._told[2].strip()

    @property
    def _told(self) -> tuple[str, str, str]:
        module = importlib.import_module(f"{__name__}.{self.name}")
        return (module.__doc__ or "").partition("\n")

    @property
    def grader(self) -> str:
        """The module with its criteria."""
        return f"{__name__}.{self.name}.grader"

    def file(self, part: str) -> Path:
        """Its starter.py, solution.py, …"""
        return Path(__path__[0], self.name, f"{part}.py")


def labs() -> dict[str, Lab]:
    """All labs, by number."""
    found = [Lab(module.name) for module in pkgutil.iter_modules(__path__)]
    return {lab.number: lab for lab in sorted(found, key=lambda lab: lab.name)}
