"""Lab B5: layers that turn with a molecule, and a check that can fail.

A layer takes features (atoms, f) and positions (atoms, 3) in Å, and returns
both.
"""

from copy import deepcopy

import torch
from torch import Tensor, nn

COUNTS = 1e-8  # an error from here on is no rounding of float64
FAR = 30.0  # Å


def perceptron(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Two layers."""
    first, last = nn.Linear(inputs, hidden), nn.Linear(hidden, outputs)
    return nn.Sequential(first, nn.SiLU(), last)


# --8<-- [start:egnn]
class EGNN(nn.Module):
    """A layer under which features stay and positions follow, whatever the
    molecule's place, turn, mirror image or order of atoms: that of Satorras et
    al. 2021, https://arxiv.org/abs/2102.09844.

    Both of an atom depend on the features of all others and on the distances
    to them. Every parameter has a gradient.
    """

    def __init__(self, features: int, hidden: int = 16) -> None:
        super().__init__()
        self.message = perceptron(2 * features + 1, hidden, hidden)
        self.weight = perceptron(hidden, hidden, 1)
        self.update = perceptron(features + hidden, hidden, features)

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and positions, of the shapes they came in.

        Of one atom, and of two in one place, values and gradients are finite.
        """
        # Features hear squared distances, positions move along differences.
        apart = x[:, None] - x
        heard = self.messages(h, apart.square().sum(-1, keepdim=True), x)
        pull = (apart * self.weight(heard)).sum(1) / max(1, len(x) - 1)
        return h + self.update(torch.cat((h, heard.sum(1)), -1)), x + pull

    def messages(self, h: Tensor, squared: Tensor, x: Tensor) -> Tensor:
        """(i, j, hidden): what atom i hears of atom j; of itself, nothing."""
        n = len(h)
        both = h[:, None].expand(n, n, -1), h.expand(n, n, -1)
        heard = self.message(torch.cat((*both, squared), -1))
        return heard * (1 - torch.eye(n).to(heard))[..., None]


# --8<-- [end:egnn]
# --8<-- [start:chiral]
class ChiralEGNN(EGNN):
    """As EGNN, but the features of a mirror image are others."""

    def __init__(self, features: int, hidden: int = 16) -> None:
        super().__init__(features, hidden)
        self.three = perceptron(hidden, hidden, 3)
        self.handed = perceptron(features + 1, hidden, features)

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and positions, of the shapes they came in."""
        # The volume that three vectors of an atom span: its sign turns round in
        # a mirror, and stays in a rotation.
        u, v, w = self.vectors(h, x).unbind(1)
        volume = (torch.linalg.cross(u, v) * w).sum(-1, keepdim=True)
        h, x = super().forward(h, x)
        return h + self.handed(torch.cat((h, volume), -1)), x

    def vectors(self, h: Tensor, x: Tensor) -> Tensor:
        """(atoms, 3 vectors, 3), each a weighted sum of directions."""
        apart = x[:, None] - x
        squared = apart.square().sum(-1, keepdim=True)
        # One more than the squared distance: at zero it has a gradient.
        directions = apart / (squared + 1).sqrt()
        weights = self.three(self.messages(h, squared, x))
        return torch.einsum("ijv,ijx->ivx", weights, directions)


# --8<-- [end:chiral]
# --8<-- [start:rotations]
def rotations(count: int, seed: int) -> Tensor:
    """(count, 3, 3), float64, uniform over all rotations, and no mirror among
    them. The same for a seed."""
    # Of unit quaternions, which four normal numbers give.
    generator = torch.Generator().manual_seed(seed)
    four = torch.randn(count, 4, generator=generator, dtype=torch.float64)
    r, i, j, k = (four / four.norm(dim=1, keepdim=True)).T
    rows = [
        [1 - 2 * (j * j + k * k), 2 * (i * j - k * r), 2 * (i * k + j * r)],
        [2 * (i * j + k * r), 1 - 2 * (i * i + k * k), 2 * (j * k - i * r)],
        [2 * (i * k - j * r), 2 * (j * k + i * r), 1 - 2 * (i * i + j * j)],
    ]
    return torch.stack([torch.stack(row) for row in rows]).permute(2, 0, 1)


# --8<-- [end:rotations]
# --8<-- [start:breaks]
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
    layer = deepcopy(layer).double()  # the caller's stays as it is
    h, x = h.double(), x.double()
    generator = torch.Generator().manual_seed(seed)
    same, turns = torch.eye(3).double(), rotations(4, seed)
    mirror = torch.diag(torch.tensor([-1.0, 1, 1]).double())
    found = set()
    for turn in turns:
        order = torch.randperm(len(x), generator=generator)
        still = torch.arange(len(x))
        for name, matrix, at, far in (
            ("translation", same, still, FAR * turn[0]),
            ("rotation", turn, still, 0),
            ("permutation", same, order, 0),
            ("mirror", turn @ mirror, still, 0),
        ):
            made, added = makes(layer, h, x)
            right = made[at], added[at] @ matrix.T
            moved = makes(layer, h[at], x[at] @ matrix.T + far)
            if max(map(off, moved, right)) > COUNTS:
                found.add(name)
    return found


def makes(layer: nn.Module, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Features, and what is added to positions, in float64."""
    with torch.no_grad():
        features, positions = layer(h, x)
    return features.double(), positions.double() - x.double()


def off(found: Tensor, right: Tensor) -> float:
    """The largest difference, over the largest number."""
    most = float(right.abs().max())
    return float((found - right).abs().max()) / most if most else 0.0


# --8<-- [end:breaks]
# --8<-- [start:tolerance]
def tolerance(layer: nn.Module, h: Tensor, x: Tensor) -> float:
    """What float32 costs this layer on this input: the largest difference
    between what it makes in float32 and in float64, over the largest number
    that it makes in float64. The larger of two: features, and what is added to
    positions. In float32 the input is rounded as well.

    A test in float32 takes a few times this as its tolerance.
    """
    narrow = makes(deepcopy(layer).float(), h.float(), x.float())
    wide = makes(deepcopy(layer).double(), h.double(), x.double())
    return max(map(off, narrow, wide))


# --8<-- [end:tolerance]
