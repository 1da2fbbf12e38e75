"""What a run was trained on is put together rightly from its launches, and a
difference is named for what it is."""

from typing import Any

import pytest

from lockstep.exam.launching import Ended, Step
from lockstep.exam.lineage import (
    NO_STEP,
    Lineage,
    Start,
    differences,
    ends_of_epochs,
    lineage,
)

STEPS = 6  # two epochs of 12 samples, on two ranks of two samples each


def step(k: int, rank: int, **other: Any) -> Step:
    """The k-th, from 0, as an undisturbed run takes it."""
    first = k % 3 * 4 + rank
    before = {
        "weights": f"w{k}",
        "buffers": f"b{k}",
        "optimizer": f"o{k}",
        "random": [f"r{k}-{rank}"],
        "rates": [0.1 * k],
        "states": {"ema": f"e{k}"},
    }
    fields: dict[str, Any] = {
        "skipped": False,
        "ids": (first, first + 2),
        "before": before | other.pop("before", {}),
        "after": f"w{k + 1}",
        "norms": (1.0, 2.0),
        "drew": (0,),
        "scale": None,
    }
    return Step(**fields | other)


def launched(first: int, last: int, ranks: int = 2) -> Ended:
    """A launch that took these steps, from 0, and was then ended."""
    told = {r: [step(k, r) for k in range(first, last)] for r in range(ranks)}
    return Ended([], ranks=told, world=ranks)


WHOLE = lineage(launched(0, STEPS))


def changed(rank: int, k: int, **other: Any) -> Lineage:
    """Stopped after two steps and gone on, with one step of one rank other."""
    second = launched(2, STEPS)
    second.ranks[rank][k - 2] = step(k, rank, **other)
    return lineage(launched(0, 2), second)


def test_a_launch_goes_on_from_the_step_that_had_its_weights() -> None:
    """A launch that begins with the weights that an earlier one had after step
    4 goes on from step 4, and what that one did later is not counted."""
    now = lineage(launched(0, 5), launched(4, STEPS))
    assert now.starts == [Start(4)]
    assert now.steps == STEPS
    assert differences(WHOLE, now) == {}


def test_from_the_start_from_nowhere_and_not_at_all() -> None:
    """The three other ways to begin are told apart."""
    begun = launched(0, 3)
    nowhere = launched(3, STEPS)
    for steps in nowhere.ranks.values():
        steps[0] = steps[0]._replace(before={"weights": "of nobody"})
    assert lineage(begun, launched(0, STEPS)).starts == [Start(0)]
    assert lineage(begun, nowhere).starts == [Start(None)]
    assert lineage(begun, Ended([])).starts == [NO_STEP]
    assert lineage(begun, Ended([])).steps == 3


def test_each_rank_has_to_go_on_with_its_own_weights() -> None:
    """A launch whose rank 1 kept its initial weights, since only rank 0 loaded
    the checkpoint, goes on from nowhere; whether the first launch was stopped
    at that step or killed later. A rank that was killed before it told of them
    is believed."""
    for last in 2, 4:
        second = launched(2, STEPS)
        first = second.ranks[1][0]
        other = first.before | {"weights": "w0"}
        assert lineage(launched(0, last), second).starts == [Start(2)]
        second.ranks[1][0] = first._replace(before=other)
        assert lineage(launched(0, last), second).starts == [Start(None)]
    killed = launched(0, 4)
    del killed.ranks[1][2:]
    assert lineage(killed, second).starts == [Start(2)]


def test_steps_that_the_scaler_skips_are_the_scalers() -> None:
    """A launch whose scale starts over skips steps until it has the one that
    it should have had; a step that was skipped in both is none of its own."""
    skipped = step(3, 0)._replace(skipped=True)

    def skipping(first: int, at: int) -> Ended:
        """A launch that skips before its step `at`."""
        ended = launched(first, STEPS)
        for steps in ended.ranks.values():
            steps.insert(at - first, skipped)
        return ended

    again = lineage(launched(0, 2), skipping(2, 3))
    said = differences(WHOLE, again)
    assert [*said] == ["scaler"]
    assert "before step 4, rank 0: the scaler skipped 1" in said["scaler"]
    assert differences(lineage(skipping(0, 3)), again) == {}


@pytest.mark.parametrize("last", [3, 5])
@pytest.mark.parametrize("again", [0, 1, 2])
def test_what_was_skipped_just_before_a_checkpoint_is_not_skipped_again(
    last: int, again: int
) -> None:
    """Weights do not tell whether a checkpoint was saved before a step that the
    scaler skipped, after it, or between two. The scale does. The first launch
    ends there, or goes on and is killed."""
    skipped = step(3, 0)._replace(skipped=True)

    def skipping(first: int, last: int, skips: int) -> Ended:
        ended = launched(first, last)
        for steps in ended.ranks.values():
            steps[3 - first : 3 - first] = [skipped] * skips
        return ended

    was = lineage(skipping(0, STEPS, 2))
    now = lineage(skipping(0, last, 2), skipping(3, STEPS, again))
    assert differences(was, now) == {}
    worse = lineage(skipping(0, last, 2), skipping(3, STEPS, 3))
    assert [*differences(was, worse)] == ["scaler"]


def test_weights_that_stay_are_those_of_the_first_step_with_them() -> None:
    """Where a step changes nothing, as with a learning rate of 0, a launch goes
    on from the earliest step with its weights. So it does where the exam sees
    the last step's weights too early, before ZeRO has gathered them."""
    first = launched(0, 3)
    for steps in first.ranks.values():
        steps[2] = steps[2]._replace(after="w2")
    assert lineage(first, launched(2, STEPS)).starts == [Start(2)]
    for steps in first.ranks.values():
        steps[0] = steps[0]._replace(after="w0")
        steps[1] = step(1, 0, before={"weights": "w0"})
    assert lineage(first, launched(0, STEPS)).starts == [Start(0)]


def test_skipped_steps_do_not_count() -> None:
    """A step that the gradient scaler skipped is none."""
    run = launched(0, 3)
    for steps in run.ranks.values():
        steps.insert(1, steps[1]._replace(skipped=True, ids=(7, 7)))
    assert lineage(run).steps == 3


@pytest.mark.parametrize(
    ("question", "other"),
    [
        ("order", {"ids": (1, 0)}),
        ("learning-rate", {"before": {"rates": [7.0]}}),
        ("rng-state", {"before": {"random": ["r"]}}),
        ("scaler", {"scale": 2.0}),
        ("optimizer", {"before": {"optimizer": "none"}}),
        ("buffers", {"before": {"buffers": "none"}}),
        ("ema", {"before": {"states": {"ema": "none"}}}),
    ],
)
def test_a_difference_is_named_for_what_it_is(
    question: str, other: dict[str, Any]
) -> None:
    """One thing that goes on otherwise after a restart is found under the
    question that asks for it, and under no other."""
    now = changed(0, 2, **other)
    if question == "order":  # as many of each, in another order
        now.ranks[0][0] = now.ranks[0][0]._replace(ids=(0, 2))
        now.ranks[0][2] = now.ranks[0][2]._replace(ids=(10, 8))
    assert [*differences(WHOLE, now)] == [question]


def test_what_follows_from_a_difference_is_none_of_its_own() -> None:
    """After a restart that went on otherwise, the states of a second restart
    are not compared."""
    second, third = launched(2, 5), launched(4, STEPS)
    for rank in range(2):
        told = second.ranks[rank]
        other = {"random": ["r"], "weights": "w2"}
        told[0] = told[0]._replace(before=told[0].before | other, after="x3")
        for k in 1, 2:
            before = told[k].before | {"weights": f"x{k + 2}"}
            told[k] = told[k]._replace(before=before, after=f"x{k + 3}")
        first = third.ranks[rank][0]
        state = {"weights": "x4", "optimizer": "of x4"}
        third.ranks[rank][0] = first._replace(before=first.before | state)
    now = lineage(launched(0, 2), second, third)
    assert now.starts == [Start(2), Start(4)]
    assert [*differences(WHOLE, now)] == ["rng-state"]


def test_samples_left_out_and_repeated_are_counted() -> None:
    """At the end of each epoch every sample must have come as often as in the
    undisturbed run; the order of other samples is not asked for."""
    said = differences(WHOLE, changed(1, 2, ids=(1, 3)))
    assert [*said] == ["exactly-once"]
    assert (
        "2 of 12 samples had been left out and 2 trained on once more"
        in (said["exactly-once"])
    )


def test_other_weights_alone_are_a_difference_in_the_end() -> None:
    """Where all else is alike, the last weights are compared: bit by bit, or
    by their norms where ranks may add in another order."""
    now = changed(0, STEPS - 1, after="other bits")
    assert [*differences(WHOLE, now)] == ["final-weights"]
    assert differences(WHOLE, now, exact=False) == {}
    far = changed(0, STEPS - 1, norms=(1.0, 2.1))
    assert [*differences(WHOLE, far, exact=False)] == ["final-weights"]


def test_too_many_and_too_few_steps() -> None:
    """A run has to end after as many steps as it would have had."""
    short = lineage(launched(0, 2), launched(2, STEPS - 1))
    assert "total-steps" in differences(WHOLE, short)


def test_ranks_that_come_later_begin_where_the_run_is() -> None:
    """On other world sizes the steps of all ranks stand side by side."""
    now = lineage(launched(0, 2), launched(2, STEPS, ranks=3))
    assert [len(steps) for steps in now.ranks.values()] == [STEPS] * 3
    assert now.batches()[1] == [(4, 6), (5, 7), ()]


def test_epochs_end_where_all_samples_have_come_equally_often() -> None:
    """They are found from the samples alone."""
    assert ends_of_epochs(WHOLE) == [3, 6]
