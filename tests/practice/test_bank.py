"""Every question of the bank is whole, and what it names is there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from lockstep.practice.bank import (
    CANDIDATES,
    QUESTIONS,
    Admitted,
    Asked,
    admitted,
    ids,
    load,
    renamed,
)
from lockstep.practice.core_questions import CORE, core
from lockstep.practice.figures import computed, given
from lockstep.site.pages.evidence import missing

from .specimen import core_specimen, specimen, written

SPECIMENS = {"specimen": specimen, "core-specimen": core_specimen}
each = pytest.mark.parametrize(
    "name", [*ids(CANDIDATES), *ids(QUESTIONS), *ids(CORE), *SPECIMENS]
)


def question(name: str) -> Asked:
    """The question of that id."""
    if make := SPECIMENS.get(name):
        return make()
    every: dict[str, Asked] = {**load(), **admitted(), **core()}
    return every[name]


@each
def test_what_holds_an_answer_is_there(name: str) -> None:
    """Each test, page, lab, drill and bug that its evidence names."""
    assert list(missing(question(name))) == []


def texts(found: Any) -> Iterator[str]:
    """All that is in it."""
    if isinstance(found, str) and found:
        yield found
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list | tuple):
        for part in found:
            yield from texts(part)


@each
def test_its_figures_can_be_computed(name: str) -> None:
    one = question(name)
    dumped = list(texts(one.model_dump()))
    assert one.pushbacks[0].reply in dumped
    for text in dumped:
        assert computed(text, "", **given(""))
    for plan in one.evidence.plans:
        assert computed(f"{{{{ {plan} }}}}", "")


def test_a_question_is_parsed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Loading the bank again parses no file, and shared questions cannot be
    changed."""
    core(), admitted()
    monkeypatch.setattr(yaml, "load", None)
    one = next(iter(core().values()))
    assert next(iter(core().values())) is one
    core().clear()  # a dictionary of the caller's own
    assert admitted()
    with pytest.raises(ValidationError, match="frozen"):
        one.title = "Other"
    with pytest.raises(AttributeError, match="append"):
        one.pushbacks.append(one.pushbacks[0])  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="item assignment"):
        one.scored["staff"] = "Other"  # type: ignore[index]


def test_a_renamed_question_is_there_under_its_new_id_alone() -> None:
    there = {*ids(QUESTIONS), *ids(CORE)}
    assert {*renamed().values()} <= there
    assert there.isdisjoint(renamed())


def test_no_question_is_both_on_trial_and_admitted() -> None:
    assert not load().keys() & admitted().keys()


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"say": "word " * 76}, "76 words, where 75 are the most"),
        ({"topic": "weather"}, "weather is none of arithmetic"),
        ({"evidence": {}}, "nothing holds the answer"),
        ({"level": "junior"}, "Input should be 'senior'"),
        ({"anything": "else"}, "Extra inputs are not permitted"),
        ({"trials__by": "people"}, "Input should be 'large language model'"),
        ({"trials__answers": []}, "should have at least 3 items"),
        ({"trials__comparisons": []}, "should have at least 5 items"),
        ({"trials__best": {"url": "https://a.b"}}, "Field required"),
    ],
)
def test_what_is_not_whole_is_refused(other: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Admitted.model_validate(written(**other))


def test_a_published_answer_has_an_address_of_its_own() -> None:
    answers = written()["trials"]["answers"]
    given = {"trials__by": "published text", "trials__answers": answers}
    for number, address in enumerate(("a", "b", "b")):
        with pytest.raises(ValidationError, match="different addresses"):
            specimen(**given)
        answers[number]["url"] = f"https://{address}.example"
    with pytest.raises(ValidationError, match="2 different addresses"):
        specimen(**given)
    answers[2]["url"] = "https://c.example"
    specimen(**given)
    with pytest.raises(ValidationError, match="a language model has none"):
        specimen(trials__answers=answers)


def test_a_question_that_is_too_easy_is_refused() -> None:
    answers = written()["trials"]["answers"]
    answers[0]["fell"] = False
    why = "1 of 3 answers fell short, where 2 are the least"
    with pytest.raises(ValidationError, match=why):
        specimen(trials__answers=answers)


@pytest.mark.parametrize(
    ("field", "values", "why"),
    [
        ("winner", "opoop", r"ours won 3 of 5 comparisons, where 4 are"),
        ("first", "ooooo", r"ours was read first in 5 of 5; it has to be in 2"),
        ("first", "opppp", r"ours was read first in 1 of 5; it has to be in 2"),
    ],
)
def test_what_blind_judges_did_not_prefer_is_refused(
    field: str, values: str, why: str
) -> None:
    comparisons = written()["trials"]["comparisons"]
    for choice, value in zip(comparisons, values, strict=True):
        choice[field] = {"o": "ours", "p": "public"}[value]
    with pytest.raises(ValidationError, match=why):
        specimen(trials__comparisons=comparisons)


def put(folder: Path, name: str, given: dict[str, Any]) -> None:
    (folder / f"{name}.yml").write_text(yaml.safe_dump(given))


def test_trials_are_of_what_was_admitted_alone(tmp_path: Path) -> None:
    put(tmp_path, "specimen", written())
    assert admitted(tmp_path)["specimen"].trials.won == 4
    with pytest.raises(ValueError, match=r"^specimen\.yml: trials: Extra "):
        load(tmp_path)
    given = written()
    del given["trials"]
    put(tmp_path, "specimen", given)
    assert load(tmp_path).keys() == {"specimen"}
    with pytest.raises(ValueError, match=r"^specimen\.yml: trials: Field re"):
        admitted(tmp_path)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (written(id="other"), r"specimen\.yml: its id is other"),
        (
            written(level="junior", topic="weather"),
            r"specimen\.yml: topic: weather is none of .*; level: Input .*",
        ),
        ("a: [", r"specimen\.yml: while parsing .*"),
    ],
)
def test_a_file_that_holds_none_is_named_in_a_line(
    tmp_path: Path, given: Any, why: str
) -> None:
    put(tmp_path, "specimen", given)
    if isinstance(given, str):
        (tmp_path / "specimen.yml").write_text(given)
    with pytest.raises(ValueError, match=f"^{why}$") as caught:
        admitted(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_folder_may_hold_none(tmp_path: Path) -> None:
    assert admitted(tmp_path) == {}
