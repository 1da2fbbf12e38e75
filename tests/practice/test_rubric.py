"""The rubric is whole, and the interview map shows it as it is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from lockstep.practice.rubric import (
    PAGE,
    SOURCE,
    TABLES,
    Rubric,
    load,
    tables,
)

DOCS = Path(__file__).parents[2] / "docs"


def written() -> dict[str, Any]:
    data = yaml.safe_load(SOURCE.read_text("utf-8"))
    assert isinstance(data, dict)
    return data


def test_the_page_shows_what_is_written() -> None:
    """The tables on the page are made from the rubric's file."""
    assert TABLES.read_text("utf-8") == tables(load())
    page = (DOCS / PAGE).read_text("utf-8")
    for section in ("stages", "lines"):
        assert f"code/lockstep/practice/rubric.md:{section}" in page


def test_every_link_leads_somewhere() -> None:
    for line in load().lines:
        for link in line.links:
            path, _, anchor = link.partition("#")
            text = (DOCS / path).read_text("utf-8")
            assert not anchor or f"{{ #{anchor} }}" in text, link


def test_it_can_be_scored_in_an_interview() -> None:
    rubric = load()
    assert len(rubric.lines) <= 10
    for line in rubric.lines:
        assert all(len(mark) <= 110 for mark in line.marks), line.id
        assert not any("|" in mark for mark in line.marks)


def broken(how: str) -> dict[str, Any]:
    data = written()
    if how == "a stage takes longer":
        data["stages"][0]["minutes"][45] += 1
    if how == "a stage has no line":
        data["lines"] = [x for x in data["lines"] if x["stage"] != "break"]
    if how == "a line comes twice":
        data["lines"].append(data["lines"][-1])
    if how == "no such level":
        data["lines"][0]["from"] = "junior"
    if how == "a fourth mark":
        data["lines"][0]["marks"].append("more")
    if how == "no link":
        data["lines"][0]["links"] = []
    if how == "an unknown field":
        data["lines"][0]["weight"] = 2
    return data


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("a stage takes longer", "45 minutes add up to 46"),
        ("a stage has no line", "lines go through"),
        ("a line comes twice", "named twice"),
        ("no such level", "senior"),
        ("a fourth mark", "marks"),
        ("no link", "links"),
        ("an unknown field", "weight"),
    ],
)
def test_a_rubric_that_is_not_whole_is_refused(how: str, why: str) -> None:
    """A rubric with a missing or contradictory part is refused with a message
    that names it."""
    with pytest.raises(ValidationError, match=re.escape(why)):
        Rubric.model_validate(broken(how))


def test_a_level_is_expected_to_have_what_the_one_below_has() -> None:
    rubric = load()
    senior, staff, principal = [
        [line.id for line in rubric.expected(level)] for level in rubric.levels
    ]
    assert set(senior) < set(staff) < set(principal)
    assert principal == [line.id for line in rubric.lines]


def test_the_weakest_lines_are_those_to_practice() -> None:
    rubric = load()
    all_twos = {line.id: 2 for line in rubric.lines}
    found = rubric.weakest(all_twos | {"proof": 0, "move": 1}, "senior")
    assert [line.id for line in found] == ["proof", "move"]
    # Among equal marks those of one's own level come first.
    equal = all_twos | {"premise": 1, "move": 1, "invariants": 1}
    found = rubric.weakest(equal, "senior")
    assert [line.id for line in found] == ["invariants", "move"]
    with pytest.raises(ValueError, match="operate"):
        rubric.weakest(all_twos | {"operate": 3}, "senior")
