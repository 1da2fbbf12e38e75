"""The picture of a checkpoint's price beside the planner and a simulation."""

import random
from typing import Any

import pytest

from lockstep.explore import checkpoint
from lockstep.explore.settings import read
from lockstep.planner.questions import ask

CASES = {
    "as it opens": "",
    "often": "interval:60",
    "large": "nodes:2048,mtbf:50",
    "background": "blocks:10,save:600",
}


def values(text: str) -> dict[str, Any]:
    """All settings, some of them changed."""
    return read(checkpoint.SETTINGS, text)


@pytest.mark.parametrize("case", CASES)
def test_goodput_is_the_planners(case: str) -> None:
    """The picture's parts leave the goodput that `lockstep plan goodput` gives
    for the same job, save, restart and interval."""
    given = values(CASES[case])
    plan = ask(
        "goodput",
        {
            "gpus": given["nodes"],  # each failure stops the job
            "gpu_mtbf_hours": 24 * given["mtbf"],
            "save_seconds": checkpoint.blocked(given),
            "restart_seconds": given["restart"] + checkpoint.unsafe(given),
            "save_every_seconds": given["interval"],
        },
    )
    left = 1 - sum(checkpoint.costs(given, given["interval"]).values())
    assert left == pytest.approx(float(plan["goodput"]))


def simulated(given: dict[str, Any], interval: float) -> float:
    """The share of time spent on training that counts, of a long run with
    failures drawn at random."""
    chance = random.Random(3)
    save, between = checkpoint.blocked(given), checkpoint.failures(given)
    clock = done = written = 0.0
    fails = chance.expovariate(1 / between)
    for _ in range(20_000):
        while fails < clock + interval + save:
            if fails < written:  # the last save wasn't complete
                done -= interval
                written = 0.0
            clock = fails + given["restart"]
            fails = clock + chance.expovariate(1 / between)
        clock += interval + save
        done += interval
        written = clock + checkpoint.unsafe(given)
    return done / clock


@pytest.mark.parametrize("write", ["", ",save:600,blocks:10"])
@pytest.mark.parametrize("interval", [600, 2400, 14400])
def test_a_simulated_run_is_left_with_as_much(
    interval: int, write: str
) -> None:
    """A run of 20,000 intervals with random failures spends the share of its
    time on training that the picture says, within one percent, also if saves
    are written in the background."""
    given = values(f"nodes:2048{write}")
    left = 1 - sum(checkpoint.costs(given, interval).values())
    assert simulated(given, interval) == pytest.approx(left, abs=0.01)


def test_saving_falls_and_lost_work_grows_with_the_interval() -> None:
    """With more work between checkpoints a smaller share of the time goes into
    saving and a larger one into work that failures take."""
    given = values("")
    found = [checkpoint.costs(given, 10**x) for x in (2, 3, 4)]
    saving = [one["saving"] for one in found]
    lost = [one["lost"] for one in found]
    assert saving == sorted(saving, reverse=True)
    assert lost == sorted(lost)


@pytest.mark.parametrize("case", CASES)
def test_no_interval_is_better_than_the_marked_one(case: str) -> None:
    """None of a hundred other intervals leaves more than a thousandth more of
    the time than the one that is marked as Daly's."""
    given = values(CASES[case])

    def left(interval: float) -> float:
        return 1 - sum(checkpoint.costs(given, interval).values())

    best = checkpoint.best(given)
    others = [10 ** (1 + i / 25) for i in range(101)]
    allowed = [one for one in others if one >= given["save"]]
    assert max(map(left, allowed)) <= left(best) + 1e-3


def test_a_background_save_may_come_more_often_and_costs_less() -> None:
    """Where only a tenth of a save blocks, the best interval is shorter. Less
    time goes into saving and lost work, and as much into restarts. The interval
    is never shorter than the write."""
    waits, goes_on = values("nodes:2048"), values("nodes:2048,blocks:10")
    assert checkpoint.best(goes_on) < checkpoint.best(waits)
    before, now = (
        checkpoint.costs(one, checkpoint.best(one)) for one in (waits, goes_on)
    )
    assert now["saving"] < before["saving"]
    assert now["lost"] < before["lost"]
    assert now["restarting"] == pytest.approx(before["restarting"])
    slow = values("nodes:2048,mtbf:50,blocks:10,save:600")
    assert checkpoint.best(slow) == 600
