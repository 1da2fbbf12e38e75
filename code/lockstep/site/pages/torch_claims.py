"""What the pages say of PyTorch, what holds it, and on which versions it held.

    python -m lockstep.site.pages.torch_claims record [ID …]

runs the tests of all statements, or of those named, on the torch that is
installed, and notes in `torch_claims.json` which passed. What was noted of
other versions stays. Exits 1 if a statement did not hold.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, model_validator

from lockstep.practice.bank import LOADER
from lockstep.site.pages.evidence import outcomes
from lockstep.site.pages.glossary import place

ROOT = Path(__file__).parents[4]
DATA = Path(__file__).with_suffix(".yml")
RESULT = Path(__file__).with_suffix(".json")

Recorded = dict[str, dict[str, bool]]  # by id, then by torch's version


class Statement(BaseModel):
    """A sentence about PyTorch, and the tests or the source that hold it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    says: str
    told: str  # a page below docs/ and the anchor that says it
    tests: tuple[str, ...] = ()
    source: str = ""

    @model_validator(mode="after")
    def _one_of_both(self) -> Statement:
        if bool(self.tests) == bool(self.source):
            raise ValueError(f"{self.id}: either tests or a source")
        return self

    @property
    def place(self) -> str:
        """Where it is told, by the text of headings."""
        return place(self.told)

    @property
    def where(self) -> str:
        """Its source in a few words: the host, and the page's name."""
        parts = urlsplit(self.source)
        return f"{parts.netloc}, {parts.path.rpartition('/')[2]}"

    @property
    def names(self) -> list[tuple[str, str]]:
        """File and name of each test."""
        found = (test.partition("::") for test in self.tests)
        return [(path, name) for path, _, name in found]

    @property
    def versions(self) -> list[str]:
        """The versions on which all its tests passed, oldest first."""
        noted = recorded().get(self.id, {})
        held = (number for number, passed in noted.items() if passed)
        return sorted(held, key=lambda x: [*map(int, re.findall(r"\d+", x))])


@cache
def load(path: Path = DATA) -> dict[str, list[Statement]]:
    """Return the statements by subject.

    Raises:
        ValueError: one has another shape than `Statement`.
    """
    whole = yaml.load(path.read_text("utf-8"), LOADER)
    return TypeAdapter(dict[str, list[Statement]]).validate_python(whole)


def statements() -> list[Statement]:
    """All statements, in the page's order."""
    return [one for some in load().values() for one in some]


def recorded() -> Recorded:
    """Return whether each statement held, by id and version."""
    if not RESULT.is_file():
        return {}
    return TypeAdapter(Recorded).validate_json(RESULT.read_text("utf-8"))


def held(
    asked: Iterable[Statement], ended: dict[str, list[str]]
) -> dict[str, bool]:
    """Which statements' tests all passed, every case of each; a test that was
    skipped or did not run has not.

    Args:
        asked: the statements.
        ended: what `outcomes` made of the reports.
    """

    def passed(test: str) -> bool:
        key = test.replace("/", ".").replace(".py::", ".")
        return {*ended.get(key, ["did not run"])} == {"passed"}

    return {one.id: all(map(passed, one.tests)) for one in asked}


def merged(
    before: Recorded, torch: str, now: dict[str, bool], known: Iterable[str]
) -> Recorded:
    """Merge earlier and new results; leave out ids that no longer exist."""
    return {
        name: before.get(name, {}) | ({torch: now[name]} if name in now else {})
        for name in sorted(known)
    }


def record(asked: list[Statement], workers: int) -> dict[str, bool]:
    """Run the statements' tests in processes of their own."""
    tests = sorted({test for one in asked for test in one.tests})
    with TemporaryDirectory() as folder:
        report = Path(folder) / "checked.xml"
        command = [sys.executable, "-m", "pytest", "-q", *tests]
        command += ["--numprocesses", str(workers), "--dist", "loadgroup"]
        subprocess.run([*command, "--junit-xml", str(report)], cwd=ROOT)
        return held(asked, outcomes([report]))


def main(arguments: list[str] | None = None) -> int:
    """Run tests, and note on which torch they passed."""
    parser = argparse.ArgumentParser(description="What holds of PyTorch")
    parser.add_argument("do", choices=["record"])
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    known = {one.id: one for one in statements() if one.tests}
    if strange := {*given.ids} - {*known}:
        parser.error(f"no tests for: {', '.join(sorted(strange))}")
    torch = version("torch").partition("+")[0]
    now = record([known[i] for i in given.ids or known], given.workers)
    whole = merged(recorded(), torch, now, known)
    RESULT.write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
    failed = [name for name, passed in now.items() if not passed]
    print(f"torch {torch}: {len(now) - len(failed)} of {len(now)} held")
    for name in failed:
        print(f"  did not hold: {name}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
