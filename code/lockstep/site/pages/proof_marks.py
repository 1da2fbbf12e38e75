"""Proof marks: what holds a sentence, one tap away from it.

In Markdown a mark stands after its sentence and names tests, recorded runs and
sources, separated by semicolons:

    Stopped anywhere, a run ends with the same weights.
    [✓ test_resume_is_bitwise; docs/recorded/kill.txt "A kill, recorded";
    https://arxiv.org/abs/1910.02054 "ZeRO, section 5"]

A test is named by its function, with `file.py::` before it where two have the
same name; what it asserts is the first paragraph of its docstring. A run or a
source says in quotes what it holds. On the built page the mark is a ✓ that
leads to a numbered list in the fold "Evidence" at the page's end; proofs.js
opens the entry in place.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[4]
FOLD = """\
<details class="evidence" id="proof-list" data-search-exclude markdown>
<summary>Evidence</summary>"""
# It joins the line before, unless it begins a paragraph or follows a fence.
MARK = re.compile(r"[ \t]*(?:(?<=[^\n])\n[ \t]*)?\[✓\s+(?P<named>[^\]]+)\]")
_ITEM = re.compile(r'\s*(?P<name>[^"]*?)\s*(?:"(?P<said>[^"]*)")?\s*', re.S)
_SEPARATOR = re.compile(r';(?=(?:[^"]*"[^"]*")*[^"]*$)')  # none in quotes
_TEST = re.compile(r"(?:[\w/]+\.py)?(?:::)?(?:\w+::)?test_\w+(?:\[[^;]*)?")
_DEFINITION = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.M)
_FENCE = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2 *$", re.M | re.S)


class UnknownProofError(ValueError):
    """A mark names what is not there, or what does not say what it holds."""


@dataclass(frozen=True)
class Test:
    """A test function: where it is, and what it asserts."""

    path: str  # below the root
    line: int
    name: str  # with its class, as pytest names it
    asserts: str  # the first paragraph of its docstring

    @property
    def id(self) -> str:
        """What pytest runs it by."""
        return f"{self.path}::{self.name}"


def named(text: str) -> Iterator[tuple[str, str]]:
    """Everything that the marks of a page name, each with what is said of it.

    Blocks of code are left out.
    """
    for mark in MARK.finditer(_FENCE.sub("", text)):
        yield from _items(mark)


def cited(text: str, root: Path = ROOT) -> Iterator[Test]:
    """Yield the tests that a page's marks name.

    Raises:
        UnknownProofError: there is no such test, or more than one.
    """
    for name, _ in named(text):
        if _TEST.fullmatch(name):
            yield find(name, root)


def marked(text: str, sources: str, root: Path = ROOT) -> str:
    """Link a Markdown page's marks to a list at its end.

    Args:
        text: the page, with its marks as they are written.
        sources: the address below which the repository's files are shown.
        root: the repository, in which tests and recorded runs are looked up.

    Raises:
        UnknownProofError: as `entry` does.
    """
    numbers: dict[str, int] = {}

    def link(mark: re.Match[str]) -> str:
        found = [entry(*item, sources, root) for item in _items(mark)]
        mine = [numbers.setdefault(one, len(numbers) + 1) for one in found]
        return _link(mine)

    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [MARK.sub(link, text[end : fence.start()]), fence[0]]
        end = fence.end()
    parts.append(MARK.sub(link, text[end:]))
    if not numbers:
        return text
    listed = (
        f"{number}.  {one}\n    {{ #proof-{number} .proof-entry }}"
        for one, number in numbers.items()
    )
    return "\n".join(
        ["".join(parts).rstrip(), "", FOLD, "", *listed, "", "</details>", ""]
    )


def entry(name: str, said: str, sources: str, root: Path = ROOT) -> str:
    """Return the list's entry for a test, a recorded run or a source, in
    Markdown.

    Raises:
        UnknownProofError: it is not there, or says nothing of what it holds.
    """
    if _TEST.fullmatch(name):
        test = find(name, root)
        if not test.asserts:
            raise UnknownProofError(
                f"{test.id} does not say what it asserts: give it a docstring"
            )
        where = f"{sources}/{test.path}#L{test.line}"
        return f"{test.asserts} Run `pytest {test.id}`, or [read it]({where})."
    if not said:
        raise UnknownProofError(
            f'{name}: say in quotes what it holds, as in [✓ {name} "A table"]'
        )
    if name.startswith("https://"):
        return f"[{said}]({name})."
    if not (root / name).is_file():
        raise UnknownProofError(f"there is no test, run or source {name!r}")
    return f"{said}: [as recorded]({sources}/{name})."


def find(name: str, root: Path = ROOT) -> Test:
    """Return the test of that name.

    Raises:
        UnknownProofError: there is none, or there are several.
    """
    path, _, function = name.partition("[")[0].rpartition("::")
    found = [
        test
        for test in _all(root).get(function, [])
        if test.id == name or test.path.endswith(path.partition("::")[0])
    ]
    if len(found) != 1:
        places = ", ".join(one.id for one in found) or "none"
        raise UnknownProofError(f"{name!r} is to name one test: {places}")
    return found[0]


def faults(pages: Iterable[Path], root: Path = ROOT) -> Iterator[str]:
    """Each mark on these pages that a build would refuse."""
    for page in pages:
        for name, said in named(page.read_text("utf-8")):
            try:
                entry(name, said, "", root)
            except UnknownProofError as error:
                yield f"{page.relative_to(root)}: {error}"


def _items(mark: re.Match[str]) -> Iterator[tuple[str, str]]:
    for part in _SEPARATOR.split(mark["named"]):
        item = _ITEM.fullmatch(part)
        if item is None:
            raise UnknownProofError(f"{mark[0].strip()} cannot be read")
        said = " ".join((item["said"] or "").split())
        yield "".join(item["name"].split()), said


def _link(numbers: list[int]) -> str:
    shown = ",".join(map(str, numbers))
    each = " ".join(map(str, numbers))
    return (
        f'<a class="proof" href="#proof-{numbers[0]}" data-proofs="{each}"'
        f' aria-label="Proof {shown}"><span aria-hidden="true">✓</span>'
        f'<sup aria-hidden="true">{shown}</sup></a>'
    )


@cache
def _all(root: Path) -> dict[str, list[Test]]:
    """Each test function below `tests/`, by its name."""
    found: dict[str, list[Test]] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        source = path.read_text("utf-8")
        if not _DEFINITION.search(source):
            continue
        inside = path.relative_to(root).as_posix()
        for node, name in _functions(ast.parse(source)):
            said = (ast.get_docstring(node) or "").split("\n\n")[0]
            asserts = " ".join(said.split()).replace("``", "`")
            test = Test(inside, node.lineno, name, asserts)
            found.setdefault(node.name, []).append(test)
    return found


def _functions(
    module: ast.Module,
) -> Iterator[tuple[ast.FunctionDef, str]]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            yield node, node.name
        elif isinstance(node, ast.ClassDef):
            for one in node.body:
                if isinstance(one, ast.FunctionDef):
                    yield one, f"{node.name}::{one.name}"
