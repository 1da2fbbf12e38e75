"""A mean over the atoms of all ranks, whoever holds them."""

from functools import cache

import numpy as np
import pytest
import torch
from rdkit import Chem
from rdkit.Chem import rdDistGeom, rdForceFieldHelpers

from lockstep.bio import forces
from lockstep.bio.forces import (
    Conformer,
    Forces,
    conformer,
    deals,
    global_mean,
    gradient,
    mean_of_means,
    off,
    on_rank,
    sample,
)
from lockstep.bio.molecules import parse
from lockstep.trainer.process import joined
from tests import ranks
from tests.conftest import daily


@cache
def some() -> list[Conformer]:
    return sample(24)[0]


def test_labels_are_forces() -> None:
    """None acts on the whole; the same molecule, the same label."""
    one, again = conformer("CCO"), conformer("CCO")
    assert one.places.equal(again.places)
    assert one.forces.shape == one.places.shape == (9, 3)
    assert one.forces.abs().max() > 1
    assert one.forces.sum(0).abs().max() < 1e-4
    with pytest.raises(ValueError, match="MMFF94 knows not"):
        conformer("C[Se]C")


def test_a_step_along_the_forces_lowers_the_energy() -> None:
    """By as much as a gradient says; the other sign would raise it."""
    molecule = Chem.AddHs(parse("CCO"))
    rdDistGeom.EmbedMolecule(molecule, randomSeed=0)
    kinds = rdForceFieldHelpers.MMFFGetMoleculeProperties(molecule)
    field = rdForceFieldHelpers.MMFFGetMoleculeForceField(molecule, kinds)
    one, step = conformer("CCO"), 1e-5
    moved = (one.places + step * one.forces).double().flatten().tolist()
    before = one.places.double().flatten().tolist()
    change = field.CalcEnergy(moved) - field.CalcEnergy(before)
    expected = -step * float(one.forces.square().sum())
    assert change == pytest.approx(expected, rel=0.05)


def test_the_networks_forces_are_the_slope_of_its_energy() -> None:
    """They turn with the molecule, and act on nothing as a whole."""
    torch.manual_seed(0)
    network, one = Forces(), some()[0]
    found = network([one])
    assert found.sum(0).abs().max() < 1e-5
    turn, _ = torch.linalg.qr(torch.randn(3, 3))
    turned = Conformer(one.graph, one.places.detach() @ turn, one.forces)
    assert torch.allclose(network([turned]), found @ turn, atol=1e-5)


def test_what_has_no_label_is_passed_over_and_counted() -> None:
    found, passed = sample(8)
    assert len(found) == 8
    assert passed > 0
    assert found[0].places.equal(sample(2)[0][0].places)


def job(shares: list[list[Conformer]]) -> dict[str, np.ndarray]:
    with joined(60, ranks.store()):
        found = on_rank(shares)
    return {name: one.numpy() for name, one in found.items()}


@pytest.mark.parametrize("world", daily([2, 4], 2))
def test_global_counts_are_one_process_and_means_of_means_are_not(
    world: int,
) -> None:
    """On two and four ranks a loss divided by global counts has one process's
    gradient within 10⁻⁵. A mean of means is off by more than 4 % when molecules
    are dealt by size."""
    right = gradient(some(), mean_of_means)
    errors = {}
    for name, shares in deals(some(), world).items():
        assert sum(map(len, shares)) == len(some())
        found = [
            {loss: torch.from_numpy(one) for loss, one in rank.items()}
            for rank in ranks.run_ranks(world, job, shares)
        ]
        for one in found[1:]:  # all ranks have the same
            assert one["global_mean"].equal(found[0]["global_mean"])
        errors[name] = off(found[0]["mean_of_means"], right)
        assert off(found[0]["global_mean"], right) < 1e-5
    assert errors["by size"] > 0.04
    assert errors["by turns"] > 1e-3


def test_in_one_process_both_losses_are_one() -> None:
    assert (
        off(gradient(some(), global_mean), gradient(some(), mean_of_means))
        < 1e-6
    )


def test_errors_are_printed(monkeypatch, capsys) -> None:
    monkeypatch.setattr(forces, "sample", lambda _: (some(), 3))
    given = {"mean_of_means": torch.ones(3), "global_mean": torch.zeros(3)}
    monkeypatch.setattr(forces, "in_a_group", lambda *_: [given])
    monkeypatch.setattr(forces, "gradient", lambda *_: torch.full((3,), 2.0))
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    forces.main()
    lines = capsys.readouterr().out.splitlines()
    assert "24 molecules, " in lines[0]
    assert lines[-1].split()[3:5] == ["50.0%", "100.0%"]
