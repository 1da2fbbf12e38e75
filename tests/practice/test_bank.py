"""Every question of the bank is whole, and what it names is there."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown.extensions.toc import slugify
from pydantic import ValidationError

from lockstep.bugs import bugs
from lockstep.drills.stages import drills
from lockstep.labs import labs
from lockstep.practice.bank import CANDIDATES, Question, load
from lockstep.site.figures import computed

ROOT = Path(__file__).parents[2]
QUESTIONS = load()
each = pytest.mark.parametrize("one", QUESTIONS.values(), ids=QUESTIONS)


@cache
def functions_in(path: Path) -> set[str]:
    """The names of its functions."""
    tree = ast.parse(path.read_text("utf-8"))
    return {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}


@cache
def anchors(path: Path) -> set[str]:
    """Those that a page names, and those of its headings."""
    text = path.read_text("utf-8")
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    return {*re.findall(r"#([\w-]+)[ }]", text)} | {
        slugify(title, "-") for title in titles
    }


@each
def test_what_holds_an_answer_is_there(one: Question) -> None:
    for test in one.evidence.tests:
        path, _, name = test.partition("::")
        assert name in functions_in(ROOT / path), test
    for page in one.evidence.pages:
        path, _, anchor = page.partition("#")
        assert not anchor or anchor in anchors(ROOT / "docs" / path), page
    assert {*one.evidence.labs} <= labs().keys()
    assert {*one.evidence.drills} <= drills().keys()
    assert {*one.evidence.bugs} <= bugs().keys()


def texts(found: Any) -> Iterator[str]:
    """All that is in it."""
    if isinstance(found, str) and found:
        yield found
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        for part in found:
            yield from texts(part)


@each
def test_its_figures_can_be_computed(one: Question) -> None:
    for text in texts(one.model_dump()):
        assert computed(text, "")
    for plan in one.evidence.plans:
        assert computed(f"{{{{ {plan} }}}}", "")


def written(**other: Any) -> dict[str, Any]:
    """One of them, with other values."""
    path = min(CANDIDATES.glob("*.yml"))
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return found | other


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"say": "word " * 76}, "76 words, where 75 are the most"),
        ({"topic": "weather"}, "weather is none of arithmetic"),
        ({"evidence": {}}, "nothing holds the answer"),
        ({"level": "junior"}, "Input should be 'senior'"),
        ({"anything": "else"}, "Extra inputs are not permitted"),
    ],
)
def test_what_is_not_whole_is_refused(other: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Question.model_validate(written(**other))


def test_a_file_that_holds_none_is_named(tmp_path: Path) -> None:
    text = yaml.safe_dump(written())
    (tmp_path / "other-name.yml").write_text(text)
    with pytest.raises(ValueError, match=r"other-name\.yml: its id is"):
        load(tmp_path)
