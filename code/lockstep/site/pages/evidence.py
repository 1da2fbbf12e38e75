"""What holds the answers is there, and its tests passed.

    python -m lockstep.site.pages.evidence [REPORTS]

reads the JUnit reports that pytest wrote into a folder and prints a line for
each test that a question names and that failed, was skipped, or did
not run. A test with parameters passed when each of its cases did.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from xml.etree import ElementTree

from markdown.extensions.toc import slugify

from lockstep.debugging.bugs import bugs
from lockstep.drills import drills
from lockstep.labs import labs
from lockstep.practice.bank import Asked, admitted
from lockstep.practice.core_questions import core
from lockstep.practice.rounds import rounds
from lockstep.site.pages.number_origins import vetted

ROOT = Path(__file__).parents[4]
REPORTS = Path(".cache/reports")

_HEADING = re.compile(r"^#+ +(.*?)(?: *\{ *#([\w-]+) *\})?$", re.M)
_ID = re.compile(r"\{ *#([\w-]+) *\}")


def missing(question: Asked, root: Path = ROOT) -> Iterator[str]:
    """Each thing that a question's evidence names and that is not there."""
    held = question.evidence
    for test in held.tests:
        if not has_test(test, root):
            yield f"{question.id}: there is no test {test}"
    for target in held.pages:
        path, _, anchor = target.partition("#")
        if anchor not in {"", *headings(root / "docs" / path)}:
            yield f"{question.id}: there is no place {target}"
        elif not (root / "docs" / path).is_file():
            yield f"{question.id}: there is no page {path}"
    for kind, named, known in (
        ("lab", held.labs, labs()),
        ("drill", held.drills, drills()),
        ("bug", held.bugs, bugs()),
    ):
        for number in named:
            if number not in known:
                yield f"{question.id}: there is no {kind} {number}"


def has_test(test: str, root: Path = ROOT) -> bool:
    """Whether a module has the function that a test's node id names."""
    path, *names = test.partition("[")[0].split("::")
    return ".".join(names) in _functions(root / path)


@cache
def _body(path: Path) -> list[ast.stmt]:
    """Return the statements of a module; none if it is not there."""
    text = path.read_text("utf-8") if path.is_file() else ""
    return ast.parse(text).body


@cache
def _functions(path: Path) -> set[str]:
    """Return the names of a module's functions, those of classes with the
    class."""
    found = set()
    for node in _body(path):
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inside = (x for x in node.body if isinstance(x, ast.FunctionDef))
            found |= {f"{node.name}.{one.name}" for one in inside}
    return found


def headings(page: Path) -> Mapping[str, str]:
    """Return the anchors of a page with the text of its headings, in order;
    then those of other things."""
    return _headings(page.read_text("utf-8")) if page.is_file() else {}


@cache  # by the text, so an edit is seen at the next call
def _headings(text: str) -> Mapping[str, str]:
    found = {
        anchor or slugify(title, "-"): title
        for title, anchor in _HEADING.findall(text)
    }
    others = (name for name in _ID.findall(text) if name not in found)
    return MappingProxyType(found | dict.fromkeys(others, ""))


def outcomes(reports: Iterable[Path]) -> dict[str, list[str]]:
    """How each test ended, by its node id; a test with parameters by that of
    its function as well, once for each case.

    Raises:
        ValueError: a report cannot be read.
    """
    found = defaultdict(list)
    for report in reports:
        try:
            cases = ElementTree.parse(report).iter("testcase")
        except (OSError, ElementTree.ParseError) as error:
            raise ValueError(f"{report}: {error}") from None
        for case in cases:
            # `loadgroup` writes a test's group behind its name.
            name = case.get("name", "").partition("@")[0]
            whole = f"{case.get('classname')}.{name}"
            ended = {part.tag for part in case} & {"failure", "error"}
            how = "failed" if ended else "passed"
            if not ended and case.find("skipped") is not None:
                how = "was skipped"
            for key in {whole, whole.partition("[")[0]}:
                found[key].append(how)
    return found


def ending(test: str, ended: dict[str, list[str]], root: Path = ROOT) -> str:
    """How a test ended, by its node id: "passed" if all its cases did.

    A test that only `make test-weekly` runs, which fails if the test does,
    counts as passed.
    """
    place, bracket, case = test.partition("[")
    path, *names = place.split("::")
    module = path.removesuffix(".py").replace("/", ".")
    key = ".".join([module, *names]) + bracket + case
    if key not in ended and names[-1] in weekly(root / path):
        return "passed"
    return min(
        {*ended.get(key, ["did not run"])} - {"passed"}, default="passed"
    )


@cache
def weekly(path: Path) -> set[str]:
    """Return the names of a module's tests that carry the mark `weekly`."""
    return {
        node.name
        for node in _body(path)
        if isinstance(node, ast.FunctionDef)
        and "pytest.mark.weekly" in map(ast.unparse, node.decorator_list)
    }


def unproven(question: Asked, ended: dict[str, list[str]]) -> Iterator[str]:
    """Each test that a question names and that did not pass."""
    for test in question.evidence.tests:
        if (how := ending(test, ended)) != "passed":
            yield f"{question.id}: {test} {how}"


def main(arguments: list[str] | None = None) -> int:
    """Check the questions against the reports of this build."""
    parser = argparse.ArgumentParser(description="What holds the answers")
    parser.add_argument("reports", type=Path, nargs="?", default=REPORTS)
    folder = parser.parse_args(arguments).reports
    reports = sorted(folder.glob("*.xml"))
    try:
        every = vetted(core()), vetted(admitted()), rounds()
        questions = [one for kind in every for one in kind.values()]
        ended = outcomes(reports)
    except ValueError as error:
        print(error)
        return 1
    if questions and not reports:
        print(f"{folder} holds no report: run `make evidence`")
        return 1
    found = [line for one in questions for line in missing(one)]
    found += [line for one in questions for line in unproven(one, ended)]
    for line in found:
        print(line)
    print(f"{len(questions)} questions, {len(found)} faults in what holds them")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
