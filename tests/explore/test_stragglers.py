"""The picture of the slowest rank beside steps that are drawn by chance."""

from typing import Any

import numpy as np
import pytest

from lockstep.explore import stragglers
from lockstep.explore.settings import read


def values(text: str) -> dict[str, Any]:
    """All settings, some of them changed."""
    return read(stragglers.SETTINGS, text)


def simulated(given: dict[str, Any], steps: int = 4000) -> np.ndarray:
    """The job's step in seconds, of so many steps."""
    chance = np.random.default_rng(0)
    speed = np.ones(given["ranks"])
    speed[0] = 1 + given["slower"] / 100
    found = [
        np.max(speed * chance.normal(1, given["jitter"] / 100, len(speed)))
        for _ in range(steps)
    ]
    return np.array(found)


@pytest.mark.parametrize(
    "text", ["ranks:8", "", "ranks:64,jitter:10", "ranks:256,slower:5"]
)
def test_the_slowest_of_many_ranks_takes_as_long_as_drawn(text: str) -> None:
    """Steps of many ranks are drawn by chance, and the job's is the longest.
    Over 4,000 of them the mean is the picture's within a twentieth of the
    jitter, and each bar of the picture is within 3 percentage points."""
    given = values(text)
    found = simulated(given)
    tolerance = 0.05 * given["jitter"] / 100
    assert stragglers.mean(given) == pytest.approx(found.mean(), abs=tolerance)
    scene = stragglers.draw(given)
    panel = scene.panels[1]
    low, high = stragglers.bounds(given)
    counts, _ = np.histogram(found, stragglers.BINS, (low, high))
    drawn = np.array(panel.layers[0][1])
    assert np.abs(drawn - 100 * counts / len(found)).max() < 3
    assert drawn.sum() == pytest.approx(100, abs=0.1)


def test_one_slow_rank_costs_what_it_is_slower() -> None:
    """One rank of 1,000 that is slower by 20 % makes the job slower by 20 %,
    within half a percent, where jitter alone costs 6 to 7 %."""
    assert stragglers.mean(values("slower:20")) == pytest.approx(1.2, abs=5e-3)
    assert 1.06 < stragglers.mean(values("")) < 1.07


def test_one_rank_waits_for_nobody() -> None:
    """The job of a single rank takes as long as the rank."""
    assert stragglers.mean(values("ranks:1")) == pytest.approx(1, abs=1e-4)
