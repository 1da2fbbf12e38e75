"""What a run was trained on is put together rightly from its launches, and a
difference is named for what it is."""

from typing import Any

import pytest

from lockstep.exam.comparison import differences
from lockstep.exam.launching import Ended, Step
from lockstep.exam.lineage import (
    NO_STEP,
    Lineage,
    Start,
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
        "sizes": {"optimizer": {"m": [1.0]}, "buffers": {"all": [1.0]}},
    }
    fields: dict[str, Any] = {
        "skipped": False,
        "ids": (first, first + 2),
        "before": before | other.pop("before", {}),
        "after": f"w{k + 1}",
        "norms": (1.0, 2.0),
        "drew": (0,),
        "scale": None,
        "left": {
            "optimizer": f"o{k + 1}",
            "buffers": f"b{k + 1}",
            "filled": {"net.table": [3, "f"]},
        },
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


def test_launch_resumes_from_the_step_with_its_weights() -> None:
    """A launch that begins with the weights of step 4 of an earlier launch
    counts as resumed from step 4. Later steps of the earlier launch don't
    count."""
    now = lineage(launched(0, 5), launched(4, STEPS))
    assert now.starts == [Start(4)]
    assert now.steps == STEPS
    assert differences(WHOLE, now) == {}


def test_fresh_unknown_and_missing_starts_are_distinguished() -> None:
    """The exam distinguishes a launch that begins at the start, a launch that
    begins with unknown weights, and a launch that takes no step."""
    begun = launched(0, 3)
    nowhere = launched(3, STEPS)
    for steps in nowhere.ranks.values():
        steps[0] = steps[0]._replace(before={"weights": "of nobody"})
    assert lineage(begun, launched(0, STEPS)).starts == [Start(0)]
    assert lineage(begun, nowhere).starts == [Start(None)]
    assert lineage(begun, Ended([])).starts == [NO_STEP]
    assert lineage(begun, Ended([])).steps == 3


def test_rank_with_initial_weights_is_not_resumed() -> None:
    """Only rank 0 loads the checkpoint, and rank 1 keeps its initial weights.
    The launch counts as resumed from nowhere, whether the first launch was
    stopped at that step or killed later. If a rank was killed before it
    reported its weights, the exam trusts it."""
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


@pytest.mark.parametrize("last", [4, 6])
def test_samples_and_optimizer_tell_steps_with_equal_weights_apart(
    last: int,
) -> None:
    """The step before a checkpoint has a learning rate of 0, so two steps share
    their weights. Samples and optimizer show that the launch resumed from the
    checkpoint and not from the step before it, and expose a launch that repeats
    the step."""

    def idle(first: int, last: int) -> Ended:
        """Steps of which the one after step 3 leaves the weights as they are,
        so that all later steps have other ones."""
        ended = launched(first, last)
        for steps in ended.ranks.values():
            for k, one in enumerate(steps, first):
                before = one.before | {"weights": f"w{k - (k > 3)}"}
                after = f"w{k + (k < 3)}"
                steps[k - first] = one._replace(before=before, after=after)
        return ended

    was, second = lineage(idle(0, STEPS)), idle(4, STEPS)
    assert lineage(idle(0, last), second).starts == [Start(4)]
    assert differences(was, lineage(idle(0, last), second)) == {}
    again = idle(3, STEPS)
    assert lineage(idle(0, last), again).starts == [Start(3)]
    one = again.ranks[0][0]
    seeded = one.before | {"random": ["r"]}
    again.ranks[0][0] = one._replace(before=seeded)
    assert lineage(idle(0, last), again).starts == [Start(3)]
    stateless = {"optimizer": "none", "buffers": "none"}
    first, again = idle(0, last), idle(3, STEPS)
    for steps in (*first.ranks.values(), *again.ranks.values()):
        for k, one in enumerate(steps):
            before = one.before | stateless
            steps[k] = one._replace(before=before, left=stateless)
    assert lineage(first, again).starts == [Start(3)]
    for rank, steps in second.ranks.items():
        lost = {"optimizer": "none", "random": ["r"], "buffers": "none"}
        steps[0] = steps[0]._replace(before=steps[0].before | lost)
        assert steps[0].ids != was.ranks[rank][3].ids
    now = lineage(idle(0, last), second)
    assert now.starts == [Start(4)]
    assert {*differences(was, now)} == {"optimizer", "rng-state", "buffers"}


def test_repeated_step_with_unchanged_weights_is_found() -> None:
    """A launch that repeats a step resumes from before that step, even if a
    later step has the same weights. The same holds if the exam sees the last
    step's weights too early, before ZeRO has gathered them."""
    first = launched(0, 3)
    for steps in first.ranks.values():
        steps[2] = steps[2]._replace(after="w2")
    assert lineage(first, launched(2, STEPS)).starts == [Start(2)]
    for steps in first.ranks.values():
        steps[0] = steps[0]._replace(after="w0")
        steps[1] = step(1, 0, before={"weights": "w0"})
    assert lineage(first, launched(0, STEPS)).starts == [Start(0)]


def test_steps_that_the_scaler_skips_do_not_count() -> None:
    """A step that the gradient scaler skips doesn't count as a step."""
    run = launched(0, 3)
    for steps in run.ranks.values():
        steps.insert(1, steps[1]._replace(skipped=True, ids=(7, 7)))
    assert lineage(run).steps == 3


def test_ranks_that_come_later_begin_where_the_run_is() -> None:
    """On other world sizes the steps of all ranks stand side by side."""
    now = lineage(launched(0, 2), launched(2, STEPS, ranks=3))
    assert [len(steps) for steps in now.ranks.values()] == [STEPS] * 3
    assert now.batches()[1] == [(4, 6), (5, 7), ()]


def test_epochs_end_where_all_samples_have_come_equally_often() -> None:
    """They are found from the samples alone."""
    assert ends_of_epochs(WHOLE) == [3, 6]
