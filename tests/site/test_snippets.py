"""Includes are read as the site reads them, and nothing is let pass."""

from __future__ import annotations

import pytest

from lockstep.site.pages.snippets import (
    BadInclude,
    Include,
    expand,
    includes,
    parse,
    sections,
)

from .conftest import Project, include

SOURCE = """\
# --8<-- [start:outer]
class Outer:
    # --8<-- [start:inner]
    def inner(self) -> int:
        return 1
    # --8<-- [end:inner]
# --8<-- [end:outer]
"""


def test_section_is_dedented_and_without_markers(project: Project) -> None:
    project.write("code/a.py", SOURCE)
    inner = expand(include("code/a.py:inner"), project.root)
    assert inner == "def inner(self) -> int:\n    return 1"
    assert "8<" not in expand(include("code/a.py"), project.root)


def test_sections_know_their_lines(project: Project) -> None:
    source = project.write("code/a.py", SOURCE)
    assert sections(source) == {"inner": range(4, 6), "outer": range(2, 7)}


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (SOURCE.replace("    # --8<-- [end:inner]\n", ""), "closes no open"),
        (SOURCE.replace("# --8<-- [end:outer]\n", ""), "never closed"),
        (SOURCE + SOURCE, "opens twice"),
        (SOURCE.replace("start:inner", "start:outer"), "opens twice"),
    ],
)
def test_unbalanced_sections_are_refused(
    project: Project, source: str, says: str
) -> None:
    project.write("code/a.py", source)
    with pytest.raises(BadInclude, match=says):
        expand(include("code/a.py:outer"), project.root)


@pytest.mark.parametrize(
    "line",
    [
        '--8<-- "code/a.py:outer" ',
        '--8<--"code/a.py:outer"',
        "--8<-- code/a.py:outer",
        "--8<--",
        '# --8<-- "code/a.py"',
        '--8< "code/a.py"',
        '--8<-- "code/a.py:1:3"',
        '--8<-- "code/a.py:3"',
        '--8<-- "https://example.org/a.py"',
    ],
)
def test_what_the_site_would_show_otherwise_is_refused(line: str) -> None:
    with pytest.raises(BadInclude):
        parse(line)


@pytest.mark.parametrize("line", ["x < 8", ';--8<-- "code/a.py"', "--8", ""])
def test_other_lines_are_no_includes(line: str) -> None:
    assert parse(line) is None


@pytest.mark.parametrize(
    "target", ["code/b.py", "code/a.py:none", "code/empty.py", "../a.py"]
)
def test_nothing_to_include_is_refused(project: Project, target: str) -> None:
    project.write("code/a.py", SOURCE)
    project.write("code/empty.py", "\n\n")
    with pytest.raises(BadInclude):
        expand(include(target), project.root)


def test_includes_are_listed_in_order() -> None:
    text = f"{include('b.py')}\ntext\n  {include('a.py:x')}\n"
    assert includes(text) == [Include("b.py"), Include("a.py", "x")]
