"""How far a shuffle buffer mixes, which duplicates MinHash finds, and which
copies of a test set an n-gram finds."""

import numpy as np

from lockstep.experiments.demos.data_streams import buffered
from lockstep.trainer.order import GlobalOrder, mix


# --8<-- [start:displaced]
def displaced(order: np.ndarray) -> np.ndarray:
    """How many places later than it was read each sample is trained on."""
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places - np.arange(len(order))


def spread(size: int, n: int = 100_000) -> tuple[float, float, float]:
    """What a buffer of `size` does to n samples: how far the earliest comes
    forward, the standard deviation, and the share within 3 x size places."""
    moved = displaced(np.array([*buffered(range(n), size)]))
    near = float((np.abs(moved) <= 3 * size).mean())
    return -float(moved.min()), float(moved.std()), near


# --8<-- [end:displaced]
# --8<-- [start:minhash]
def signature(shingles: np.ndarray, hashes: int) -> np.ndarray:
    """The smallest of each hash function over a document's shingles.

    Args:
        shingles: their uint64 hashes, as many as the document has.

    Returns:
        uint64, (hashes,).
    """
    keys = mix(np.arange(1, hashes + 1, dtype=np.uint64) << 32)
    return mix(shingles[None] ^ keys[:, None]).min(1)


def candidates(one: np.ndarray, other: np.ndarray, rows: int) -> bool:
    """Whether two signatures agree in all `rows` hashes of some band."""
    same = (one == other).reshape(-1, rows)
    return bool(same.all(1).any())


def found(similarity: float, rows: int, bands: int) -> float:
    """The probability of it: 1 - (1 - s^r)^b."""
    return float(1 - (1 - similarity**rows) ** bands)


# --8<-- [end:minhash]
def pair(
    similarity: float, chance: np.random.Generator, size: int = 120
) -> tuple[np.ndarray, np.ndarray]:
    """Shingles of two documents, of which so great a share of all are in both
    (Jaccard's similarity)."""
    both = round(similarity * size)
    drawn = chance.integers(0, 2**63, size, np.uint64)
    own = (size - both) // 2
    common = drawn[:both]
    one = np.concatenate([common, drawn[both : both + own]])
    return one, np.concatenate([common, drawn[both + own :]])


def measured(
    similarity: float, rows: int, bands: int, pairs: int = 400
) -> float:
    """The share of so many drawn pairs that come out as candidates."""
    chance = np.random.default_rng(0)
    hits = 0
    for _ in range(pairs):
        one, other = (
            signature(shingles, rows * bands)
            for shingles in pair(similarity, chance)
        )
        hits += candidates(one, other, rows)
    return hits / pairs


# --8<-- [start:contaminated]
def grams(tokens: list[int], n: int) -> set[tuple[int, ...]]:
    """All runs of n tokens."""
    return {tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)}


def overlap(item: list[int], training: set[tuple[int, ...]], n: int) -> float:
    """The share of a test item's n-grams that training data have as well."""
    own = grams(item, n)
    return len(own & training) / len(own)


# --8<-- [end:contaminated]
def leaked(every: int, n: int) -> float:
    """The overlap of a test item of 60 tokens, whose copy in the training data
    has each `every`-th token replaced (0: none)."""
    chance = np.random.default_rng(0)
    document = chance.integers(0, 1000, 5000)
    item = chance.integers(0, 1000, 60)
    copy = item.copy()
    if every:
        copy[every - 1 :: every] = 1000
    document[2000:2060] = copy
    return overlap(item.tolist(), grams(document.tolist(), n), n)


def main() -> None:
    """Buffers; the curve of MinHash; n-grams."""
    for size in (100, 1000, 10_000):
        first, deviation, near = spread(size)
        print(f"buffer {size:6,}: forward at most {first:6,.0f}, ", end="")
        print(f"deviation {deviation:6,.0f}, within 3 sizes {near:.0%}")
    far = displaced(GlobalOrder(100_000, seed=0)(np.arange(100_000)))
    print(f"permutation: deviation {far.std():,.0f}\n")
    for similarity in (0.5, 0.6, 0.7, 0.75, 0.8, 0.9):
        share = measured(similarity, 8, 14)
        print(f"similarity {similarity:.2f}: found {share:4.0%}, ", end="")
        print(f"by the formula {found(similarity, 8, 14):4.0%}")
    print()
    for every, said in ((0, "word for word"), (10, "each tenth token new")):
        for n in (13, 8):
            print(f"copy, {said}: {n}-grams found {leaked(every, n):.0%}")


if __name__ == "__main__":
    main()
