"""A run that resumed with a different state, compared step by step, and what a
lost first moment does to the steps after it."""

from __future__ import annotations

import pytest
import torch

from lockstep.experiments.demos.first_difference import compared, told
from tests.exam.test_lineage import STEPS, WHOLE, changed


def test_comparison_marks_the_steps_that_differ() -> None:
    """A run resumes from step 2. One rank begins step 3 with a different
    optimizer state, which is marked in that row and step alone and blamed."""
    now = changed(1, 2, before={"optimizer": "none"})
    found = compared(WHOLE, now)
    assert found.pop("optimizer") == [k == 2 for k in range(STEPS)]
    assert [*found.values()] == [[False] * STEPS] * 4
    lines = told(WHOLE, now, 4).splitlines()
    assert lines[1].split() == ["launch", *"112222"]
    assert lines[-3:] == [
        "launch 1 was killed after step 4",
        "launch 2 began with the weights of step 2",
        "the exam blames: optimizer",
    ]


def test_samples_of_one_rank_that_differ_are_marked() -> None:
    """Other samples on one rank are marked at their step."""
    found = compared(WHOLE, changed(0, 4, ids=(9, 8)))
    assert found["samples"] == [k == 4 for k in range(STEPS)]


def sizes_after_losing(
    moments: tuple[str, ...], steps: int, beta2: float = 0.999
) -> list[float]:
    """Return the sizes of Adam's steps, over their usual size, after these
    moments were set to zero late in a run. The gradient stays the same."""
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    adam = torch.optim.Adam([weight], lr=1e-3, betas=(0.9, beta2))

    def step() -> float:
        before = weight.item()
        weight.grad = torch.ones_like(weight)
        adam.step()
        return before - weight.item()

    usual = [step() for _ in range(8_000)][-1]
    for moment in moments:
        adam.state[weight][moment].zero_()
    return [step() / usual for _ in range(steps)]


def test_steps_after_a_lost_first_moment_are_too_small() -> None:
    """Late in a run, Adam's first moment is set to zero, and the gradient stays
    the same. The k-th step after that has 1 - 0.9**k of the usual size: the
    first a tenth, the tenth 65 %, the 22nd 90 %. If the second moment is lost
    too, the first step has 3.2 times the usual size with a beta2 of 0.999, and
    0.45 times with 0.95."""
    sizes = sizes_after_losing(("exp_avg",), 22)
    expected = [1 - 0.9**k for k in range(1, 23)]
    assert sizes == pytest.approx(expected, abs=1e-6)
    assert sizes[-1] > 0.9 > sizes[-2]
    for beta2, expected_size in (0.999, 3.2), (0.95, 0.45):
        (size,) = sizes_after_losing(("exp_avg", "exp_avg_sq"), 1, beta2)
        assert size == pytest.approx(expected_size, abs=0.05)
        assert size == pytest.approx((1 - 0.9) / (1 - beta2) ** 0.5, rel=1e-3)
