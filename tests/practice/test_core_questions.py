"""A question of the core is whole, and can be spoken in its time."""

from typing import Any

import pytest
from pydantic import ValidationError

from lockstep.practice.bank import admitted, ids
from lockstep.practice.core_questions import CORE, Core, core
from lockstep.site.pages.number_origins import typed

from .specimen import CORE_FILE, core_specimen, written

each = pytest.mark.parametrize("name", ids(CORE))


@each
def test_it_takes_a_minute_to_a_minute_and_a_half(name: str) -> None:
    """At 150 words a minute, marks of proof left out."""
    assert 55 <= core()[name].seconds <= 92


@each
def test_what_sharpens_it_is_admitted(name: str) -> None:
    assert {*core()[name].sharpened} <= admitted().keys()


def test_a_place_that_names_interviews_marks_a_question() -> None:
    thread = {"url": "https://a.example/issues/1", "says": "A user asks it."}
    guide = {"url": "https://b.example/", "says": "An interview guide has it."}
    assert core_specimen(asked=[thread, guide]).in_interviews
    other = thread | {"url": "https://a.example/issues/2"}
    assert not core_specimen(asked=[thread, other]).in_interviews


def test_marks_are_not_spoken() -> None:
    """Neither words nor numbers of a mark count."""
    text = "It has two. " + 3 * '[✓ https://a.b/64 "says 64 times"] '
    one = core_specimen(answer=text)
    assert one.seconds == 1
    assert list(typed(one)) == []


def test_a_number_of_the_core_is_computed() -> None:
    found = list(typed(core_specimen(principal="It is 64 GB.")))
    assert found == ["principal: 64 is typed; compute it or quote it"]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"question": "One? Two. Three. Four."}, "4 sentences, where 3 are"),
        ({"answer": "word " * 221}, "221 words, where 220 are the most"),
        ({"kind": "riddle"}, "Input should be 'explain'"),
        ({"asked": []}, "should have at least 2 items"),
        (
            {"asked": 2 * [{"url": "https://a.b", "says": "It."}]},
            "two traces have one address",
        ),
        (
            {"pushbacks": [{"ask": "Why?", "reply": "So."}]},
            "no pushback has a second one behind it",
        ),
        ({"scored": {"senior": "a", "staff": "b"}}, "does not say what princ"),
        ({"trials__comparisons": []}, "should have at least 5 items"),
    ],
)
def test_what_is_not_whole_is_refused(other: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Core.model_validate(written(CORE_FILE, **other))
