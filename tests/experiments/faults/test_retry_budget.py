"""A run's retry budget lets progress continue and ends a crash loop."""

from __future__ import annotations

import pytest

from lockstep.experiments.faults.retry_budget import RETRIES, Budget


def test_a_run_that_makes_progress_restarts_without_limit() -> None:
    """A run with a newer checkpoint at each of 419 failures is never stopped,
    and each broken node is left out."""
    budget = Budget()
    for i in range(419):
        said = budget.decide("broken node", saved=100 * i, node=f"node-{i}")
        assert said == f"restart without node-{i}"


@pytest.mark.parametrize(
    "fault", [fault for fault in RETRIES if fault != "preempted"]
)
def test_failures_without_a_newer_checkpoint_use_up_their_budget(
    fault: str,
) -> None:
    """An exception that comes back at the same checkpoint pages a person the
    second time, a hang the third time, and bad settings at once."""
    budget = Budget()
    said = [budget.decide(fault, saved=500) for _ in range(10)]
    assert said.index("page a person") == RETRIES[fault]
    assert {*said[: said.index("page a person")]} <= {"restart"}


def test_a_newer_checkpoint_renews_the_budget() -> None:
    """Two exceptions with a newer checkpoint between them restart the run
    twice, and preemptions never page a person."""
    budget = Budget()
    assert budget.decide("exception", saved=500) == "restart"
    assert budget.decide("exception", saved=600) == "restart"
    assert budget.decide("exception", saved=600) == "page a person"
    assert {budget.decide("preempted", saved=600) for _ in range(50)} == {
        "restart"
    }


def test_a_node_that_was_blamed_three_times_leaves_the_job() -> None:
    """A node that three hangs point to is left out, although the run made
    progress between them."""
    budget = Budget()
    said = [
        budget.decide("hang", saved=step, node="node-7")
        for step in (100, 200, 300)
    ]
    assert said == ["restart", "restart", "restart without node-7"]
    assert budget.decide("hang", saved=400) == "restart"
