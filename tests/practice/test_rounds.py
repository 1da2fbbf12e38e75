"""A design round is whole, and can be played in its time."""

from copy import deepcopy
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from lockstep.practice.bank import ids
from lockstep.practice.rounds import ROUNDS, STAGES, Round, rounds


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    """One of them, to break."""
    path = sorted(ROUNDS.glob("*.yml"))[0]
    return dict(yaml.safe_load(path.read_text("utf-8")))


each = pytest.mark.parametrize("name", ids(ROUNDS))


@each
def test_a_round_fills_its_time(name: str) -> None:
    """Its stages follow each other from minute 0 to the end."""
    one = rounds()[name]
    begins = [*one.begins.values()]
    assert begins[0] == 0
    assert begins == sorted(begins)
    last = one.stages["wrong"].minutes
    assert begins[-1] + last == one.minutes


@each
def test_a_diagram_grows(name: str) -> None:
    """The second design has what the first one has, and more."""
    one = rounds()[name]
    first, second = (
        {
            line.strip()
            for line in one.stages[name].diagram.splitlines()
            if "acc" not in line
        }
        for name in ("first", "second")
    )
    assert len(second) > len(first)


def test_a_transcript_has_two_voices() -> None:
    for one in rounds().values():
        for transcript in (one.weak, one.strong):
            assert {turn.who for turn in transcript} == {
                "interviewer",
                "candidate",
            }


def test_there_are_twelve() -> None:
    assert len(rounds()) >= 12


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (("stages", "numbers", "minutes"), 1, "greater than or equal to 2"),
        (("stages", "first", "diagram"), "", "need diagrams"),
        (("stages", "wrong", "text"), "", "wrong has no text"),
        (("stages", "first", "diagram"), "a[b<br/>c]", "end a label's line"),
        (("concerns",), {"cost": "a lot"}, "it needs data, checkpoints"),
        (("failures",), [], "at least 4 items"),
        (("rubric", 0, "marks"), {"senior": "a"}, "senior, staff and princ"),
        (("strong", 0, "who"), "passer-by", "Input should be 'interviewer'"),
        (("question",), "word " * 111, "111 words, where 110 are the most"),
    ],
)
def test_what_is_not_whole_is_refused(
    written: dict[str, Any], place: tuple[Any, ...], value: Any, why: str
) -> None:
    broken = deepcopy(written)
    inside: Any = broken
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    with pytest.raises(ValidationError, match=why):
        Round.model_validate(broken)


def test_a_round_too_long_is_refused(written: dict[str, Any]) -> None:
    broken = deepcopy(written)
    for name in STAGES:
        broken["stages"][name]["minutes"] = 15
    with pytest.raises(ValidationError, match="120 minutes, where 45 to 60"):
        Round.model_validate(broken)
