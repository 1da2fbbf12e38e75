"""Every question that can be drawn is one that somebody could ask."""

import json
import re
from pathlib import Path

import pytest

from lockstep import planner, practice
from lockstep.planner.figures import FUNCTIONS, PlanError
from lockstep.planner.flops import MFU
from lockstep.planner.seconds import bandwidths
from lockstep.practice import bank
from lockstep.practice.estimates import (
    FIRST,
    check,
    drawn,
    examples,
    form,
    generate,
    live,
    near,
)
from lockstep.practice.kinds import KINDS, RATE, TOPICS
from lockstep.practice.units import amount, parsed
from tests import micropython
from tests.practice.generate_all import asked

NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
# What one GPU or one cluster of today can have to do with.
SENSIBLE = {
    "B": (1e6, 1e14),
    "s": (1e-5, 1e7),
    "days": (1, 180),
    "share": (0.01, 0.6),
    "parameters": (1e7, 1e12),
    "FLOP": (1e8, 1e26),
    "FLOP/B": (10, 1e4),
    "steps": (1e4, 2e6),
    "kWh": (1e3, 1e8),
    "in the price's currency": (1e4, 1e8),
}
each = pytest.mark.parametrize("kind", KINDS)


@each
def test_every_draw_is_sensible_and_round_numbers_are_near(kind: str) -> None:
    """In 400 draws of each kind the answer is of a sensible size, and the
    answer by round numbers is within the stated factor of it."""
    texts = set()
    for seed in range(400):
        card = generate(kind, seed)
        least, most = SENSIBLE[card["unit"]]
        assert least < card["value"] < most, seed
        off = card["round_value"] / card["value"]
        assert 1 / card["factor"] <= off <= card["factor"], seed
        assert not re.search(r"[{}]|None|nan|inf|e[+-]\d", card["question"])
        assert card["question"].endswith("?")
        texts.add(card["question"])
    assert len(texts) > 25, "the same numbers again and again"


@each
def test_a_seed_decides_and_another_draws_anew(kind: str) -> None:
    assert generate(kind, 3) == generate(kind, 3)
    assert len({generate(kind, seed)["question"] for seed in range(9)}) > 3


@each
def test_a_derivation_evaluates_to_the_answer(kind: str) -> None:
    """Each line of a question's derivation, evaluated as it stands, gives what
    it says, and the last one gives the answer."""
    _, found = drawn(kind, 5)
    figure = found[KINDS[kind].key]
    card = generate(kind, 5)
    for step, line in zip(figure.steps(), card["derivation"], strict=True):
        name, formula, *middle, _ = line.split(" = ")
        assert (name, formula) == (step.formula.name, step.formula.text)
        # Four digits go in, so about as many come out.
        said = eval(middle[0] if middle else formula, dict(FUNCTIONS))
        assert said == pytest.approx(step.value, rel=0.02), line
    assert step.value == card["value"]


OURS = {
    *("cache_bytes", "tokens_per_second", "steps", "intensity", "lost"),
    *("checkpoint_bytes", "write_seconds", "data_bandwidth"),
}


def test_a_formula_that_the_planner_has_is_not_written_again() -> None:
    texts = {
        path.stem: path.read_text("utf-8")
        for folder in (planner.__path__[0], practice.__path__[0])
        for path in Path(folder).glob("*.py")
    }
    assert set(re.findall(r'Formula\(\s*"(\w+)"', texts["kinds"])) == OURS
    assert "Formula(" not in texts["estimates"]


def test_ddp_sends_by_all_cards_of_a_node_as_in_the_planner() -> None:
    """With a NIC for each of eight GPUs, the estimate of DDP's exposed
    seconds divides by the bandwidth that a layout's data-parallel ring has."""
    draws = (drawn("ddp-exposed", seed) for seed in range(100))
    given, found = next(one for one in draws if one[0]["cards"] == 8)
    cluster = dict.fromkeys(("tp", "cp", "pp", "ep"), 1) | {
        "shard": given["gpus"],
        "dp": given["gpus"],
        "gpus_per_node": 8,
        "node_bandwidth": 450e9,
        "network_bandwidth": given["bandwidth"],
    }
    assert (
        found["data_bandwidth"].value == (bandwidths(cluster)["data_bandwidth"])
    )


def test_the_rate_at_an_mfu_is_the_planners_mfu_solved() -> None:
    given, found = drawn("days", 1)
    scope = dict(found, sequence=1, tokens_per_second=found[RATE.name].value)
    assert MFU(scope).value == pytest.approx(given["mfu"])


def test_there_are_many_kinds_in_every_topic_and_all_are_asked() -> None:
    assert len(KINDS) >= 20
    assert {kind.topic for kind in KINDS.values()} == set(TOPICS)
    assert TOPICS.items() <= bank.TOPICS.items()
    page = form()
    assert all(f'value="{name}"' in page for name in KINDS)
    assert generate(*FIRST)["question"] in page
    assert [one["family"] for one in examples()] == list(TOPICS.values())


@pytest.mark.parametrize(
    ("typed", "unit", "value"),
    [
        ("1.2e9", "parameters", 1.2e9),
        ("1,200,000", "parameters", 1.2e6),
        ("70 B", "parameters", 70e9),
        ("70 billion parameters", "parameters", 70e9),
        ("80 GB", "B", 80e9),
        ("80GiB", "B", 80 * 2**30),
        ("~ 3 tb", "B", 3e12),
        ("500 bytes", "B", 500),
        ("3 h", "s", 10800),
        ("40 ms", "s", 0.04),
        ("2 minutes", "s", 120),
        ("3 weeks", "days", 21),
        ("20", "days", 20),
        ("12 %", "share", 0.12),
        (".12", "share", 0.12),
        ("$2 M", "in the price's currency", 2e6),
        ("3.6e25", "FLOP", 3.6e25),
        ("2 GWh", "kWh", 2e6),
        ("300 FLOP/B", "FLOP/B", 300),
    ],
)
def test_an_estimate_is_read(typed: str, unit: str, value: float) -> None:
    assert parsed(typed, unit) == pytest.approx(value)


@pytest.mark.parametrize(
    ("typed", "unit", "why"),
    [
        ("", "B", "nothing is no estimate here; type one as 80 GB or 8e10"),
        ("many", "s", "many is no estimate here; type one as 40 ms or 3 h"),
        ("3 h", "B", "3 h is no estimate here; type one as 80 GB"),
        ("-3", "s", "-3 is no estimate here"),
        ("0", "s", "0 is no estimate here"),
        ("inf", "s", "inf is no estimate here"),
        ("nan", "s", "nan is no estimate here"),
        ("1e999", "s", "1e999 is no estimate here"),
        ("12", "share", "a share of 12 is above 1; type 12 % or 0.12"),
        ("3 h 20", "s", "3 h 20 is no estimate here"),
    ],
)
def test_what_is_no_estimate_is_refused(
    typed: str, unit: str, why: str
) -> None:
    with pytest.raises(PlanError, match=re.escape(why)):
        parsed(typed, unit)


def test_every_kind_says_how_it_is_answered() -> None:
    for kind in KINDS:
        card = generate(kind, 1)
        with pytest.raises(PlanError, match="type one as"):
            parsed("?", card["unit"])
        answered = parsed(card["answer"], card["unit"])
        assert answered == pytest.approx(card["value"], rel=0.001)


def test_an_estimate_is_right_within_its_factor() -> None:
    card = generate("state", 1)
    for off, right, said in (
        (1.0, True, "right on it, within a factor of 1.5"),
        (1.45, True, "1.45 times too high, within"),
        (1 / 1.45, True, "1.45 times too low, within"),
        (1.55, False, "1.55 times too high, not within a factor of 1.5"),
        (1 / 1.55, False, "1.55 times too low, not within"),
    ):
        verdict = check(card, repr(off * card["value"]))
        assert verdict[0] is right
        assert said in verdict[1]
        assert f"The planner says {card['answer']}" in verdict[1]


def test_round_numbers_are_what_somebody_would_say() -> None:
    for value, digits, round_one in (
        (989e12, 1, 1e15),
        (312e12, 1, 3e14),
        (128256, 1, 130000),
        (2.5e9, 1, 3e9),
        (96, 1, 96),
        (0.0123, 1, 0.012),
        (0.45, 1, 0.5),
        (0.9835, 2, 0.98),
        (99.6, 1, 100),
        (0, 1, 0),
    ):
        assert near(value, digits) == pytest.approx(round_one)
    assert near("ring", 1) == "ring"
    assert near(True, 1) is True


def test_amounts_are_said_in_the_units_of_the_trade() -> None:
    assert amount(0.0123, "s") == "12.3 ms"
    assert amount(100000, "s") == "27.78 h"
    assert amount(3.645e25, "FLOP") == "3.645e25 FLOP"
    assert amount(0.1234, "share") == "12.34 %"
    assert amount(2e6, "in the price's currency") == "$2 million"


def test_the_browser_gets_an_answer_or_a_reason() -> None:
    for typed, right, said in (
        ("", None, ""),
        ("many", None, "many is no estimate here"),
        ("1 kB", False, "too low"),
    ):
        answer = json.loads(live("zero-3", 4, typed))
        assert answer["right"] is right
        assert said in answer["verdict"]
        assert answer["question"] == generate("zero-3", 4)["question"]
        assert answer["worked"].startswith("<details")
    other = json.loads(live("<b>", 4, ""))
    assert other["kind"] == FIRST[0]


@pytest.mark.usefixtures("node_modules")
def test_micropython_draws_the_same_questions() -> None:
    """MicroPython draws the same questions, derivations and answers from the
    same seeds as CPython."""
    inputs = [(kind, seed) for kind in KINDS for seed in range(0, 90, 13)]
    program = Path(__file__).with_name("generate_all.py").read_text("utf-8")
    theirs = json.loads(micropython.printed(program, inputs))
    for given, other in zip(inputs, theirs, strict=True):
        mine = json.loads(json.dumps(asked(*given)))
        for key in ("id", "question", "title", "command", "thumb", "factor"):
            assert other[0][key] == mine[0][key], given
        # A last digit that is halfway is rounded to the other side.
        one, two = (json.dumps(x, sort_keys=True) for x in (mine, other))
        assert NUMBER.sub("#", one) == NUMBER.sub("#", two), given
        for a, b in zip(NUMBER.findall(one), NUMBER.findall(two), strict=True):
            assert float(a) == pytest.approx(float(b), rel=1.1e-3), given
