"""What is shown of a figure is what it was computed from."""

import pytest

from lockstep.planner.figures import (
    Formula,
    PlanError,
    derive,
    divides,
    one_of,
    quantity,
    short,
    whole,
    words,
)

AREA = Formula("area", "width * 2e3 / (ways if ways >= 2 else 1)", "B", "me")
HALF = Formula("half", "ceil(area / 2)", "B", "me")


def test_a_tie_in_the_fourth_digit_is_rounded_as_in_the_browser() -> None:
    """CPython's format would take the even digit, 4.562e+10."""
    assert short(365e9 / 8) == "4.563e+10"
    assert quantity(365e9 / 8, "B/s") == "45.63 GB/s"
    assert quantity(0.125, "s") == "0.125 s"


def test_inputs_are_the_names_in_a_formula() -> None:
    assert AREA.inputs == ["width", "ways"]
    assert HALF.inputs == ["area"]
    assert "".join(word for word, _ in words(AREA.text)) == AREA.text


def test_a_figure_shows_formula_values_and_unit() -> None:
    found = derive({"width": 3, "ways": 4}, [AREA, HALF])
    assert found["area"].value == 1500
    assert found["half"].derivation() == [
        *("half", "ceil(area / 2)", "ceil(1500 / 2)", "750 B")
    ]
    assert found["area"].substituted() == "3 * 2e3 / (4 if 4 >= 2 else 1)"


def test_steps_come_before_what_rests_on_them_and_once() -> None:
    both = Formula("both", "area + half", "B", "me")
    found = derive({"width": 3, "ways": 1}, [AREA, HALF, both])
    names = [step.formula.name for step in found["both"].steps()]
    assert names == ["area", "half", "both"]


def test_a_missing_input_is_an_error_of_ours() -> None:
    with pytest.raises(KeyError, match="ways"):
        derive({"width": 3}, [AREA])


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (31.40625e9, "B", "31.41 GB (29.25 GiB)"),
        (2**30, "B", "1.074 GB (1 GiB)"),
        (1536, "B", "1.536 kB (1.5 KiB)"),
        (3.8e25, "FLOP", "38 YFLOP"),
        (989e12, "FLOP/s", "989 TFLOP/s"),
        (8030261248, "parameters", "8,030,261,248 parameters"),
        (12, "parameters", "12 parameters"),
        (0.25, "s", "0.25 s"),
        (0.157894, "of total", "0.1579 of total"),
    ],
)
def test_quantities_have_units_decimal_apart_from_binary(
    value: float, unit: str, said: str
) -> None:
    assert quantity(value, unit) == said


def test_what_cannot_be_is_named_with_what_could() -> None:
    assert whole("tp", 4.0) == 4
    for wrong in (0, 1.5, -2):
        with pytest.raises(PlanError, match=r"^--zero-stage is .* whole"):
            whole("zero_stage", wrong)
    with pytest.raises(PlanError, match="must be a divisor of --heads, 96"):
        divides("tp", 5, "heads", 96)
    with pytest.raises(PlanError, match="--op is x; it must be one of a, b"):
        one_of("op", "x", ("a", "b"))
