"""The drills: five stages in which the interview cut is built.

A stage begins with the file that solves the one before it. What a reader is
told, `task.md`, is included by the drill's page and printed by the command.
"""

import importlib
import pkgutil
import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from types import ModuleType


@dataclass(frozen=True)
class Drill:
    """A drill's folder in the package."""

    name: str  # drill_1_happy_path

    @property
    def number(self) -> str:
        """As it is asked for: 1."""
        return self.name.split("_")[1]

    @property
    def module(self) -> ModuleType:
        """The folder's package."""
        return importlib.import_module(f"{__name__}.{self.name}")

    @property
    def title(self) -> str:
        """What it is about: the first line of the package's docstring."""
        first = (self.module.__doc__ or "").partition("\n")[0]
        return first.partition(": ")[2].removesuffix(".")

    @property
    def minutes(self) -> int:
        """How long it takes."""
        return int(self.module.MINUTES)

    @property
    def change(self) -> str:
        """The criterion that is asked for from half-time on."""
        return str(self.module.CHANGE)

    @property
    def start(self) -> Path:
        """Where it begins: with the solution of the drill before it."""
        return Path(self.module.START)

    @property
    def solution(self) -> Path:
        """What it ends with."""
        return Path(self.module.SOLUTION)

    @property
    def grader(self) -> str:
        """The module with its criteria."""
        return f"{__name__}.{self.name}.grader"

    def told(self, section: str) -> str:
        """A section of task.md: task, change, late, questions."""
        text = Path(__path__[0], self.name, "task.md").read_text("utf-8")
        begin, end = (
            f"<!-- --8<-- [{at}:{section}] -->\n" for at in ("start", "end")
        )
        return text.partition(begin)[2].partition(end)[0].strip()

    @property
    def questions(self) -> list[tuple[str, str]]:
        """Each with a strong answer."""
        _, *found = re.split(
            r'^\?\?\? question "(.*)"$', self.told("questions"), flags=re.M
        )
        answers = (dedent(text).strip() for text in found[1::2])
        return list(zip(found[::2], answers, strict=True))


def drills() -> dict[str, Drill]:
    """All drills, by number."""
    names = (module.name for module in pkgutil.iter_modules(__path__))
    found = [Drill(name) for name in sorted(names) if name.startswith("drill_")]
    return {drill.number: drill for drill in found}
