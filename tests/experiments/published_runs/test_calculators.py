"""Other calculators' answers are held against the same published figures."""

import pytest

from lockstep.experiments.published_runs.calculators import (
    Calculator,
    calculators,
    ratios,
)
from lockstep.experiments.published_runs.compare import compare, compared
from lockstep.experiments.published_runs.rows import rows

from .test_compare import row


def test_each_answer_and_each_refusal_is_of_a_row() -> None:
    speeds = {one.row.id for one in compared().throughput}
    for one in calculators():
        assert one.tokens, one.name
        assert not {*one.tokens} & {*one.refused}
        assert {*one.tokens, *one.refused} <= {*rows()}
        assert {*ratios(one, compared().throughput)} == {*one.tokens} & speeds
        assert all(one.refused.values())


@pytest.mark.parametrize(
    "published",
    [
        {"tokens_per_s_per_gpu": 500.0},
        {"step_s": 4.0},
    ],
)
def test_an_answer_is_over_the_published_speed(
    published: dict[str, float],
) -> None:
    """1,000 tokens/s per GPU where the source publishes 500 is a ratio of 2."""
    found = compare([row(published=published)]).throughput
    one = Calculator(
        name="x",
        version="1",
        address="a",
        asked="2026-11-29",
        made_for="m",
        settings="s",
        tokens={"a-run": 1000.0, "gone": 1.0},
        refused={},
    )
    assert ratios(one, found) == {"a-run": pytest.approx(2)}
