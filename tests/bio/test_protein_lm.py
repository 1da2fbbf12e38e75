"""A protein language model is one model, on whichever ranks it is trained."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockstep.bio.masks_across_ranks import proteins
from lockstep.bio.protein_lm import (
    Place,
    ProteinLM,
    Settings,
    attention,
    held,
    mine,
    place,
    rotary,
    train,
    turned,
    unigram,
    whole,
)
from lockstep.experiments.studies import protein_lm as study
from lockstep.parallel.tensor_parallel import (
    ColumnParallelLinear,
    RowParallelLinear,
)
from lockstep.trainer.process import joined
from tests import ranks

SMALL = Settings(
    hidden=16, layers=2, heads=4, length=32, batch=8, steps=2, dropout=0.1
)


def on_meshes(names: list[str]) -> list[Any]:
    torch.set_default_dtype(torch.float64)
    with joined(60, ranks.store()):
        return [study.run(SMALL, proteins(), name) for name in names]


@pytest.mark.parametrize("world", [2, 4])
def test_every_mesh_trains_as_one_process(world: int, doubles: None) -> None:
    """With dropout."""
    one = study.alone(SMALL, proteins())
    names = [name for name, mesh in study.MESHES.items() if mesh[0] == world]
    assert len(names) > 1
    for found in ranks.run_ranks(world, on_meshes, names):
        for mesh in found:
            assert mesh["losses"] == pytest.approx(one["losses"], rel=1e-12)
            assert np.allclose(mesh["weights"], one["weights"], 0, 1e-9)


@pytest.fixture
def doubles():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def gradients(how: list[tuple[int, str]]) -> list[Any]:
    torch.set_default_dtype(torch.float64)
    s = replace(SMALL, dropout=0.0)
    state = ProteinLM(s, whole).state_dict()
    with joined(60, ranks.store()):
        return [study.gradient(state, s, proteins(), *one) for one in how]


def test_what_is_wrong_moves_the_gradient_and_hardly_the_loss() -> None:
    ((loss, right, turn),), *_ = ranks.run_ranks(1, gradients, [(1, "")])
    asked = [(2, ""), (2, "means"), (2, "positions")]
    found, *_ = ranks.run_ranks(2, gradients, asked)
    for one, _, _ in found:
        assert one == pytest.approx(loss, rel=1e-3)

    def off(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.linalg.norm(a - b) / np.linalg.norm(b))

    assert off(found[0][1], right) < 1e-12
    assert off(found[1][1], right) > 0.01
    assert off(found[2][2], turn) > 0.1


def test_positions_that_start_anew_are_another_attention() -> None:
    q, k, v = torch.randn(3, 1, 64, 32, generator=torch.manual_seed(0))

    def seen(at: Tensor) -> Tensor:
        by = rotary(at, 32)
        return whole(turned(4 * q, by), turned(k, by), v, at)

    at = torch.arange(64)
    error = (seen(at % 32) - seen(at)).norm() / seen(at).norm()
    assert error > 0.7
    assert torch.allclose(seen(at + 1000), seen(at), atol=1e-3)


def refused() -> list[str]:
    said = []
    with joined(60, ranks.store()):
        for ask in (
            lambda: place(3),
            lambda: mine(replace(SMALL, length=33), place(2)),
        ):
            try:
                ask()
            except ValueError as error:
                said.append(str(error))
    return said


def test_what_ranks_cannot_share_is_refused() -> None:
    for said in ranks.run_ranks(2, refused):
        assert said == [
            "3 ranks a sequence do not divide 2 ranks",
            "2 ranks have to divide 33 residues, and 1 the batch of 8",
        ]


def test_a_residue_in_sight_is_learnt_first() -> None:
    """The mean over all that is asked falls below the unigram by copying."""
    here = proteins()
    s = Settings(hidden=32, layers=1, length=32, batch=16, steps=40, rate=1e-2)
    train_part, test = here[:1500], here[1500:]
    base = held(unigram(train_part), test, s).means()
    rates = np.bincount(np.concatenate(train_part), minlength=20)
    entropy = -(rates / rates.sum() * np.log(rates / rates.sum())).sum()
    assert base == pytest.approx([entropy, entropy], abs=0.03)
    model = train(train_part, s)
    hidden, shown = held(model, test, s).means()
    assert shown < base[1] - 0.3
    assert hidden > base[0] - 0.05


# Which random states agree, and which do not.


def by_rank() -> list[np.ndarray]:
    """A weight of FSDP2 whose ranks drew different ones, and those."""
    with joined(60, ranks.store()) as me:
        kind, at = study.strategy("fsdp2"), attention("whole", Place())
        models = [ProteinLM(replace(SMALL, seed=n), at) for n in range(2)]
        drawn = [one.head.weight.detach().clone() for one in models]
        kind.wrap(mine := models[me.rank], me.device)
        return [
            x.numpy() for x in (kind.full_state(mine)["head.weight"], *drawn)
        ]


def test_fsdp2_mixes_weights_that_ranks_drew_apart() -> None:
    """Two ranks draw different initial weights. After `fully_shard` the model
    is the first rank's first half and the second rank's second half."""
    for found, first, second in ranks.run_ranks(2, by_rank):
        assert (found == np.concatenate((first[:10], second[10:]))).all()
        assert (first != second).all()


def tensor_ranks() -> dict[str, np.ndarray]:
    """Of an MLP behind a norm, split over ranks: what this rank has."""
    with joined(60, ranks.store()) as me:
        torch.manual_seed(0)
        norm, up, down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        inputs = torch.randn(2, 4, 8)
        column, row = ColumnParallelLinear(up), RowParallelLinear(down)

        def gradient(seed: int) -> Tensor:
            made = row(F.gelu(column(norm(inputs[0]))))
            torch.manual_seed(seed)
            F.dropout(made, 0.5).square().sum().backward()
            assert row.bias is not None
            found, row.bias.grad = row.bias.grad, None
            assert found is not None
            return found

        alike, apart = gradient(1), gradient(me.rank)
        found = {"alike": alike, "apart": apart, "part": column.weight}
        found["drawn"] = up.weight
        found["mixed"] = row(F.gelu(column(norm(inputs[me.rank]))))
        found["each"] = down(F.gelu(up(norm(inputs))))
        torch.manual_seed(0)
        found["seeded"] = nn.Linear(8, 8).weight
        return {name: one.detach().numpy() for name, one in found.items()}


def test_tensor_ranks_drop_alike_what_is_whole() -> None:
    """A bias behind the sum is on every rank. Its gradients, and so its
    replicas, are the same, or are not."""
    one, two = ranks.run_ranks(2, tensor_ranks)
    assert (one["alike"] == two["alike"]).all()
    assert not np.allclose(one["apart"], two["apart"], 0.1)


def test_tensor_ranks_have_parts_of_one_draw() -> None:
    one, two = ranks.run_ranks(2, tensor_ranks)
    whole = np.concatenate((one["part"], two["part"]))
    assert (whole == one["drawn"]).all()
    assert (one["part"] != two["part"]).all()
    assert (one["seeded"] == two["seeded"]).all()  # half of the matrix, twice


def test_tensor_ranks_that_mask_apart_compute_neither_input() -> None:
    one, two = ranks.run_ranks(2, tensor_ranks)
    assert np.allclose(one["mixed"], two["mixed"])
    for each in one["each"]:
        assert not np.allclose(one["mixed"], each, atol=0.1)
