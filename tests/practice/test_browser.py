"""Every question that a page asks of Python gets one answer, in JSON."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from lockstep.explain import catalog
from lockstep.explore import NAMES
from lockstep.explore import page as explore
from lockstep.explore.planner_page import EXAMPLES
from lockstep.planner.figures import TOO_FAR
from lockstep.planner.questions import CHOICES, QUESTIONS
from lockstep.practice.browser import ROOMS, answered
from lockstep.practice.kinds import KINDS

EXPLAIN, PLANNER, EXPLORE, ESTIMATES = ROOMS
# What somebody may type, and what a link may hold.
STRANGE = (
    *("", " ", "0", "-0", "1", "-1", "0.5", "1e-308", "5e-324", "1e-30"),
    *("1e9", "1e18", "1e30", "1e100", "1e308", "-1e308", "1e309", "9" * 400),
    *("inf", "-inf", "nan", "NaN", "Infinity", "x", "<b>", "1,5", "1 TB"),
    *("None", "true", "[]", "{{ 7 }}", "\0", "١", "𝟙", "7.5e9", "0x10"),
)
WEDGED = {  # planner/?ask=goodput&… left the worker silent until a reload
    "gpus": "8192",
    "gpu_mtbf_hours": "1e308",
    "save_seconds": "1e308",
    "restart_seconds": "64",
}


def asked(*question: Any) -> dict[str, Any]:
    """The answer, which is a JSON object; an error in it is one clear line."""
    said = json.loads(answered(json.dumps(question)))
    assert isinstance(said, dict), question
    why = said.get("error")
    if why is not None:
        assert said.keys() == {"error"}, question
        assert why.strip(), question
        assert "\n" not in why, question
        assert "the page failed" not in why, (question, why)
    return said


def planned(draws: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Each question so many times, with one to four of its inputs strange."""
    chance = random.Random(draws)
    for name, _, example in EXAMPLES:
        keys = [key for key, _ in QUESTIONS[name].inputs]
        for _ in range(draws):
            texts = {key: str(value) for key, value in example}
            for key in chance.sample(
                keys, min(len(keys), chance.randint(1, 4))
            ):
                known = [str(one) for one in CHOICES.get(key, ())]
                texts[key] = chance.choice([*STRANGE, *known[:3]])
            yield name, texts


def test_the_link_that_wedged_the_page_is_refused_in_a_line() -> None:
    said = asked(PLANNER, "goodput", json.dumps(WEDGED), True)
    assert "--gpu-mtbf-hours is 1e308" in said["html"]
    assert "1e30" in said["html"]
    assert 'value="8192"' in said["form"]


@pytest.mark.parametrize(
    "draws", [100, pytest.param(4000, marks=pytest.mark.weekly)]
)
def test_the_planner_answers_whatever_is_typed(draws: int) -> None:
    """To each question with strange inputs the answer has HTML, and a form
    where one is asked for."""
    for name, texts in planned(draws):
        said = asked(PLANNER, name, json.dumps(texts), True)
        assert said["ask"] == name
        assert said["html"]
        assert said["form"]


def test_an_explorable_answers_whatever_a_link_holds() -> None:
    """What is not offered is the default, and the width may be any number."""
    for at, name in enumerate(NAMES):
        settings = explore.module(name).SETTINGS
        for text in STRANGE[at % 9 :: 9]:
            link = ",".join(f"{one.name}:{text}" for one in settings)
            assert asked(EXPLORE, name, link, 330)["drawing"]
            assert asked(EXPLORE, name, text, 660)["drawing"]
        for width in (-1, 0, 1, 1e9):
            assert asked(EXPLORE, name, "", width)["drawing"]
    assert "there is no explorable x" in asked(EXPLORE, "x", "", 330)["error"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_estimate_is_judged_whatever_is_typed(kind: str) -> None:
    units = "", " trillion", "TB", " weeks", " GWh", "%"
    for text in STRANGE:
        for unit in units:
            said = asked(ESTIMATES, kind, 7, text + unit)
            assert said["question"]
            assert said["right"] in (True, False, None)
    for seed in (-1, 0, 10**400, 0.5, "x", None):
        assert asked(ESTIMATES, kind, seed, "")["question"]


def test_a_paste_is_explained_whatever_it_holds() -> None:
    """Messages cut anywhere, in any order, and lines of no log at all have a
    verdict or one line that says what is missing."""
    entries = catalog.shipped()
    chance = random.Random(0)
    lines = [
        line for one in catalog.load() for line in one["example"].split("\n")
    ]
    lines += ["Traceback (most recent call last):", "srun: error: n: task", ""]
    lines += [
        "exitcode",
        " exitcode : - (pid: ",
        "Root Cause",
        "[rank3]:",
        *STRANGE,
    ]
    for size in (1, 2, 5, 40, 400):
        chosen = chance.choices(lines, k=size)
        cut = [one[: chance.randint(0, len(one) + 20)] for one in chosen]
        said = asked(EXPLAIN, entries, "\n".join(cut), "../")
        assert said.get("html", "").startswith("<div") or said["failed"]


def test_what_is_no_question_is_answered_too() -> None:
    for text in ("", "{", "null", "[]", "{}", '"x"', '["os"]', "[[]]", "[7]"):
        assert "names one of" in json.loads(answered(text))["error"]
    for room in ROOMS:
        for given in ([], ["x"], [None, None, None], [{}, [], -1], 9 * ["y"]):
            said = json.loads(answered(json.dumps([room, *given])))
            assert isinstance(said, dict)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OverflowError("math range error"), TOO_FAR),
        (MemoryError(), "more memory than the page has"),
        (RecursionError("too\ndeep"), "RecursionError: too deep"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_whatever_a_page_raises_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, error: Exception, why: str
) -> None:
    def fails(*_: object) -> str:
        raise error

    monkeypatch.setattr(explore, "live", fails)
    said = json.loads(answered(json.dumps([EXPLORE, "loader", "", 330])))
    assert why in said["error"]
