"""Lab B5: equivariance.

A layer takes features (atoms, f) and positions (atoms, 3) in Å, and returns
both. It works in the dtype of its parameters, which `.double()` changes.

What a layer makes is its features, and what it adds to positions. A position as
such is large, and would hide an error in what was added.
"""

from torch import Tensor, nn


class EGNN(nn.Module):
    """A layer under which features stay and positions follow, whatever the
    molecule's place, turn, mirror image or order of atoms.

    Both of an atom depend on the features of all others and on the distances
    to them. Every parameter has a gradient.
    """

    def __init__(self, features: int, hidden: int = 16) -> None:
        super().__init__()
        raise NotImplementedError  # TODO

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and positions, of the shapes they came in.

        Of one atom, and of two in one place, values and gradients are finite.
        """
        raise NotImplementedError  # TODO: distances for h, differences for x


class ChiralEGNN(nn.Module):
    """As EGNN, but the features of a mirror image are others."""

    def __init__(self, features: int, hidden: int = 16) -> None:
        super().__init__()
        raise NotImplementedError  # TODO

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and positions, of the shapes they came in."""
        raise NotImplementedError  # TODO: what changes its sign in a mirror?


def rotations(count: int, seed: int) -> Tensor:
    """(count, 3, 3), float64, uniform over all rotations, and no mirror among
    them. The same for a seed."""
    raise NotImplementedError  # TODO: a determinant of 1 is not yet uniform


def breaks(layer: nn.Module, h: Tensor, x: Tensor, seed: int = 0) -> set[str]:
    """Which transformations change more of what a layer makes than they should.

    "translation": by 30 Å, in any direction. "rotation": about any axis.
    "permutation": another order of atoms. "mirror": a reflection. A sound layer
    of the EGNN kind gives the empty set, one that tells mirror images apart
    gives {"mirror"}.

    Args:
        layer: of any dtype; it stays as it is.
        h: (atoms, f), of any dtype.
        x: (atoms, 3), of any dtype, perhaps centered, perhaps 1,000 Å away.

    Returns:
        The names of those whose error is above 1e-8 of the largest number that
        the layer makes, or adds. float32 does not see so little.
    """
    raise NotImplementedError  # TODO: a check that can fail


def tolerance(layer: nn.Module, h: Tensor, x: Tensor) -> float:
    """What float32 costs this layer on this input: the largest difference
    between what it makes in float32 and in float64, over the largest number
    that it makes in float64. The larger of two: features, and what is added to
    positions. In float32 the input is rounded as well.

    A test in float32 takes a few times this as its tolerance.
    """
    raise NotImplementedError  # TODO: no constant; try it 1,000 Å away
