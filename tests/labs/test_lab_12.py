"""Lab 12: what its grader and its page take as given."""

from lockstep.labs.lab_12_design import solution
from lockstep.labs.lab_12_design.grader import (
    CRITERIA,
    FASTEST,
    TASK,
    USABLE,
    planned,
)
from lockstep.planner.questions import CLUSTER, MODEL, STATE, cluster_of
from lockstep.planner.search import search


def test_what_the_search_finds() -> None:
    """The planner's search finds the speed that the lab names as the best, and
    each layout that fits splits a sample by tensor or context parallelism."""
    inputs = dict([*MODEL, *CLUSTER, *STATE]) | TASK
    inputs |= {"memory": USABLE, "whiteboard": True}
    found, _ = search(cluster_of(inputs))
    best = found[0][1]["step_seconds"].value
    assert planned(FASTEST)["step_seconds"].value == best
    # However deep a pipeline is, a sample must be split.
    assert all(choice["tp"] * choice["cp"] > 1 for choice, _ in found)


def test_the_design_that_the_page_shows_holds() -> None:
    for criterion in CRITERIA:
        criterion.check(solution)
