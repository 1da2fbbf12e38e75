"""Lab B5: what the layers, and the check of them, must hold."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lockstep.grading.criteria import Criterion, named
from lockstep.labs.lab_b5_equivariance import sound as reference
from lockstep.labs.lab_b5_equivariance.sound import EGNN, ChiralEGNN

__all__ = ["CRITERIA", "reference"]

FEATURES, ATOMS = 4, 7
TOLD = {  # what `breaks` looks at, and what a layer that fails it does
    "translation": "is tied to the origin",
    "rotation": "knows its axes",
    "permutation": "knows the order of atoms",
    "mirror": "tells mirror images apart",
}


def molecule(far: float = 0) -> tuple[Tensor, Tensor]:
    """Features and positions in float64: centered, or so many Å away."""
    generator = torch.Generator().manual_seed(1)
    h = torch.randn(ATOMS, FEATURES, generator=generator).double()
    x = 1.5 * torch.randn(ATOMS, 3, generator=generator).double()
    return h, x - x.mean(0) + far


def made(build: Any, *given: Any) -> nn.Module:
    """A layer in float32, of numbers that are the same each time."""
    torch.manual_seed(0)
    layer: nn.Module = build(FEATURES, *given)
    return layer


def said(names: set[str]) -> str:
    """To be read."""
    return ", ".join(sorted(names)) or "nothing"


# The layers


def turns(answer: Any) -> None:
    """The sound check finds nothing, though it hears and moves."""
    layer = made(named(answer, "EGNN"))
    for far in (0, 5):
        h, x = molecule(far)
        found = reference.breaks(layer, h, x)
        told = f"EGNN {', '.join(TOLD[name] for name in sorted(found))}"
        assert not found, told
    listens(layer.double(), "EGNN")
    learns(layer, "EGNN")


def listens(layer: nn.Module, what: str) -> None:
    """Each atom hears each other's features and place, and all move."""
    h, x = molecule()
    before = reference.makes(layer, h, x)
    least = float(before[1].abs().amax(1).min())
    assert least > 1e-9, f"{what} leaves an atom where it is"
    for of in "features", "place":
        for other in range(ATOMS):
            h, x = molecule()
            if of == "features":
                h[other] += 1
            else:
                x[other] += 0.5
            after = reference.makes(layer, h, x)
            for name, new, old in zip(
                ("features", "positions"), after, before, strict=True
            ):
                same = (new - old).abs().amax(1) < 1e-9
                deaf = [n for n in same.nonzero()[:, 0].tolist() if n != other]
                told = f"{what}: {name} of atom {deaf[:1]} do not depend on the"
                assert not deaf, f"{told} {of} of atom [{other}]"


def learns(layer: nn.Module, what: str) -> None:
    """All parameters."""
    h, x = molecule()
    features, positions = layer(h, x)
    ((features**2).sum() + ((positions - x) ** 3).sum()).backward()
    for name, parameter in layer.named_parameters():
        there = parameter.grad is not None and bool(parameter.grad.any())
        assert there, f"{what}: {name} has no gradient"


def stays_finite(answer: Any) -> None:
    """One atom, and two in one place."""
    layer = made(named(answer, "EGNN")).double()
    h, x = molecule()
    for what, at in (
        ("seven atoms", slice(None)),
        ("one atom", slice(1)),
        ("two atoms in one place", [0, 0]),
    ):
        some = x[at].clone().requires_grad_()
        features, positions = layer(h[at], some)
        for name, one in (("features", features), ("positions", positions)):
            finite = bool(one.isfinite().all())
            assert finite, f"of {what} the {name} are not finite"
        (features.sum() + positions.sum()).backward()
        assert some.grad is not None, f"of {what} positions have no gradient"
        finite = bool(some.grad.isfinite().all())
        assert finite, f"of {what} the gradient of positions is not finite"


def has_hands(answer: Any) -> None:
    """It breaks the mirror alone, in its features."""
    layer = made(named(answer, "ChiralEGNN"))
    for far in (0, 5):
        h, x = molecule(far)
        found = reference.breaks(layer, h, x)
        told = f"ChiralEGNN breaks {said(found)}, not mirror alone"
        assert found == {"mirror"}, told
    flip = torch.tensor([-1.0, 1, 1]).double()
    layer = layer.double()
    here = reference.makes(layer, h, x)[0]
    there = reference.makes(layer, h, x * flip)[0]
    told = "ChiralEGNN makes the same features of a mirror image"
    assert reference.off(there, here) > 1e-6, told


# Rotations


def turns_anyhow(answer: Any) -> None:
    """Orthogonal, no mirrors, uniform, and the same for a seed."""
    act = named(answer, "rotations")
    many = 4000
    found = act(many, 3)
    told = f"rotations(4000, 3) is {tuple(found.shape)}, {found.dtype}"
    right = found.shape == (many, 3, 3) and found.dtype == torch.float64
    assert right, told
    one = torch.eye(3).double()
    worst = float((found @ found.mT - one).abs().max())
    assert worst < 1e-10, f"R Rᵀ differs from 1 by {worst:.1g}"
    mirrors = int((torch.linalg.det(found) < 0).sum())
    assert not mirrors, f"{mirrors} of 4000 have the determinant -1"
    # Five standard deviations of the mean, and more.
    mean, square = found.mean(0), found.square().mean(0)
    worst = float(mean.abs().max())
    assert worst < 0.05, f"a number of R is {worst:.2f} on average, not 0"
    worst = float((square - 1 / 3).abs().max())
    told = f"a squared number of R is off 1/3 by {worst:.2f} on average"
    assert worst < 0.03, told
    assert found.equal(act(many, 3)), "a seed gives other rotations each time"
    assert not found.equal(act(many, 4)), "two seeds give the same rotations"


# Broken layers


class Anchored(EGNN):
    """It hears how far an atom is from the origin."""

    def messages(self, h: Tensor, squared: Tensor, x: Tensor) -> Tensor:
        """Of a distance that is off."""
        far = x.square().sum(-1)[:, None]
        return super().messages(h, squared + far, x)


class Drawn(EGNN):
    """It draws atoms to the origin, by where their mean is."""

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Nothing changes for a centered molecule."""
        h, moved = super().forward(h, x)
        return h, moved - 0.1 * x.mean(0)


class Stretched(EGNN):
    """Along z atoms move further: turns about z do not show it."""

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Of what was added, the third number."""
        h, moved = super().forward(h, x)
        along = torch.tensor([0, 0, 0.5]).to(x)
        return h, moved + along * (moved - x)


class Sighted(EGNN):
    """Features see how wide the molecule is along x."""

    more = 0.1

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """One number that is added to all."""
        wide = (x[:, 0] - x[:, 0].mean()).square().sum()
        h, x = super().forward(h, x)
        return h + self.more * wide, x


class HardlySighted(Sighted):
    """They see it by less than float32 can tell."""

    more = 1e-7


class Chained(EGNN):
    """Atoms hear who is next in the list, and backwards it is the same list."""

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """A convolution along the order of atoms."""
        beside = torch.zeros_like(h)
        beside[1:] += h[:-1]
        beside[:-1] += h[1:]
        h, x = super().forward(h, x)
        return h + 0.1 * beside, x


class Led(EGNN):
    """All hear the first atom once more."""

    more = 0.1

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """As if it were a class token."""
        first = h[0]
        h, x = super().forward(h, x)
        return h + self.more * first, x


class HardlyLed(Led):
    """They hear it by less than float32 can tell."""

    more = 1e-6


class Spun(ChiralEGNN):
    """Its positions alone have hands."""

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """A cross product of two vectors is added."""
        u, v, _ = self.vectors(h, x).unbind(1)
        h, x = EGNN.forward(self, h, x)
        return h, x + torch.linalg.cross(u, v)


class Squared(ChiralEGNN):
    """It hears a volume without its sign, so it has no hands."""

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """The square of what would tell."""
        u, v, w = self.vectors(h, x).unbind(1)
        volume = (torch.linalg.cross(u, v) * w).sum(-1, keepdim=True)
        h, x = EGNN.forward(self, h, x)
        return h + volume.square(), x


def is_caught(name: str, *kinds: Any) -> Callable[[Any], None]:
    """The check names `name` for each of the layers, wherever they are."""

    def check(answer: Any) -> None:
        for kind in kinds:
            for far in (0, 5):
                layer = made(kind)
                found = set(named(answer, "breaks")(layer, *molecule(far)))
                about = (kind.__doc__ or "").partition("\n")[0]
                told = f"breaks() finds {said(found)}, and no {name}, where:"
                assert name in found, f"{told} {about.rstrip('.')}"

    return check


def is_passed(answer: Any) -> None:
    """Sound layers keep three symmetries, and stay as they are."""
    for kind in (EGNN, ChiralEGNN, Squared):
        for far in (0, 1000):
            layer, before = made(kind), made(kind)
            given = molecule(far)
            found = set(named(answer, "breaks")(layer, *given)) - {"mirror"}
            told = f"breaks() finds {said(found)} in a sound layer"
            assert not found, f"{told}, {far} Å from the origin"
            for mine, was in zip(
                layer.parameters(), before.parameters(), strict=True
            ):
                same = mine.dtype == was.dtype and mine.equal(was)
                assert same, f"breaks() leaves a layer of {mine.dtype}"


def knows_hands(answer: Any) -> None:
    """Those of features, those of positions, and none."""
    for kind, hands in (
        (EGNN, False),
        (ChiralEGNN, True),
        (Spun, True),
        (Squared, False),
    ):
        layer = made(kind)
        found = "mirror" in named(answer, "breaks")(layer, *molecule())
        told = f"breaks() finds {'a' if found else 'no'} mirror, where layers"
        about = f"{'have' if hands else 'have no'} hands: {kind.__name__}"
        assert found == hands, f"{told} {about}"


def sees_little(answer: Any) -> None:
    """What float32 rounds away."""
    is_caught("rotation", HardlySighted)(answer)
    is_caught("permutation", HardlyLed)(answer)


def derives(answer: Any) -> None:
    """Near and far; twice or half as much is as good."""
    for kind in (EGNN, ChiralEGNN):
        for far in (0, 30, 1000):
            layer, given = made(kind), molecule(far)
            found = float(named(answer, "tolerance")(layer, *given))
            right = reference.tolerance(layer, *given)
            told = f"tolerance() is {found:.1g}, {far} Å from the origin"
            assert right / 2 <= found <= 2 * right, f"{told}, not {right:.1g}"


# A check may use the answer's rotations; where they are wrong, it gets others.
BEFORE = {"rotations": "rotations", "tolerance": "tolerance"}

CRITERIA = [
    Criterion(
        "rotations",
        10,
        "A quaternion of four normal numbers; QR gives mirrors as well.",
        turns_anyhow,
        world=1,
    ),
    Criterion(
        "tolerance",
        6,
        "The same layer twice, in float32 and in float64, on this input.",
        derives,
        world=1,
    ),
    Criterion(
        "EGNN",
        12,
        "Features hear distances; positions move along differences.",
        turns,
        world=1,
    ),
    Criterion(
        "gradients",
        8,
        "A root has no slope at zero, and one atom has no others.",
        stays_finite,
        world=1,
        needs={"EGNN": ""},
    ),
    Criterion(
        "chiral layer",
        12,
        "Three vectors of an atom span a volume, which has a sign.",
        has_hands,
        world=1,
    ),
    Criterion(
        "sound layers",
        12,
        "Added vectors turn with the molecule; compute on a copy in float64.",
        is_passed,
        world=1,
        needs=BEFORE,
    ),
    Criterion(
        "translation",
        10,
        "Move what you were given, wherever it is; do not center it.",
        is_caught("translation", Anchored, Drawn),
        world=1,
        needs=BEFORE,
    ),
    Criterion(
        "rotation",
        8,
        "About any axis, and look at both of what a layer makes.",
        is_caught("rotation", Stretched, Sighted),
        world=1,
        needs=BEFORE,
    ),
    Criterion(
        "permutation",
        8,
        "An order drawn at random; backwards is too like forwards.",
        is_caught("permutation", Chained, Led),
        world=1,
        needs=BEFORE,
    ),
    Criterion(
        "mirror",
        8,
        "A matrix with the determinant -1; features and positions have hands.",
        knows_hands,
        world=1,
        needs=BEFORE,
    ),
    Criterion(
        "small leaks",
        6,
        "Compute in float64, and let an error count from 1e-8.",
        sees_little,
        world=1,
        needs=BEFORE,
    ),
]
