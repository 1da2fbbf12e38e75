"""A difference from an undisturbed run is named for what it is, and only where
nothing that differed before explains it."""

from typing import Any

import pytest

from lockstep.exam.comparison import (
    Pair,
    compare_resized,
    differences,
    other_samples,
    rounded,
)
from lockstep.exam.launching import Ended
from lockstep.exam.lineage import Lineage, Start, lineage

from .test_lineage import STEPS, WHOLE, changed, launched

FILLED = {"net.table": [3, "f"]}
AFTER = {"optimizer": "o6", "buffers": "b6", "filled": FILLED}


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


def test_downstream_differences_are_not_reported() -> None:
    """After a restart that resumed differently, the exam doesn't compare the
    states of a second restart."""
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


def test_different_final_weights_alone_are_reported() -> None:
    """If everything else agrees, the exam compares the final weights: bit by
    bit, or by their norms if ranks may add in a different order."""
    now = changed(0, STEPS - 1, after="other bits")
    assert [*differences(WHOLE, now)] == ["final-weights"]
    assert differences(WHOLE, now, exact=False) == {}
    far = changed(0, STEPS - 1, norms=(1.0, 2.1))
    assert [*differences(WHOLE, far, exact=False)] == ["final-weights"]


def test_too_many_and_too_few_steps() -> None:
    """A run has to end after as many steps as it would have had."""
    short = lineage(launched(0, 2), launched(2, STEPS - 1))
    assert "total-steps" in differences(WHOLE, short)


@pytest.mark.parametrize(
    ("question", "other"),
    [
        ("optimizer", {"before": {"optimizer": "none"}}),
        ("buffers", {"before": {"buffers": "none"}}),
        ("ema", {"before": {"states": {"ema": "none"}}}),
    ],
)
@pytest.mark.parametrize("k", [3, 4, 5])
def test_a_state_that_differs_later_is_found(
    k: int, question: str, other: dict[str, Any]
) -> None:
    """A state that was restored, and that a lost counter then leads elsewhere,
    differs at a later step, though weights and samples still agree."""
    said = differences(WHOLE, changed(1, k, **other))
    assert [*said] == [question]
    assert f"before step {k + 1}, rank 1" in said[question]


@pytest.mark.parametrize(
    ("question", "left"),
    [
        ("buffers", {"buffers": "other"}),
        ("buffers", {"filled": {"net.table": [3, "other"]}}),
        ("optimizer", {"optimizer": "other"}),
    ],
)
def test_the_last_states_are_compared(
    question: str, left: dict[str, str]
) -> None:
    """No step follows that would begin with them."""
    now = changed(0, STEPS - 1, left=AFTER | left)
    assert [*differences(WHOLE, now)] == [question]


@pytest.mark.parametrize(
    ("filled", "said"),
    [
        (
            {"net.table": [3, "other"]},
            "after step 3, rank 0: other values in net.table, a buffer that no"
            " checkpoint holds",
        ),
        ({"net.table": [2, "other"]}, ""),  # it grows with what it is asked for
        ({}, ""),
    ],
)
def test_unsaved_buffer_is_compared_after_the_forward_pass(
    filled: dict[str, Any], said: str
) -> None:
    """A buffer that isn't saved may be filled by the forward pass. After the
    first forward pass it must equal the uninterrupted run's buffer, if both
    have the same size."""
    left = {"optimizer": "o3", "buffers": "b3", "filled": filled}
    found = differences(WHOLE, changed(0, 2, left=left))
    assert found == ({"buffers": said} if said else {})


def from_step(k: int, other: dict[str, Any]) -> Lineage:
    """Stopped after two steps and resumed; from the k-th step on, from 0, both
    ranks have other weights, and other states from the step after it on."""
    second = launched(2, STEPS)
    for steps in second.ranks.values():
        for at, one in enumerate(steps, 2):
            before = dict(one.before)
            if at > k:
                before |= {"weights": f"x{at}"}
                before |= {"buffers": "x", "optimizer": "x", "states": {}}
            elif at == k:
                before |= other
            if at >= k:
                one = one._replace(
                    after=f"x{at + 1}", left={"filled": {"net.table": [3, "x"]}}
                )
            steps[at - 2] = one._replace(before=before)
    return lineage(launched(0, 2), second)


@pytest.mark.parametrize(
    ("question", "other"),
    [
        ("final-weights", {}),
        ("rng-state", {"random": ["r"]}),
        ("learning-rate", {"rates": [7.0]}),
        ("optimizer", {"optimizer": "none"}),
    ],
)
@pytest.mark.parametrize("k", [2, 4])
def test_later_states_follow_from_other_weights(
    k: int, question: str, other: dict[str, Any]
) -> None:
    """Once weights differ, buffers, averages and moments differ too. What made
    the weights differ is named alone; if that isn't seen, the weights are."""
    said = differences(WHOLE, from_step(k, other))
    assert [*said] == [question]
    assert f"step {k}, " in said[question] or f"step {k + 1}," in said[question]


def test_what_other_samples_did_to_a_state_is_not_named() -> None:
    """With a learning rate of 0, other random numbers leave the weights as they
    are, and change the buffers all the same."""
    second = launched(2, STEPS)
    for k, name in (0, "random"), (1, "buffers"):
        one = second.ranks[0][k]
        second.ranks[0][k] = one._replace(before=one.before | {name: ["r"]})
    now = lineage(launched(0, 2), second)
    assert [*differences(WHOLE, now)] == ["rng-state"]


def test_the_whole_state_of_the_scaler_is_compared() -> None:
    """A scale that is restored without its growth tracker grows too late."""

    def scaled(first: int, last: int, tracker: int) -> Ended:
        ended = launched(first, last)
        for steps in ended.ranks.values():
            for k, one in enumerate(steps, first):
                state = {"scale": 8.0, "_growth_tracker": k - tracker}
                steps[k - first] = one._replace(scale=8.0, scaler=state)
        return ended

    was, begun = lineage(scaled(0, STEPS, 0)), scaled(0, 2, 0)
    assert differences(was, lineage(begun, scaled(2, STEPS, 0))) == {}
    assert differences(was, lineage(begun, scaled(2, STEPS, 2))) == {
        "scaler": "resumed from step 2, rank 0: growth tracker 0, not 2"
    }


def with_sizes(ended: Ended, k: int, **sizes: Any) -> Ended:
    """The launch, whose k-th step begins with states of these norms."""
    for rank, steps in ended.ranks.items():
        own = {
            n: s[rank] if isinstance(s, list) else s for n, s in sizes.items()
        }
        before = steps[k].before | {"sizes": own}
        steps[k] = steps[k]._replace(before=before)
    return ended


def test_norms_are_compared_where_bits_may_differ() -> None:
    """On more ranks than two the additions may have another order after a
    restart. But an average that is 5 % off has another cause."""
    was = lineage(with_sizes(launched(0, STEPS), -1, states={"ema": [100.0]}))
    for norm, found in (100.5, []), (105.0, ["ema"]):
        second = launched(2, STEPS)
        for steps in second.ranks.values():
            for k in range(1, len(steps)):
                before = steps[k].before | {"weights": "rounded otherwise"}
                steps[k] = steps[k]._replace(before=before)
        with_sizes(second, -1, states={"ema": [norm]})
        now = lineage(launched(0, 2), second)
        assert [*differences(was, now, exact=False)] == found


@pytest.mark.parametrize(
    ("two", "four", "same"),
    [
        ({"m": [3.0, 4.0]}, {"m": [3.0, 4.0]}, True),
        ({"m": [3.0, 4.0]}, {"m": [3.0, 0.0]}, False),
        ({"m": [3.0, 4.0]}, {}, False),
        # Of a sharded state each rank has a part, and its own count of steps.
        (
            [{"m": [3.0], "step": [2.0]}, {"m": [4.0], "step": [2.0]}],
            [{"m": [x], "step": [2.0]} for x in (0.0, 3.0, 0.0, 4.0)],
            True,
        ),
        ([{"m": [3.0]}, {"m": [4.0]}], [{"m": [0.0]}, *3 * [{}]], False),
    ],
)
def test_optimizer_state_is_compared_across_world_sizes(
    two: Any, four: Any, same: bool
) -> None:
    """Across world sizes the exam compares optimizer states by their norms: for
    each parameter if all ranks hold the same state, and otherwise over all
    ranks."""
    was = with_sizes(launched(0, STEPS), 2, optimizer=two)
    second = with_sizes(launched(2, STEPS, ranks=4), 0, optimizer=four)
    ranks = [*was.ranks.items(), *second.ranks.items()]
    for at, (rank, steps) in enumerate(ranks):
        k = 2 if at < 2 else 0
        name = f"of rank {rank}" if isinstance(two, list) else f"of run {k}"
        before = steps[k].before | {"optimizer": name}
        steps[k] = steps[k]._replace(before=before)
    now = lineage(launched(0, 2), second)
    assert now.starts == [Start(2)]
    unlike, compared = compare_resized(lineage(was), now)
    assert [*unlike] == [] if same else ["optimizer"]
    assert compared == ["optimizer state"]


def test_buffers_that_differ_by_rank_are_not_compared_on_other_ranks() -> None:
    """No rank of four has to have those of a certain rank of two."""
    for per_rank, compared in (True, []), (False, ["buffers"]):
        was = with_sizes(launched(0, STEPS), 2, buffers={"all": [1.0]})
        second = launched(2, STEPS, ranks=4)
        with_sizes(second, 0, buffers={"all": [2.0]})
        for rank, steps in was.ranks.items():
            if per_rank:
                before = steps[2].before | {"buffers": f"b{rank}"}
                steps[2] = steps[2]._replace(before=before)
        for steps in second.ranks.values():
            before = steps[0].before | {"buffers": "others"}
            steps[0] = steps[0]._replace(before=before)
        now = lineage(launched(0, 2), second)
        unlike, names = compare_resized(lineage(was), now)
        assert (names, [*unlike]) == (compared, compared)


@pytest.mark.parametrize("base", [0, 10**12])
@pytest.mark.parametrize(
    ("ids", "words", "named"),
    [
        ((10, 0), "the samples of rank 1", "10, 0, not 9, 11"),
        ((2, 4), "the samples of step 6 again", "2, 4, not 9, 11"),
        ((4, 6), "the order of epoch 1 again, from step 2", "4, 6, not 9, 11"),
        ((11, 9), "its samples in another order", "11, 9, not 9, 11"),
        ((9, 5), "1 of its 2 samples", "9, 5, not 9, 11"),
    ],
)
def test_other_samples_are_said_in_words(
    ids: tuple[int, ...], words: str, named: str, base: int
) -> None:
    """Whose samples a step has, if they are those of another step or rank.
    Samples that are numbered by hashes aren't listed."""
    run = launched(0, STEPS)
    for steps in run.ranks.values():
        for k, one in enumerate(steps):  # the second epoch has another order
            epoch = k // 3
            own = tuple(base + (i + 5 * epoch) % 12 for i in one.ids)
            steps[k] = one._replace(ids=own)
    due = run.ranks[0][4]
    other = due._replace(ids=tuple(base + i for i in ids))
    said = other_samples(lineage(run), Pair(5, 0, due, other))
    assert said == (words if base else f"{words}: {named}")


def test_samples_of_another_rank_are_said_to_be_that() -> None:
    """Also where each epoch has one order, so that an earlier step had them."""
    due, other = (WHOLE.ranks[rank][4] for rank in (0, 1))
    said = other_samples(WHOLE, Pair(5, 0, due, other))
    assert said.startswith("the samples of rank 1")


def test_numbers_are_rounded_to_what_tells_them_apart() -> None:
    """A learning rate isn't said with 17 digits."""
    assert rounded([1 / 3], [2 / 3]) == "0.333, not 0.667"
    assert rounded([0.1 + 0.2], [0.3]).startswith("0.30000000000000004, not")
    assert rounded([0.12345, 0.12345], [0.12346]) == "0.12345, not 0.12346"
    assert rounded([8.0], [65536.0]) == "8, not 65536"
    assert rounded([], [1e-3]) == "none, not 0.001"
    assert rounded([None], [2]) == "None, not 2"
