"""What is said of PyTorch is held by tests that exist and have passed."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from pydantic import ValidationError

from lockstep.site.pages import torch_claims
from lockstep.site.pages.evidence import headings, outcomes
from tests.conftest import ROOT

from .conftest import Site

ONE = torch_claims.Statement(
    id="one", says="So.", told="a.md#b", tests=("tests/a/test_b.py::test_c",)
)
PINNED = re.search(
    r"^torch==([\d.]+)", (ROOT / "constraints.txt").read_text(), re.M
)
TESTED = [one for one in torch_claims.statements() if one.tests]


def functions(path: Path) -> set[str]:
    body = ast.parse(path.read_text("utf-8")).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}


def test_every_statement_is_short_and_told_where_it_says() -> None:
    every = torch_claims.statements()
    assert len({one.id for one in every}) == len(every)
    for one in every:
        assert len(one.says.split()) <= 25, one.id
        path, _, anchor = one.told.partition("#")
        assert anchor in headings(ROOT / "docs" / path), one.told


@pytest.mark.parametrize("one", TESTED, ids=lambda one: one.id)
def test_its_tests_are_there(one: torch_claims.Statement) -> None:
    for path, name in one.names:
        assert name in functions(ROOT / path), f"{path}::{name}"


@pytest.mark.parametrize("one", TESTED, ids=lambda one: one.id)
def test_it_held_on_the_pinned_version(one: torch_claims.Statement) -> None:
    assert PINNED
    assert PINNED[1] in one.versions


def test_nothing_is_noted_of_statements_that_are_gone() -> None:
    assert {*torch_claims.recorded()} == {one.id for one in TESTED}


@pytest.mark.parametrize("given", [{}, {"tests": ["a::b"], "source": "c"}])
def test_a_statement_has_tests_or_a_source(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="either tests or a source"):
        torch_claims.Statement.model_validate(
            {"id": "x", "says": "", "told": ""} | given
        )


@pytest.mark.parametrize(
    ("ended", "holds"),
    [
        (["passed", "passed"], True),
        (["passed", "failed"], False),
        (["was skipped"], False),
        (None, False),
    ],
)
def test_it_holds_if_every_case_passed(
    ended: list[str] | None, holds: bool
) -> None:
    found = {} if ended is None else {"tests.a.test_b.test_c": ended}
    assert torch_claims.held([ONE], found) == {"one": holds}


def test_it_holds_if_every_test_passed() -> None:
    two = ONE.model_copy(update={"tests": (*ONE.tests, "tests/d.py::test_e")})
    found = {"tests.a.test_b.test_c": ["passed"]}
    assert torch_claims.held([two], found) == {"one": False}
    found["tests.d.test_e"] = ["passed"]
    assert torch_claims.held([two], found) == {"one": True}


def test_a_group_behind_a_name_is_no_part_of_it(tmp_path: Path) -> None:
    report = tmp_path / "checked.xml"
    case = '<testcase classname="tests.a.test_b" name="test_c@group"/>'
    report.write_text(f"<testsuite>{case}</testsuite>")
    assert torch_claims.held([ONE], outcomes([report])) == {"one": True}


def test_what_was_noted_of_other_versions_stays() -> None:
    before = {"one": {"2.11.0": True}, "two": {"2.11.0": True}, "gone": {}}
    after = torch_claims.merged(
        before, "2.13.0", {"one": False}, ["two", "one"]
    )
    assert after == {
        "one": {"2.11.0": True, "2.13.0": False},
        "two": {"2.11.0": True},
    }


def test_a_record_runs_the_tests_and_is_merged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = tmp_path / "torch_claims.json"
    result.write_text('{"formats": {"1.0": true}}')
    monkeypatch.setattr(torch_claims, "RESULT", result)
    assert torch_claims.main(["record", "formats", "--workers", "0"]) == 0
    noted = json.loads(result.read_text())["formats"]
    assert noted.pop("1.0") is True
    assert [*noted.values()] == [True]
    assert "1 of 1 held" in capsys.readouterr().out


@pytest.mark.xdist_group("site")
def test_the_page_has_every_statement_with_its_versions(site: Site) -> None:
    html = site.pages()["reference/checked-against/"]
    soup = BeautifulSoup(html, "html.parser")
    assert {x["id"] for x in soup.select("dt[id]")} == {
        one.id for one in torch_claims.statements()
    }
    for one in TESTED:
        held = soup.find(id=one.id).find_next_sibling("dd").get_text()
        assert all(number in held for number in one.versions), one.id
