"""What the chapter on composing parallelism says of groups and orders."""

from typing import Any

import pytest

from lockstep.experiments.demos import mesh_axis_order, nd_parallel_grad_sync
from lockstep.parallel.topology import mesh_order
from lockstep.planner.questions import ask
from lockstep.trainer.process import joined
from tests import ranks


def grouped(work: Any, *args: Any) -> Any:
    """`work(*args)` in a group of all ranks."""
    with joined(60, ranks.store()):
        return work(*args)


@pytest.fixture(scope="module")
def found() -> list[dict[str, nd_parallel_grad_sync.Seen]]:
    """Every case, on all eight ranks."""
    return ranks.run_ranks(8, grouped, nd_parallel_grad_sync.seen)


def test_ranks_of_each_axis_are_at_the_distance_of_the_axes_behind_it() -> None:
    """In a mesh dp × cp × tp of two each, rank 5 shares its tp group with the
    neighbor 4, its cp group with 7 and its dp group with 1."""
    groups = ranks.run_ranks(8, grouped, nd_parallel_grad_sync.groups)[5]
    assert groups == {"dp": [1, 5], "cp": [5, 7], "tp": [4, 5]}


def test_gradients_summed_over_their_own_axes_are_those_of_one_process(
    found: list[dict[str, nd_parallel_grad_sync.Seen]],
) -> None:
    """With a norm's gradient summed over dp, cp and tp, and the gradients of
    the divided matrices over dp and cp, every rank has the gradient of one
    process with the whole batch, and all copies stay the same in training."""
    for rank in found:
        right = rank["right"]
        # Sums in another order, in 32 bits.
        assert max(right.up, right.norm) < 1e-5
        assert right.spread < 1e-6


def test_a_gradient_summed_over_too_few_axes_lets_copies_drift(
    found: list[dict[str, nd_parallel_grad_sync.Seen]],
) -> None:
    """Without cp, all gradients are wrong, and without tp the norm's is.
    Nothing raises, and copies of one parameter drift apart in training."""
    for rank in found:
        for name in "dp alone", "norm not over tp":
            assert rank[name].norm > 0.3
            assert rank[name].spread > 1e-3
        assert rank["dp alone"].up > 0.3
        assert rank["norm not over tp"].up < 1e-5


def test_a_sum_over_too_many_axes_mixes_parts_and_keeps_copies_alike(
    found: list[dict[str, nd_parallel_grad_sync.Seen]],
) -> None:
    """Summed over tp as well, the gradient of one half of a matrix has the
    other half's added to it. Copies stay the same, so no checksum shows it."""
    for rank in found:
        assert rank["all over all"].up > 0.5
        assert rank["all over all"].norm < 1e-5
        assert rank["all over all"].spread < 1e-6


def test_a_wrong_group_trains_all_the_same(
    found: list[dict[str, nd_parallel_grad_sync.Seen]],
) -> None:
    """In every case the loss falls to less than half of what it was at the
    start; a norm that is not summed over tp ends within a tenth of the right
    loss."""
    rank = found[0]
    assert all(one.loss < rank["right"].began / 2 for one in rank.values())
    right = rank["right"].loss
    assert abs(rank["norm not over tp"].loss - right) < 0.1 * right


def test_the_norm_sums_divided_parameters_and_counts_shared_ones_once(
    found: list[dict[str, nd_parallel_grad_sync.Seen]],
) -> None:
    """The norm by axes is that of one process. A rank's own is smaller, and
    differs between the two ranks of a tp group."""
    for rank in found:
        by_axes, alone, truth = rank["right"].clip
        assert by_axes == pytest.approx(truth, rel=1e-5)
        assert alone < 0.95 * truth
    assert found[0]["right"].clip[1] != found[1]["right"].clip[1]


def test_tensor_parallelism_belongs_innermost() -> None:
    """Among all orders of dp, pp and tp, the two with tp last let the fewest
    bytes leave their node, and every other order lets at least three times as
    many."""
    by_order = mesh_axis_order.by_order()
    first, second, *others = by_order
    assert first[-1] == second[-1] == "tp"
    assert by_order[others[0]] > 3 * by_order[second]
    assert mesh_order(mesh_axis_order.axes(), mesh_axis_order.NODE) == first


def test_a_stage_three_under_a_pipeline_gathers_for_each_micro_batch() -> None:
    """In the planner, data-parallel bytes of stage 3 under a pipeline are
    (2 m + m) / 2 of stage 1's for m micro-batches, if each of them reduces its
    gradients, and (2 m + 1) / 2 if only the last one does."""
    run = dict(mesh_axis_order.RUN, sequence_parallel=1)
    one = ask("run", run)
    count = one["microbatches"]
    for each, expected in ((True, 3 * count / 2), (False, (2 * count + 1) / 2)):
        three = ask("run", run | {"zero_stage": 3, "reduce_each": each})
        ratio = float(three["data_bytes"]) / float(one["data_bytes"])
        assert ratio == pytest.approx(expected)
