"""Layers that turn with a molecule, by checks that can fail; e3nn is the
oracle for what a mirror does."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from e3nn import o3
from e3nn.util import test as e3nn
from rdkit import Chem
from scipy.spatial.transform import Rotation
from scipy.stats import ortho_group
from torch import Tensor, nn

from lockstep.bio import chirality
from lockstep.bio.datasets import Assays
from lockstep.bio.geometry import (
    EGNN,
    TF32,
    Anchored,
    ChiralEGNN,
    centered,
    equivariance_error,
    rotations,
    ten_bits,
)

FLIP = torch.diag(torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64))


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def molecule() -> Chem.Mol:
    return chirality.conformer(chirality.IBUPROFEN)


@pytest.fixture(scope="module")
def given(molecule: Chem.Mol) -> tuple[Tensor, Tensor]:
    return chirality.atoms(molecule)


def errors(layer: Any, given: tuple[Tensor, Tensor]) -> dict[str, float]:
    return equivariance_error(layer, *given, distance=30)


@pytest.mark.parametrize("kind", [EGNN, ChiralEGNN])
def test_both_layers_turn_with_the_molecule(kind: Any, given: Any) -> None:
    found = errors(chirality.made(kind), given)
    assert found["translation"] < 1e-12
    assert found["rotation"] < 1e-12
    assert found["permutation"] < 1e-12


def by_hand(layer: EGNN, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Equations 3 to 6, atom by atom."""
    features, positions = [], []
    for i in range(len(h)):
        heard, pull = torch.zeros(32).double(), torch.zeros(3).double()
        for j in range(len(h)):
            if j != i:
                far = (x[i] - x[j]).square().sum()[None]
                message = layer.message(torch.cat((h[i], h[j], far)))
                heard = heard + message
                pull = pull + (x[i] - x[j]) * layer.weight(message)
        features.append(h[i] + layer.update(torch.cat((h[i], heard))))
        positions.append(x[i] + pull / (len(h) - 1))
    return torch.stack(features), torch.stack(positions)


def test_an_egnn_is_equations_3_to_6() -> None:
    layer = chirality.made(EGNN)
    h, x = torch.randn(5, 8).double(), torch.randn(5, 3).double()
    for one, other in zip(layer(h, x), by_hand(layer, h, x), strict=True):
        assert (one - other).abs().max() < 1e-12


# Mirrors


def test_the_mirrored_conformer_is_the_other_enantiomer(
    molecule: Chem.Mol, given: Any
) -> None:
    """RDKit labels a conformer S, and R once its coordinates are mirrored."""
    here, there = (
        chirality.handedness(molecule, given[1] @ matrix)
        for matrix in (torch.eye(3).double(), FLIP)
    )
    assert [label for _, label in here] == ["S"]
    assert [label for _, label in there] == ["R"]


def test_an_egnn_gives_both_enantiomers_the_same(given: Any) -> None:
    h, x = given
    layer = chirality.made(EGNN)
    assert errors(layer, given)["mirror"] < 1e-12
    one, other = (layer(h, there)[0] for there in (x, x @ FLIP))
    assert (one - other).abs().max() / one.abs().max() < 1e-12


def test_a_chiral_layer_does_not(given: Any) -> None:
    assert errors(chirality.made(ChiralEGNN), given)["mirror"] > 0.1


def learned(kind: Any, h: Tensor, x: Tensor) -> float:
    """The loss of telling S from R, after some steps."""
    torch.manual_seed(0)
    layer, head = kind().double(), nn.Linear(8, 1).double()
    weights = [*layer.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(weights, lr=0.01)
    loss = torch.zeros(())
    for _ in range(40):
        optimizer.zero_grad()
        said = torch.stack(
            [head(layer(h, there)[0].mean(0)) for there in (x, x @ FLIP)]
        )
        right = torch.tensor([[1.0], [0.0]]).double()
        loss = nn.functional.binary_cross_entropy_with_logits(said, right)
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def test_no_egnn_learns_which_hand_it_is(given: Any) -> None:
    """Whatever it learns, a coin has the same loss: ln 2."""
    assert learned(EGNN, *given) >= np.log(2) - 1e-9
    assert learned(ChiralEGNN, *given) < 0.05


def test_the_cross_product_is_e3nns() -> None:
    """Of two vectors of parity -1 it is one of parity 1, and with a third one
    a number of parity -1."""
    u, v = torch.randn(2, 7, 3).double()
    three = o3.wigner_3j(1, 1, 1, dtype=torch.float64)
    axis = torch.einsum("ijk,ni,nj->nk", three, u, v) * 6**0.5
    assert (axis - torch.linalg.cross(u, v)).abs().max() < 1e-12
    one, other = o3.Irrep("1o"), o3.Irrep("1e")
    assert other in one * one
    assert o3.Irrep("0o") in other * one


def test_a_layers_volume_is_e3nns_pseudoscalar(given: Any) -> None:
    h, x = given
    layer = chirality.made(ChiralEGNN)

    def volume(x: Tensor) -> Tensor:
        u, v, w = layer.vectors(h, x).unbind(1)
        return (torch.linalg.cross(u, v) * w).sum(-1, keepdim=True)

    here = volume(x)
    for matrix in (o3.rand_matrix(dtype=torch.float64), -torch.eye(3).double()):
        sign = o3.Irreps("0o").D_from_matrix(matrix)
        there = volume(x @ matrix.T)
        assert (there - here @ sign).abs().max() < 1e-12 * here.abs().max()


@pytest.mark.parametrize(
    ("kind", "parity", "passes"),
    [(EGNN, True, True), (ChiralEGNN, False, True), (ChiralEGNN, True, False)],
)
def test_e3nns_own_check_says_the_same(
    kind: Any, parity: bool, passes: bool, given: Any
) -> None:
    """The library e3nn's `equivariance_error` accepts and rejects the same
    layers as our own check, with and without mirror images."""
    layer = chirality.made(kind)
    torch.manual_seed(1)
    found = e3nn.equivariance_error(
        lambda h, x: layer(h.double(), x.double()),
        args_in=list(given),
        irreps_in=["8x0e", "cartesian_points"],
        irreps_out=["8x0e", "cartesian_points"],
        ntrials=3,
        do_parity=parity,
        do_translation=True,
    )
    assert (max(float(one.max()) for one in found.values()) < 1e-5) == passes


# Checks that pass for free


def test_a_bug_that_centered_molecules_hide(given: Any) -> None:
    """All three are at rounding for a right layer; the bug passes two."""
    for name, kind in (("right", EGNN), ("anchored", Anchored)):
        turned, recentered, moved = chirality.free(chirality.made(kind), *given)
        assert turned < 1e-12
        assert recentered < 1e-12
        assert (moved > 0.5) == (name == "anchored")


def test_rdkits_conformers_are_centered(given: Any) -> None:
    """To a tenth of a bond's length, over several seeds; a crop is not."""
    off = []
    for seed in range(5):
        x = chirality.atoms(chirality.conformer(chirality.IBUPROFEN, seed))[1]
        off.append(float(x.mean(0).norm()))
    assert max(off) < 0.3
    assert float(given[1][:8].mean(0).norm()) > 1


def forgets(kind: str) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A layer with one thing wrong."""
    layer = chirality.made(EGNN)

    def broken(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        features, positions = layer(h, x)
        if kind == "rotation":
            positions = positions + (positions - x) * x.new_tensor([0.1, 0, 0])
        elif kind == "permutation":
            features = features + 0.1 * features[:1]
        elif kind == "translation":
            positions = positions + 0.01 * x
        return features, positions

    return broken


@pytest.mark.parametrize("kind", ["rotation", "permutation", "translation"])
def test_the_check_finds_what_is_broken(kind: str, given: Any) -> None:
    assert errors(forgets("none"), given)[kind] < 1e-12
    assert errors(forgets(kind), given)[kind] > 1e-3


# Precision


def test_the_error_grows_as_the_format_and_the_distance_say(given: Any) -> None:
    layer = chirality.made(ChiralEGNN)
    found = {
        mode: [chirality.off(layer, mode, *given, far) for far in (0, 1000)]
        for mode in chirality.MODES
    }
    near = [
        found[mode][0] for mode in ("fp64", "fp32", "TF32 products", "bf16")
    ]
    assert near == sorted(near)
    assert near[0] < 1e-14 < 1e-8 < near[1] < 1e-5 < near[2] < 1e-3 < near[3]
    # Positions in 32 bits lose digits with the distance, those in 16 all.
    assert found["fp32"][1] > 10 * found["fp32"][0]
    assert found["bf16"][1] > 0.3
    here, far = found["bf16 autocast"]
    assert far < 2 * here


def test_a_tolerance_for_16_bits_hides_a_bug_that_64_show(given: Any) -> None:
    """A layer with a small leak is a billion times further off than the right
    one in float64. In bfloat16 the two errors differ by less than a factor of
    two."""
    right, wrong = (
        chirality.made(kind)
        for kind in (ChiralEGNN, lambda: Anchored(leak=1e-3))
    )
    both = {
        mode: [chirality.off(one, mode, *given, 10) for one in (right, wrong)]
        for mode in ("fp64", "bf16")
    }
    assert both["fp64"][1] > 1e9 * both["fp64"][0]
    assert both["bf16"][1] < 2 * both["bf16"][0]


def test_tf32_has_ten_bits_behind_the_first() -> None:
    x = torch.tensor([1 + 2**-10, 1 + 2**-12, 3.0, 1 + 3 * 2**-12])
    assert ten_bits(x).tolist() == [1 + 2**-10, 1, 3, 1 + 2**-10]
    assert ten_bits(x.double()) is not x
    assert (ten_bits(x.double()) == x.double()).all()
    with TF32():
        assert float(torch.ones(1, 1) @ x[1:2, None]) == 1
        added = torch.addmm(x[1:2, None], torch.ones(1, 1), torch.ones(1, 1))
    assert float(added) == 2 + 2**-12


# What the data pipeline must hold


def test_rotations_are_scipys_and_no_mirrors() -> None:
    found = rotations(0, 0, np.arange(2000)).numpy()
    assert chirality.mirrors_among(found) == 0
    back = Rotation.from_matrix(found).as_matrix()
    assert np.abs(back - found).max() < 1e-12
    # Uniform: the mean of a column is 0, and of its squares a third.
    assert np.abs(found.mean(0)).max() < 0.05
    assert np.abs((found**2).mean(0) - 1 / 3).max() < 0.03


def test_a_rotation_is_a_function_of_seed_epoch_and_id() -> None:
    some = rotations(3, 1, np.array([7, 2]))
    assert (some[0] == rotations(3, 1, np.array([7]))[0]).all()
    for seed, epoch in ((4, 1), (3, 2)):
        other = rotations(seed, epoch, np.array([7]))
        assert (some[0] - other[0]).abs().max() > 0.01


def test_half_of_all_orthogonal_matrices_turn_s_into_r(
    molecule: Chem.Mol, given: Any
) -> None:
    """About half of 1,000 random orthogonal matrices have determinant −1, and
    each of those turns an S molecule into R."""
    drawn = ortho_group.rvs(3, size=1000, random_state=0)
    assert 450 < chirality.mirrors_among(drawn) < 550
    for matrix in drawn[:6]:
        turned = given[1] @ torch.from_numpy(matrix).T
        ((_, label),) = chirality.handedness(molecule, turned)
        assert label == ("R" if np.linalg.det(matrix) < 0 else "S")


def test_padding_shifts_a_mean_and_not_the_mean_of_what_is_real() -> None:
    """Half padding, 30 Å away: the plain mean is 15 Å off."""
    x = torch.randn(1, 6, 3).double()
    real = torch.arange(6)[None] < 3
    x = (x + torch.tensor([30.0, 0, 0])) * real[..., None]
    found = centered(x, real)
    assert found[0, :3].mean(0).abs().max() < 1e-12
    assert (found[0, 3:] == 0).all()
    plain = x.mean(1)
    assert float((plain - x[:, :3].mean(1)).norm()) == pytest.approx(15, abs=2)


def test_two_centers_lose_how_a_ligand_lies_in_its_pocket() -> None:
    """Centered together, a ligand and its pocket keep the distance between
    them. Centered one by one, that distance is zero."""
    ligand, pocket = torch.randn(1, 4, 3), torch.randn(1, 6, 3) + 5
    every = torch.ones(1, 10, dtype=torch.bool)
    whole = centered(torch.cat((ligand, pocket), 1), every)
    apart = [centered(x, every[:, : x.shape[1]]) for x in (ligand, pocket)]
    gap = pocket.mean(1) - ligand.mean(1)
    kept = whole[:, 4:].mean(1) - whole[:, :4].mean(1)
    assert (kept - gap).abs().max() < 1e-5
    assert (apart[1].mean(1) - apart[0].mean(1)).abs().max() < 1e-5


# The data


def test_a_census_of_mirror_images() -> None:
    smiles = ["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "CCO", "C[C@H](F)Cl"]
    smiles += ["O[C@H](C)[C@H](C)F", "O[C@H](C)[C@@H](C)F"]  # no mirror images
    values = np.full((6, 2), np.nan, "f4")
    values[0, 0] = values[1, 1] = 1
    found = chirality.census(Assays(smiles, ["a", "b"], values))
    assert list(found.values()) == [6, 5, 1, 0]
    values[1, 0] = 2
    again = chirality.census(Assays(smiles, ["a", "b"], values))
    assert again["measured on one target"] == 1


def test_what_rdkit_cannot_place_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot read the SMILES 'C1CC'"):
        chirality.conformer("C1CC")


@pytest.mark.slow
def test_no_assay_of_ours_tells_mirror_images_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Among 11,908 molecules with a stereocenter, six pairs are mirror images
    of each other, and no pair was measured on one target."""
    chirality.main()
    said = capsys.readouterr().out
    *_, chiral, pairs, both = said.splitlines()
    assert chiral == "11,908 with a stereocenter"
    assert pairs == "     6 pairs of mirror images"
    assert both == "     0 measured on one target"
