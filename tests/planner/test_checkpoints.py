"""The interval is the best there is, and its cost what a run would meet."""

import ast
import random
from pathlib import Path

import pytest
from scipy.optimize import minimize_scalar

from lockstep.planner import checkpoints
from lockstep.planner.checkpoints import daly, slowdown, young, young_daly

# Save, restart and mean time between failures: harmless, usual, and so bad
# that half of the time is lost. The second is Daly's own example, in minutes.
TIMES = [(1, 30, 1e6), (5, 10, 24 * 60), (60, 300, 1e4), (60, 60, 600)]


@pytest.mark.parametrize(("save", "restart", "mtbf"), TIMES)
def test_no_other_interval_is_much_better(
    save: float, restart: float, mtbf: float
) -> None:
    """The planned checkpoint interval is within 1 % of the one that a numerical
    search finds."""
    best = minimize_scalar(
        slowdown,
        bounds=(save / 10, 3 * mtbf),
        args=(save, restart, mtbf),
        method="bounded",
        options={"xatol": 1e-6 * mtbf},
    )
    interval, cost = young_daly(save, restart, mtbf)
    assert interval == pytest.approx(best.x, rel=0.01)
    assert cost == pytest.approx(best.fun, rel=1e-5)


def test_daly_is_nearer_than_young_where_failures_are_frequent() -> None:
    save, mtbf = 60, 600
    best = minimize_scalar(
        slowdown, bounds=(1, 1800), args=(save, 60, mtbf), method="bounded"
    ).x
    assert abs(daly(save, mtbf) - best) < abs(young(save, mtbf) - best) / 10


def test_dalys_own_examples() -> None:
    """Daly 2006, figures 3 to 5: 117, 57 and 9.1 minutes."""
    found = [daly(5, mtbf) for mtbf in (24 * 60, 6 * 60, 15)]
    assert found == pytest.approx([117, 57, 9.1], rel=0.01)


def test_where_saving_takes_longer_than_a_failure_needs() -> None:
    assert daly(20, 10) == daly(30, 10) == 10


def simulated(
    interval: float, save: float, restart: float, mtbf: float, segments: int
) -> float:
    """Slowdown of one run of so many intervals, with failures of chance."""
    chance = random.Random(1)
    clock = 0.0
    for _ in range(segments):
        needed = interval + save
        while (until := chance.expovariate(1 / mtbf)) < needed:
            clock += until
            needed = restart + interval + save
        clock += needed
    return clock / (segments * interval)


@pytest.mark.parametrize(("save", "restart", "mtbf"), TIMES[1:])
def test_a_simulated_run_takes_as_long(
    save: float, restart: float, mtbf: float
) -> None:
    """A simulation of 100,000 intervals with random failures loses as much time
    as the formula says, within 3 %."""
    interval, cost = young_daly(save, restart, mtbf)
    lost = simulated(interval, save, restart, mtbf, 100_000) - 1
    assert lost == pytest.approx(cost - 1, rel=0.03)


@pytest.mark.parametrize("times", [(0, 1, 1), (1, -1, 1), (1, 1, 0)])
def test_times_that_cannot_be_are_refused(times: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="above zero"):
        young_daly(*times)


def test_the_module_is_one_that_a_browser_runs() -> None:
    """MicroPython has `math`, and neither dataclasses nor typing."""
    tree = ast.parse(Path(checkpoints.__file__).read_text("utf-8"))
    imported = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    assert [n.module for n in imported] == ["math"]
    assert not any(isinstance(n, ast.Import) for n in ast.walk(tree))
