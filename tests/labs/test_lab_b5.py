"""Lab B5's sound layers and check, beside e3nn's and scipy's."""

import pytest
import torch
from e3nn.util.test import assert_equivariant
from scipy.stats import kstest
from torch import Tensor, nn

from lockstep.labs.lab_b5_equivariance import grader
from lockstep.labs.lab_b5_equivariance.example import main
from lockstep.labs.lab_b5_equivariance.sound import (
    EGNN,
    ChiralEGNN,
    breaks,
    makes,
    off,
    rotations,
    tolerance,
)
from tests.conftest import ROOT

LAYERS = [EGNN, ChiralEGNN]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("kind", LAYERS)
def test_e3nn_finds_both_layers_equivariant(kind: type[nn.Module]) -> None:
    """The library e3nn's own check accepts the vectors of both layers, and
    rejects the chiral layer's feature as a plain scalar, because it changes
    sign in a mirror."""
    layer = grader.made(kind).double()
    h, x = grader.molecule()

    def vectors(x: Tensor) -> Tensor:
        return layer(h, x)[1] - x

    def features(x: Tensor) -> Tensor:
        return layer(h, x)[0]

    for function, out in ((vectors, "1x1o"), (features, "4x0e")):
        if kind is ChiralEGNN and function is features:
            with pytest.raises(AssertionError):
                check(function, x, out)
        else:
            check(function, x, out)


def check(function: object, x: Tensor, out: str) -> None:
    """By rotations and mirrors, as e3nn draws them."""
    assert_equivariant(
        function, args_in=[x], irreps_in=["1x1o"], irreps_out=[out]
    )


def test_what_broken_layers_break() -> None:
    """For ten layers, sound and broken, the check names exactly the symmetries
    that each one breaks."""
    expected = {
        EGNN: set(),
        ChiralEGNN: {"mirror"},
        grader.Anchored: {"translation"},
        grader.Drawn: {"translation"},
        grader.Stretched: {"rotation", "mirror"},
        grader.HardlySighted: {"rotation", "mirror"},
        grader.Chained: {"permutation"},
        grader.HardlyLed: {"permutation"},
        grader.Spun: {"mirror"},
        grader.Squared: set(),
    }
    for kind, right in expected.items():
        for far in (0, 1000) if kind in LAYERS else (0, 5):
            found = breaks(grader.made(kind), *grader.molecule(far))
            assert found == right, kind


def test_a_centered_molecule_hides_what_is_tied_to_the_origin() -> None:
    """Under rotations alone; so translations have to be tried."""
    layer = grader.made(grader.Anchored).double()
    h, x = grader.molecule()
    turn = rotations(1, 5)[0]
    made, added = makes(layer, h, x)
    found = makes(layer, h, x @ turn.T)
    assert max(map(off, found, (made, added @ turn.T))) < 1e-12


def test_rotations_are_uniform_as_scipy_tests_it() -> None:
    """A rotated axis is uniform on the sphere, so each coordinate is uniform
    between -1 and 1."""
    drawn = rotations(2000, 0)
    for row in range(3):
        for column in range(3):
            numbers = drawn[:, row, column].numpy()
            assert kstest(numbers, "uniform", args=(-1, 2)).pvalue > 1e-4
    assert torch.linalg.det(drawn).min() > 0.999


def test_float32_costs_more_far_away() -> None:
    """The rounding tolerance of a layer is between 10⁻⁸ and 10⁻⁶ near the
    origin, and at least ten times larger a thousand units away."""
    layer = grader.made(EGNN)
    near, far = (tolerance(layer, *grader.molecule(at)) for at in (0, 1000))
    assert 1e-8 < near < 1e-6
    assert 10 * near < far < 1e-3
    assert off(torch.zeros(2), torch.zeros(2)) == 0


def test_the_example_prints_what_breaks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lab = ROOT / "code/lockstep/labs/lab_b5_equivariance"
    main(lab / "solution.py")
    said = capsys.readouterr().out
    assert "ChiralEGNN      breaks mirror\n" in said
    assert "Anchored        breaks translation\n" in said
