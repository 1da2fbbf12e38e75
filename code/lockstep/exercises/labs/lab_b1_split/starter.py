"""Lab B1: leakage-free split.

Each rank has rows of its own, some of them none. A row has a `key`, the same
for each way to write a molecule, and a `scaffold`, which is a function of the
key; "" is that of a molecule without rings. Parts have names and shares, such
as {"train": 0.8, "valid": 0.1, "test": 0.1}, in an order that counts.

All ranks of the default group call `split`, `nearest` and `audit` together.
"""

from collections.abc import Mapping, Sequence

from torch import Tensor


def group_of(key: str, scaffold: str) -> str:
    """The name of what must not be cut: molecules of one scaffold. Two without
    rings have nothing in common, unless they are the same."""
    raise NotImplementedError


def side(
    group: str,
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> str:
    """The part of a group.

    It depends on the arguments alone: not on the process, other groups or their
    sizes. Of many groups each part has its share, and another seed draws anew.

    Args:
        pinned: parts of those groups that somebody has placed.
    """
    raise NotImplementedError


def split(
    keys: Sequence[str],
    scaffolds: Sequence[str],
    seed: int,
    shares: Mapping[str, float],
    pinned: Mapping[str, str],
) -> list[str]:
    """The part of each of this rank's rows.

    Raises:
        ValueError: a group that is not pinned has more of all ranks' rows than
            the smallest share. Every rank raises it, in one line that has the
            group's name.
    """
    raise NotImplementedError


def nearest(test: Tensor, train: Tensor) -> Tensor:
    """Of each test molecule of this rank, the similarity of the nearest
    training molecule of any rank.

    The similarity of two fingerprints is Tanimoto's: bits that both have over
    bits that one has; 0, if there is none.

    Args:
        test: bool [rows, bits], this rank's.
        train: bool [rows, bits], this rank's; as many bits.

    Returns:
        Float [test rows]; 0 where no rank has a training molecule.
    """
    raise NotImplementedError


def audit(near: Tensor, least: float) -> dict[str, float]:
    """What all ranks' test molecules have for neighbors, alike on each rank.

    Args:
        near: of `nearest`, this rank's.

    Returns:
        "molecules": how many there are; "near": the share of them with a
        neighbor of similarity `least` or above; "median": of all
        similarities, the mean of the two in the middle if there are two.

    Raises:
        ValueError: no rank has a test molecule. Every rank raises it.
    """
    raise NotImplementedError
