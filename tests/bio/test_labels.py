"""Few labels on many ranks: what is averaged, and what a head hears."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

from lockstep.bio.labels import AssayHeads, in_use, masked_loss, task_weights
from lockstep.experiments.studies import chemprop_step, sparse_labels
from lockstep.trainer.process import joined
from tests import ranks

NAN = math.nan
LABELS = torch.tensor(
    [[1, NAN, NAN], [2, NAN, NAN], [3, 5, NAN], [NAN, NAN, NAN]]
)


def test_every_label_weighs_alike() -> None:
    predicted = torch.zeros(4, 3, requires_grad=True)
    loss = masked_loss(predicted, LABELS)
    assert loss.item() == pytest.approx((1 + 4 + 9 + 25) / 4)
    loss.backward()
    assert predicted.grad is not None
    assert predicted.grad.isfinite().all()
    assert (predicted.grad[LABELS.isnan()] == 0).all()


def test_or_every_task_does() -> None:
    weights = task_weights(LABELS[:, :2])
    loss = masked_loss(torch.zeros(4, 2), LABELS[:, :2], weights)
    assert loss == pytest.approx(((1 + 4 + 9) / 3 + 25) / 2)
    with pytest.raises(ValueError, match=r"no label in column \[2\]"):
        task_weights(LABELS)


def test_no_label_is_no_loss() -> None:
    for rows in (0, 3):
        predicted = torch.ones(rows, 2, requires_grad=True)
        loss = masked_loss(predicted, torch.full((rows, 2), NAN))
        loss.backward()
        assert loss == 0
        assert predicted.grad is not None
        assert not predicted.grad.any()


# Under DDP, against one process


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(8, 3)


def molecules() -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    values = np.where(rng.random((12, 3)) < 0.4, rng.normal(size=(12, 3)), NAN)
    values[:4] = NAN  # all of rank 0's, when dealt in thirds
    x = rng.normal(size=(12, 8))
    return torch.tensor(x).float(), torch.tensor(values).float()


def gradients(by_task: bool, parts: list[slice]) -> list[float]:
    x, values = molecules()
    weights = task_weights(values) if by_task else None
    with joined(30, ranks.store()) as me:
        model = network()
        ddp, own = DistributedDataParallel(model), parts[me.rank]
        masked_loss(ddp(x[own]), values[own], weights).backward()
        assert isinstance(model.weight, torch.Tensor)
        assert model.weight.grad is not None
        return model.weight.grad.flatten().tolist()


@pytest.mark.parametrize("by_task", [False, True])
@pytest.mark.parametrize(
    "parts",
    [
        [slice(0, 4), slice(4, 12)],  # rank 0 has no label
        [slice(0, 7), slice(7, 12)],
        [slice(0, 0), slice(0, 5), slice(5, 12)],  # rank 0 has no molecule
    ],
)
def test_ranks_find_the_gradient_of_one_process(
    parts: list[slice], by_task: bool
) -> None:
    """Two and three ranks, one of them without labels or molecules, find one
    process's gradient of the masked loss within 10⁻⁶."""
    x, values = molecules()
    weights = task_weights(values) if by_task else None
    model = network()
    masked_loss(model(x), values, weights).backward()
    assert isinstance(model.weight, torch.Tensor)
    assert model.weight.grad is not None
    right = model.weight.grad.flatten()
    for found in ranks.run_ranks(len(parts), gradients, by_task, parts):
        error = (torch.tensor(found) - right).norm() / right.norm()
        assert error < 1e-6


# The study


def test_the_mean_of_own_means_is_off_and_worse_the_thinner() -> None:
    dense = sparse_labels.compare(sparse_labels.at_random, 2, 1.0, steps=12)
    thin = sparse_labels.compare(sparse_labels.at_random, 2, 0.1, steps=12)
    apart = sparse_labels.compare(sparse_labels.by_assay, 2, 1.0, steps=12)
    assert 0.02 < dense.error < 0.15
    assert apart.error > 1.5 * dense.error
    assert thin.error > 2 * dense.error
    assert (dense.nans, apart.nans) == (0, 0)
    assert thin.nans > 0


def test_which_labels_are_left_is_a_function_of_the_cell() -> None:
    full, thin = sparse_labels.values(), sparse_labels.values(0.1)
    left = ~thin.isnan()
    assert torch.equal(full[left], thin[left])
    share = left.sum() / (~full.isnan()).sum()
    assert share == pytest.approx(0.1, rel=0.05)
    one = sparse_labels.by_assay(0, 2)
    tasks = [set(in_use(full[rows][:, :13])) for rows in one]
    assert tasks[0]
    assert not tasks[1]  # rank 1 reads the other files


def test_a_batchs_own_counts_optimize_another_mean() -> None:
    """Weighting tasks by the counts of each batch leads more than three times
    further from the intended optimum than weighting them once for the data
    set."""
    found = sparse_labels.objectives(molecules=600)
    assert found["all labels alike"] > 0.3
    assert found["task_weights"] < 0.1
    assert found["batch_means"] > 3 * found["task_weights"]


def test_an_empty_mask_is_nan_in_loss_and_gradient() -> None:
    """A masked mean over no labels has NaN as loss and as gradient. Picked by
    an index instead, the loss is NaN and the gradient is zero."""
    predicted = torch.ones(2, 1, requires_grad=True)
    loss = sparse_labels.own_mean(predicted, torch.full((2, 1), NAN))
    loss.backward()
    assert loss.isnan()
    assert predicted.grad is not None
    assert predicted.grad.isnan().all()
    # Picked by index, the loss is NaN and the gradient a silent zero.
    predicted.grad = None
    predicted[torch.zeros(2, 1, dtype=torch.bool)].mean().backward()
    assert not predicted.grad.any()  # type: ignore[attr-defined]


# Heads


def labels_of(rank: int, step: int, turns: bool) -> torch.Tensor:
    """One of the first two tasks; nobody has the third."""
    values = torch.full((8, 3), NAN)
    values[:, (rank + turns * step) % 2] = 1.0
    return values


Step = tuple[list[float | None], int]  # gradients' norms by head, all-reduces


def heads(
    touch: bool, turns: bool, **options: bool
) -> tuple[list[Step], str, list[float]]:
    """Three steps: what each did, what stopped them, and how far each head's
    weights have come."""
    done: list[Step] = []
    with joined(20, ranks.store()) as me:
        torch.manual_seed(0)
        model = AssayHeads(4, 8, 3, touch)
        begun = [head.weight.clone() for head in model.heads]  # type: ignore
        ddp = DistributedDataParallel(model, **options)
        adam = torch.optim.AdamW(model.parameters(), weight_decay=0.1)
        said = ""
        try:
            for step in range(3):
                values = labels_of(me.rank, step, turns)
                torch.manual_seed(me.rank)
                with profile(activities=[ProfilerActivity.CPU]) as seen:
                    out = ddp(torch.randn(8, 4), in_use(values))
                    masked_loss(out, values).backward()
                grads: list[Any] = [head.weight.grad for head in model.heads]
                norms = [None if g is None else float(g.norm()) for g in grads]
                sums = [
                    e
                    for e in seen.events() or ()
                    if e.name == "gloo:all_reduce"
                ]
                done.append((norms, len(sums)))
                adam.step()
                adam.zero_grad()
        except RuntimeError as error:
            said = str(error)
        moved = [
            float((head.weight - first).detach().norm())  # type: ignore
            for head, first in zip(model.heads, begun, strict=True)
        ]
        return done, said, moved


def run_heads(*args: bool, **options: bool) -> list[Any]:
    return ranks.run_ranks(2, with_options, args, options)


def with_options(args: tuple[bool, bool], options: dict[str, bool]) -> Any:
    return heads(*args, **options)


def test_plain_ddp_makes_a_silent_local_step_and_then_raises() -> None:
    """With heads that a rank does not use, DDP's first step applies each rank's
    own gradient, unaveraged, and raises nothing. The next forward pass raises,
    and the replicas differ."""
    right = run_heads(False, False, find_unused_parameters=True)
    found = run_heads(False, False)
    for rank, (done, said, _) in enumerate(found):
        ((norms, _),) = done
        # Its own gradient, which nobody divided by two.
        other = right[rank][0][0][0]
        assert norms[1 - rank] is None
        assert norms[rank] == pytest.approx(2 * other[rank], rel=1e-4)
        assert "Expected to have finished reduction" in said
    assert found[0][2] != found[1][2]  # replicas that are none


def one_has_all() -> str:
    store = ranks.store()
    with joined(2, store) as me:
        ddp = DistributedDataParallel(AssayHeads(4, 8, 3))
        try:
            ddp(torch.ones(8, 4), [0, 1, 2][: 3 - 2 * me.rank]).sum().backward()
            said = "went on"
        except RuntimeError as error:
            said = "timed out" if "Timed out" in str(error) else str(error)
        store.set(f"ended {me.rank}", "")
        store.wait(["ended 0", "ended 1"])
        return said


def test_a_rank_that_uses_all_heads_waits_for_one_that_does_not() -> None:
    """Under plain DDP one rank uses all heads and the other does not. The first
    times out in its all-reduce, and the second goes on."""
    assert ranks.run_ranks(2, one_has_all) == ["timed out", "went on"]


@pytest.mark.parametrize("turns", [False, True])
def test_unused_heads_can_be_looked_for_or_touched(turns: bool) -> None:
    """`find_unused_parameters` and touching every head both train alike on both
    ranks. Looking costs one more all-reduce a step; touching lets the optimizer
    decay a head that nobody uses."""
    looked = run_heads(False, turns, find_unused_parameters=True)
    touched = run_heads(True, turns)
    for found in (looked, touched):
        assert [said for _, said, _ in found] == ["", ""]
        assert found[0][2] == found[1][2]  # alike on both ranks
        for (one, _), (other, _) in zip(found[0][0], found[1][0], strict=True):
            assert one == other
    # To look for them takes one more all-reduce a step: a bit a parameter.
    for (_, more), (_, sums) in zip(looked[0][0], touched[0][0], strict=True):
        assert more == sums + 1
    # The head that nobody uses: left alone, or decayed by the optimizer.
    assert looked[0][0][0][0][2] is None
    assert looked[0][2][2] == 0
    assert touched[0][0][0][0][2] == 0
    assert touched[0][2][2] > 0
    for one, other in zip(looked[0][0], touched[0][0], strict=True):
        assert one[0][:2] == pytest.approx(other[0][:2])


def test_a_static_graph_holds_while_the_heads_do() -> None:
    """With `static_graph=True` DDP trains right as long as each step uses the
    same heads, and raises "training graph has changed" when they change."""
    same = run_heads(False, False, static_graph=True)
    assert [said for _, said, _ in same] == ["", ""]
    looked = run_heads(False, False, find_unused_parameters=True)
    assert same[0][2] == pytest.approx(looked[0][2])
    calls = [sums for _, sums in same[0][0]]
    assert calls[0] == calls[1] + 1 == calls[2] + 1  # it looks once
    for done, said, _ in run_heads(False, True, static_graph=True):
        assert len(done) == 1
        assert "training graph has changed" in said


def test_a_touch_spreads_what_is_not_a_number() -> None:
    """0 · inf is NaN: one bad head is all of them."""
    model = AssayHeads(4, 8, 3, touch=True)
    with torch.no_grad():
        model.heads[2].weight.fill_(math.inf)  # type: ignore[operator]
    out = model(torch.randn(2, 4), [0])
    assert out.isnan().all()
    model.touch = False
    assert model(torch.randn(2, 4), [0]).isfinite().all()


# chemprop


FOUND = json.loads(chemprop_step.RESULT.read_text())


def test_chemprops_own_step_is_as_published() -> None:
    assert FOUND["versions"]["chemprop"] == "2.3.1"
    assert FOUND["settings"]["steps"] == chemprop_step.STEPS
    natural, thin = FOUND["fills"].values()
    assert [*FOUND["fills"]] == ["4.56%", "0.45%"]
    assert 0.01 < natural["as given"]["median"] < 0.1
    assert thin["as given"]["median"] > 2 * natural["as given"]["median"]
    for fill in (natural, thin):
        assert fill["by global count"]["most"] < 1e-5
        assert fill["as logged"]["most"] < 1e-5


def test_its_tables_are_made_of_the_result(tmp_path: Path) -> None:
    result = tmp_path / "chemprop_step.json"
    result.write_text(json.dumps(FOUND))
    assert chemprop_step.render(result) == 0
    made = result.with_suffix(".md").read_text()
    assert made == chemprop_step.RESULT.with_suffix(".md").read_text()
    errors = np.array([0.5, NAN, 0.1])
    assert chemprop_step.summary(errors) == {
        "median": 0.3,
        "most": 0.5,
        "nan": 1,
    }


def test_it_is_run_where_it_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("chemprop", reason="`make chemprop` brings it")
    assert chemprop_step.run(2, tmp_path / "chemprop_step.json") == 0
