"""The picture of a second launch beside the exam's own judgment of one."""

from typing import Any

import pytest

from lockstep.exam.comparison import differences
from lockstep.exam.lineage import NO_STEP, Start, lineage
from lockstep.explore import second_launch
from lockstep.explore.settings import read
from tests.exam.test_lineage import launched

KILLS = range(3, second_launch.STEPS)


@pytest.mark.parametrize("counts", ["run", "launch"])
@pytest.mark.parametrize("loads", ["newest", "older", "nothing", "done"])
def test_a_second_launch_is_judged_as_in_the_exam(
    loads: str, counts: str
) -> None:
    """For each interval between saves and each kill, the exam's own lineage of
    two such launches goes on from the step in the picture, counts as many
    steps, and finds the run too long or too short where the picture does."""
    was = lineage(launched(0, second_launch.STEPS))
    for every in (2, 3, 4, 6):
        for kill in KILLS:
            values: dict[str, Any] = {"loads": loads, "counts": counts}
            values |= {"every": every, "kill": kill}
            at = second_launch.goes_on(values)
            more = second_launch.taken(values)
            now = lineage(launched(0, kill), launched(at, at + more))
            assert now.starts == [Start(at) if more else NO_STEP]
            assert now.steps == second_launch.counted(values)
            failed = second_launch.verdicts(values)
            assert ("resumes-latest" in failed) == (
                not more or at < second_launch.saved(values)
            )
            if more:
                longer = "total-steps" in differences(was, now)
                assert longer == ("total-steps" in failed)


def test_paid_steps_show_where_a_launch_resumed() -> None:
    """A run of 18 steps saves after every fourth step and is killed after step
    14. It costs 20, 24 or 32 steps, depending on what the second launch loads,
    and 32 also if that launch loads the newest checkpoint but restarts its step
    counter."""
    paid = {
        how: dict(
            second_launch.draw(
                read(second_launch.SETTINGS, f"{how},kill:14")
            ).numbers
        )["steps taken"]
        for how in ("loads:newest", "loads:older", "loads:nothing",
                    "counts:launch")
    }  # fmt: skip
    assert [*paid.values()] == ["20", "24", "32", "32"]
