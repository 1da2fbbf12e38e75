"""The tests of what has changed since the last commit on main: `make check`.

    python -m lockstep.site.verify.affected [FILE...]

A page is checked by its blocks. A module is checked by the test that mirrors
it, by the tests that import it, and by the blocks of pages that show it; a
question by its own tests. What would take too long is left to `make test`,
and named: how long a test takes is known from the reports of its last run.

Where a page shows other code than it did on main, the tests of
`tests/covering.txt` have to run each line of it: first those near that code
and, if they leave a line out, all of them.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from lockstep.site.pages.blocks import blocks, pages
from lockstep.site.pages.snippets import Include, includes
from lockstep.site.verify.shown_lines import GPU_RECORD, REPORT, shown, unrun

REPORTS = ".cache/reports"
COVERING = "tests/covering.txt"
BUDGET = 80.0  # seconds of tests, which two workers share
UNKNOWN = 5.0  # seconds of a test file that has not been timed
PYTEST = "pytest", "--numprocesses=3", "--dist=loadgroup", "--quiet"
BLOCKS = "--codeblocks", "--warm"
_NUMBER = re.compile(r"/(?:lab|drill|bug)_(\w?\d+)")


@dataclass
class Affected:
    """What to run, the nearest to the change first."""

    tests: list[str] = field(default_factory=list)  # files, or node ids
    blocks: list[str] = field(default_factory=list)  # pages, or node ids
    left: list[str] = field(default_factory=list)  # too long for a check


def git(root: Path, *words: str) -> str:
    """Return git's output; nothing where it fails."""
    return subprocess.run(
        ["git", *words], cwd=root, capture_output=True, text=True
    ).stdout


def base(root: Path) -> str:
    """Return the last commit on main that this branch has."""
    return git(root, "merge-base", "HEAD", "main").strip() or "HEAD"


def changed(root: Path) -> list[str]:
    """Files that differ from the last commit on main, new ones included."""
    found = git(root, "diff", "--name-only", base(root))
    new = git(root, "ls-files", "--others", "--exclude-standard")
    return (found + new).splitlines()


def affected(
    root: Path, paths: Iterable[str], budget: float = BUDGET
) -> Affected:
    """Return the tests of those files, as far as they take `budget` seconds."""
    asked, found = [], Affected()
    importers = dict(tests_and_imports(root))
    for path in paths:
        inside = Path(path).parts
        if not (root / path).exists():
            continue
        if path in importers:
            asked += [path] if inside[-1].startswith("test_") else []
            asked += _importing(importers, _dotted(path, ""))
        elif inside[0] == "code" and path.endswith(".py"):
            asked += _mirrored(importers, inside)
            asked += _importing(importers, _dotted(path, "code/"))
            found.blocks += _showing(root, path)
        elif root / path in pages(root) or path == "README.md":
            found.blocks.append(path)
        elif inside[:3] == ("code", "lockstep", "practice"):
            asked.append(f"tests/practice/test_bank.py -k {Path(path).stem}")
        elif len(inside) == 1:
            asked.append("tests/test_setup.py")
    took, spent = durations(root), 0.0
    for test in dict.fromkeys(asked):
        spent += took.get(test.partition(" ")[0], UNKNOWN)
        (found.tests if spent <= budget else found.left).append(test)
    found.blocks = list(dict.fromkeys(found.blocks))
    return found


def tests_and_imports(root: Path) -> Iterator[tuple[str, set[str]]]:
    """Each file below `tests/`, and the modules that it imports."""
    for file in sorted((root / "tests").rglob("*.py")):
        names: set[str] = set()
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {one.name for one in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
                names |= {f"{node.module}.{one.name}" for one in node.names}
        yield file.relative_to(root).as_posix(), names


def _dotted(path: str, below: str) -> str:
    name = path.removeprefix(below).removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def _importing(importers: dict[str, set[str]], module: str) -> list[str]:
    """Return tests that import it, those that import least first."""
    found = [test for test, names in importers.items() if module in names]
    tests = [one for one in found if Path(one).name.startswith("test_")]
    return sorted(tests, key=lambda one: len(importers[one]))


def _mirrored(
    importers: dict[str, set[str]], inside: tuple[str, ...]
) -> list[str]:
    """`code/lockstep/bio/pair.py` to `tests/bio/test_pair.py`; a module of a
    folder without a test of its own to the test of that folder, of which a lab,
    a drill or a bug has those of its number."""
    for depth in range(len(inside), 2, -1):
        *folders, name = (x for x in inside[2:depth] if x != "extensions")
        stem = Path(name).stem
        test = "/".join(["tests", *folders, f"test_{stem}.py"])
        nested = "/".join(["tests", *folders, stem, f"test_{stem}.py"])
        for one in test, nested:
            if one in importers:
                number = _NUMBER.search("/".join(inside))
                return [f"{one} -k {number[1]}" if number else one]
    return []


def _showing(root: Path, path: str) -> list[str]:
    """Return the blocks of pages that show a part of it."""
    return [
        f"{page.relative_to(root)}::line {block.line}"
        for page in sorted(pages(root))
        if path in page.read_text("utf-8")
        for block in blocks(page)
        if any(one.path == path for one in includes(block.written))
    ]


def changed_includes(
    root: Path, paths: Iterable[str]
) -> set[tuple[Path, Include]]:
    """Each page with an include of code that is among the files, or that the
    page has not had on main."""
    paths = set(paths)
    found: set[tuple[Path, Include]] = set()
    for page, include in shown(root):
        name = page.relative_to(root).as_posix()
        if include.path in paths:
            found.add((page, include))
        elif name in paths:
            before = git(root, "show", f"{base(root)}:{name}")
            if f'"{include}"' not in before:
                found.add((page, include))
    return found


def unrun_lines(root: Path, asked: set[tuple[Path, Include]]) -> list[str]:
    """Name the lines that these includes show and no covering test runs."""
    named = (root / COVERING).read_text("utf-8").splitlines()
    importers = dict(tests_and_imports(root))
    near: set[str] = set()
    for path in {include.path for _, include in asked}:
        near |= {*_importing(importers, _dotted(path, "code/"))}
        mirrored = _mirrored(importers, Path(path).parts)
        near |= {one.partition(" ")[0] for one in mirrored}
    first = [one for one in named if one.partition("::")[0] in near]
    problems: list[str] = []
    for tests in filter(None, (first, named)):
        print(f"under coverage: {len(tests)} tests", flush=True)
        measure(root, tests)
        report, record = root / REPORT, root / GPU_RECORD
        problems = sorted({*unrun(root, report, record, asked)})
        if not problems:
            break
    return problems


def measure(root: Path, tests: list[str]) -> None:
    """Write the coverage report of these tests. Whether they pass is asked of
    them elsewhere."""
    shutil.rmtree((root / REPORT).parent, ignore_errors=True)
    (root / REPORT).parent.mkdir(parents=True)
    coverage = sys.executable, "-m", "coverage"
    for words in (
        ("run", "-m", *PYTEST, *tests),
        ("combine", "--quiet"),
        ("json", "--quiet"),
    ):
        subprocess.run([*coverage, *words], cwd=root)


def durations(root: Path) -> Counter[str]:
    """Seconds that each test file took when it was last reported."""
    found: Counter[str] = Counter()
    for report in (root / REPORTS).glob("*.xml"):
        for case in ElementTree.parse(report).iter("testcase"):
            parts = str(case.get("classname")).split(".")
            for depth in range(len(parts), 1, -1):
                file = "/".join(parts[:depth]) + ".py"
                if (root / file).is_file():
                    found[file] += float(case.get("time") or 0)  # type: ignore[assignment]
                    break
    return found


def main(paths: list[str]) -> int:
    """Run them; the exit code is that of the first that fails."""
    root = Path.cwd()
    paths = paths or changed(root)
    chosen = affected(root, paths)
    for name, these in ("tests", chosen.tests), ("blocks of", chosen.blocks):
        print(f"{name}: {', '.join(these) or 'none'}", flush=True)
    if chosen.left:
        some = ", ".join(chosen.left[:3])
        count = len(chosen.left)
        print(f"left to `make test`: {count}, such as {some}", flush=True)
    whole = [one for one in chosen.tests if " " not in one]
    calls = [(*PYTEST, *whole)] if whole else []
    calls += [("pytest", *one.split()) for one in chosen.tests if " " in one]
    calls += [(*PYTEST, *BLOCKS, *chosen.blocks)] if chosen.blocks else []
    codes = [subprocess.run(call).returncode for call in calls]
    if asked := changed_includes(root, paths):
        problems = unrun_lines(root, asked)
        for problem in problems:
            print(problem)
        codes.append(bool(problems))
    return next(filter(None, codes), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
