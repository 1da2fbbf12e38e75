"""Layers that turn with the molecule, and the check that they do.

A layer takes features (atoms, f) and positions (atoms, 3) in Å, and returns
both. Under a translation, a rotation or another numbering of atoms its features
must stay, and its positions must follow.
"""

from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from lockstep.trainer.data import uniform

Layer = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


# --8<-- [start:egnn]
class EGNN(nn.Module):
    """Equations 3 to 6 of Satorras et al. 2021,
    https://arxiv.org/abs/2102.09844, with every other atom as a neighbor."""

    def __init__(self, features: int = 8, hidden: int = 32) -> None:
        super().__init__()
        self.message = perceptron(2 * features + 1, hidden, hidden)
        self.weight = perceptron(hidden, hidden, 1)
        self.update = perceptron(features + hidden, hidden, features)

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and positions, of the shapes they came in."""
        apart = x[:, None] - x
        messages = self.messages(h, apart.square().sum(-1, keepdim=True), x)
        pull = (apart * self.weight(messages)).sum(1) / (len(x) - 1)
        heard = torch.cat((h, messages.sum(1)), -1)
        return h + self.update(heard), x + pull

    def messages(self, h: Tensor, squared: Tensor, x: Tensor) -> Tensor:
        """(i, j, hidden): what atom i hears of atom j; of itself, nothing."""
        n = len(h)
        both = h[:, None].expand(n, n, -1), h.expand(n, n, -1)
        heard = self.message(torch.cat((*both, squared), -1))
        return heard * (1 - torch.eye(n).to(heard))[..., None]


# --8<-- [end:egnn]
def perceptron(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Two layers."""
    first, last = nn.Linear(inputs, hidden), nn.Linear(hidden, outputs)
    return nn.Sequential(first, nn.SiLU(), last)


# --8<-- [start:chiral]
class ChiralEGNN(EGNN):
    """An EGNN that has a sense of handedness. Three vectors of an atom span a
    volume, whose sign a mirror turns round and a rotation does not."""

    def __init__(self, features: int = 8, hidden: int = 32) -> None:
        super().__init__(features, hidden)
        self.three = perceptron(hidden, hidden, 3)
        self.handed = perceptron(features + 1, hidden, features)
        self.spin = perceptron(features, hidden, 1)

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and positions, of the shapes they came in."""
        u, v, w = self.vectors(h, x).unbind(1)
        axis = torch.linalg.cross(u, v)
        volume = (axis * w).sum(-1, keepdim=True)
        h, x = super().forward(h, x)
        h = h + self.handed(torch.cat((h, volume), -1))
        return h, x + axis * self.spin(h)

    def vectors(self, h: Tensor, x: Tensor) -> Tensor:
        """(atoms, 3 vectors, 3), each a weighted sum of directions."""
        apart = x[:, None] - x
        squared = apart.square().sum(-1, keepdim=True)
        # One more than the distance: at zero it has a gradient.
        directions = apart / (squared + 1).sqrt()
        weights = self.three(self.messages(h, squared, x))
        return torch.einsum("ijv,ijx->ivx", weights, directions)


# --8<-- [end:chiral]
# --8<-- [start:anchored]
class Anchored(EGNN):
    """The bug: an atom also tells how far it is from the origin."""

    def __init__(self, features: int = 8, leak: float = 1.0) -> None:
        super().__init__(features)
        self.leak = leak

    def messages(self, h: Tensor, squared: Tensor, x: Tensor) -> Tensor:
        """Return an EGNN's messages for a distance that is off."""
        return super().messages(
            h, squared + self.leak * x.square().sum(-1)[:, None], x
        )


# --8<-- [end:anchored]
# --8<-- [start:check]
def equivariance_error(
    layer: Layer,
    h: Tensor,
    x: Tensor,
    distance: float = 10.0,
    trials: int = 4,
    seed: int = 0,
) -> dict[str, float]:
    """Return, by transformation, the largest difference to what the layer
    should have made, over the largest thing that it made.

    What it made is its features, and what it adds to positions: a position as
    such would hide an error in it. Each trial also moves the molecule away from
    the origin, where data pipelines like to put it.

    Args:
        distance: of that move, in Å.
    """
    generator = torch.Generator().manual_seed(seed)
    worst: dict[str, float] = {}
    one, flip = torch.eye(3), torch.diag(torch.tensor([-1.0, 1.0, 1.0]))
    made, added = changes(layer, h, x)
    for trial in range(trials):
        turn = rotations(seed, 0, np.arange(trial, trial + 1))[0]
        order = torch.randperm(len(x), generator=generator)
        away = torch.randn(3, generator=generator, dtype=torch.float64)
        away *= distance / away.norm()
        for name, matrix in (
            ("translation", one),
            ("rotation", turn),
            ("permutation", one),
            ("mirror", flip),
        ):
            at = order if name == "permutation" else torch.arange(len(x))
            # In 64 bits, so that the check adds no rounding of its own.
            wide = matrix.double()
            there = x.double()[at] @ wide.T + away
            found = changes(layer, h[at], there.to(x.dtype))
            expected = made[at], added[at] @ wide.T
            for got, right in zip(found, expected, strict=True):
                off = (got - right).abs().max() / right.abs().max()
                worst[name] = max(worst.get(name, 0), float(off))
    return worst


def changes(layer: Layer, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the features that a layer makes and what it adds to positions,
    both in 64 bits."""
    with torch.no_grad():
        features, positions = layer(h, x)
    return features.double(), positions.double() - x.double()


# --8<-- [end:check]
# --8<-- [start:rotations]
def rotations(seed: int, epoch: int, ids: np.ndarray) -> Tensor:
    """Draw a uniform rotation for each sample, (samples, 3, 3), as a function
    of (seed, epoch, id) alone. Its determinant is 1: no mirror.

    From a uniform unit quaternion (Shoemake 1992).
    """
    epochs = np.full(len(ids), epoch)
    a, b, c = uniform(seed, epochs, ids.astype(np.uint64), 3).T
    low, high = np.sqrt(1 - a), np.sqrt(a)
    i, j = low * np.sin(2 * pi * b), low * np.cos(2 * pi * b)
    k, r = high * np.sin(2 * pi * c), high * np.cos(2 * pi * c)
    rows = [
        [1 - 2 * (j * j + k * k), 2 * (i * j - k * r), 2 * (i * k + j * r)],
        [2 * (i * j + k * r), 1 - 2 * (i * i + k * k), 2 * (j * k - i * r)],
        [2 * (i * k - j * r), 2 * (j * k + i * r), 1 - 2 * (i * i + j * j)],
    ]
    return torch.from_numpy(np.stack(rows).astype(float)).permute(2, 0, 1)


def centered(x: Tensor, real: Tensor) -> Tensor:
    """Positions (samples, atoms, 3) about the mean of those that are real, by a
    mask (samples, atoms); padding lies at the origin again.

    All parts of a sample have one center: of a ligand and its pocket, each
    about its own, how they lie to each other would be lost.
    """
    weight = real[..., None].to(x.dtype)
    center = (x * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)
    return (x - center) * weight


# --8<-- [end:rotations]
class TF32(TorchDispatchMode):
    """Matrix products of numbers with ten bits behind the first, as TF32 has
    them; sums in 32 bits."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Round what goes into a product."""
        name = func._schema.name
        if name in ("aten::mm", "aten::bmm", "aten::addmm"):
            first = int(name == "aten::addmm")  # what is added stays
            args = args[:first] + tuple(map(ten_bits, args[first:]))
        return func(*args, **(kwargs or {}))


def ten_bits(x: Tensor) -> Tensor:
    """Round to the nearest float32 whose last 13 bits are zero; return other
    dtypes unchanged."""
    if x.dtype != torch.float32:
        return x
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
