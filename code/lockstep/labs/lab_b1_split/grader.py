"""Lab B1: what a split and its audit must hold."""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.grading.criteria import Criterion, named
from lockstep.labs.lab_b1_split import sound as reference

__all__ = ["CRITERIA", "reference"]

SHARES = {"train": 0.8, "valid": 0.1, "test": 0.1}
SEED = 3
BITS, LEAST = 64, 0.6

Row = tuple[str, str]  # a key and its scaffold


def molecules(rows: int, acyclic: float = 0.0, seed: int = 0) -> list[Row]:
    """Scaffolds of unequal size, none of which has a tenth of all."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(rows):
        scaffold = int(rows / 4 * rng.random() ** 1.5)
        bare = rng.random() < acyclic
        found.append((f"C{number}", "" if bare else f"c1ccc{scaffold}cc1"))
    return found


def dealt(rows: list[Row], order: int = 0) -> list[Row]:
    """This rank's rows: unequally many, in an order of its own."""
    rank = dist.get_rank()
    mixed = np.random.default_rng(order).permutation(len(rows))
    ends = [0, len(rows) // 2, len(rows) // 2 + len(rows) // 5, len(rows)]
    return [rows[i] for i in mixed[ends[rank] : ends[rank + 1]]]


def parts(
    answer: Any, own: list[Row], pinned: dict[str, str] | None = None
) -> list[tuple[Row, str]]:
    """All ranks' rows with their parts."""
    keys, scaffolds = [key for key, _ in own], [one for _, one in own]
    found = named(answer, "split")(keys, scaffolds, SEED, SHARES, pinned or {})
    told = f"split gives {len(found)} parts to {len(own)} rows"
    assert len(found) == len(own), told
    other = sorted({*found} - {*SHARES})
    assert not other, f"split gives a part called {other[:1]}"
    rows: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(rows, [*zip(own, found, strict=True)])
    return [one for of in rows for one in of]


GROUPS = [f"c1ccc{number}cc1" for number in range(200)]
ASKED = f"""
import json, runpy, sys
side = runpy.run_path(sys.argv[1])["side"]
print(json.dumps([side(one, {SEED}, {SHARES}, {{}}) for one in {GROUPS}]))
"""


def is_stable(answer: Any) -> None:
    """In another interpreter, where `hash` has another salt."""
    act = named(answer, "side")
    here = [act(one, SEED, SHARES, {}) for one in GROUPS]
    path = os.pathsep.join([str(Path.cwd()), *filter(None, sys.path)])
    salted = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": path}
    asked = subprocess.run(
        [sys.executable, "-c", ASKED, str(answer.__file__)],
        env=salted,
        capture_output=True,
        text=True,
        check=False,
    )
    ended = (asked.stderr.strip() or "nothing").splitlines()[-1]
    assert asked.returncode == 0, f"another interpreter says {ended}"
    there = json.loads(asked.stdout.splitlines()[-1])
    moved = sum(a != b for a, b in zip(here, there, strict=True))
    told = f"in another process {moved} of {len(GROUPS)} groups lie elsewhere"
    assert not moved, told
    again = [act(one, SEED, SHARES, {}) for one in GROUPS]
    assert again == here, "asked twice, a group lies elsewhere"


def has_its_shares(answer: Any) -> None:
    """Of 10,000 groups, for two seeds that have nothing to do with each other;
    and a pinned group lies where it is told to."""
    act = named(answer, "side")
    names = [f"group {number}" for number in range(10_000)]
    first, second = (
        [act(one, seed, SHARES, {}) for one in names] for seed in (0, 1)
    )
    for found in (first, second):
        counts = Counter(found)
        for part, share in SHARES.items():
            have = counts[part] / len(names)
            told = f"of 10,000 groups {have:.1%} lie in {part}, not {share:.0%}"
            assert abs(have - share) < 0.015, told
    kept = [b for a, b in zip(first, second, strict=True) if a == "test"]
    same = kept.count("test") / len(kept)
    told = f"of seed 0's test groups {same:.0%} are seed 1's too"
    assert same < 0.2, told
    for part in SHARES:
        found = act("group 1", 0, SHARES, {"group 1": part})
        assert found == part, f"pinned to {part}, a group lies in {found}"


def stays(answer: Any) -> None:
    """When half as many rows are added, and dealt to other ranks."""
    rows = molecules(1500)
    before = dict(parts(answer, dealt(rows[:1000])))
    after = dict(parts(answer, dealt(rows, 1)))
    moved = sum(after[row] != part for row, part in before.items())
    told = f"{len(rows) - 1000} rows are added to 1000, and {moved} of those"
    assert not moved, f"{told} change sides"
    alone = dict(parts(answer, rows if dist.get_rank() == 2 else []))
    moved = sum(alone[row] != part for row, part in after.items())
    assert not moved, f"all rows lie on one rank, and {moved} change sides"


def are_whole(answer: Any) -> None:
    """Scaffolds that all ranks have rows of."""
    found = defaultdict(set)
    for (_, scaffold), part in parts(answer, dealt(molecules(1500))):
        found[scaffold].add(part)
    cut = sorted(one for one, sides in found.items() if len(sides) > 1)
    told = f"{len(cut)} of {len(found)} scaffolds are cut"
    assert not cut, f"{told}; {cut[0]} lies in {' and '.join(found[cut[0]])}"
    empty = {*SHARES} - {part for sides in found.values() for part in sides}
    assert not empty, f"no scaffold of {len(found)} lies in {empty}"


def bears_acyclic(answer: Any) -> None:
    """They have a scaffold in common, which is none."""
    rows = molecules(3000, 0.06)
    bare = [part for (_, s), part in parts(answer, dealt(rows)) if not s]
    sides = Counter(bare)
    told = f"{len(bare)} different molecules without rings lie in"
    assert {*sides} == {*SHARES}, f"{told} {' and '.join(sorted(sides))}"
    most = max(sides.values()) / len(bare)
    assert most < 0.95, f"{told} {dict(sides)}"


def keeps_duplicates(answer: Any) -> None:
    """Each molecule has a row on every rank, elsewhere in its list."""
    rows = molecules(400, 0.06)
    mixed = np.random.default_rng(dist.get_rank()).permutation(len(rows))
    found = defaultdict(set)
    for (key, scaffold), part in parts(answer, [rows[i] for i in mixed]):
        found[key, scaffold].add(part)
    cut = [one for one, sides in found.items() if len(sides) > 1]
    told = f"{len(cut)} of {len(found)} molecules have rows in two parts"
    assert not cut, f"{told}: {cut[0][0]!r}, whose scaffold is {cut[0][1]!r}"


def bears_large_groups(answer: Any) -> None:
    """Too large is a matter of all ranks' rows. One rank's are in the way."""
    rank, large = dist.get_rank(), "c1ccccc1"
    others = [(f"O{rank}{n}", f"c1ccn{rank}{n}c1") for n in range(1000)]
    # A third of rank 0's rows, and 8 % of all: that is no reason to stop.
    few = [(f"C{n}", large) for n in range(240)] if rank == 0 else []
    own = others[: 500 if rank == 0 else None] + few
    try:
        parts(answer, own)
    except ValueError as error:
        told = f"a group has 240 of 2740 rows, {len(few)} of them on rank"
        raise AssertionError(f"{told} {rank}: {error}") from None
    # Less than a tenth of rank 1's and rank 2's rows, and 16 % of all.
    many = [(f"C{rank}{n}", large) for n in range([400, 90, 80][rank])]
    own = others[:1000] + many
    told = f"a group has 570 of 3570 rows, and on rank {rank}"
    try:
        parts(answer, own)
    except ValueError as error:
        said = str(error)
        clear = large in said and "\n" not in said
        assert clear, f"{told} the error says {said!r}, without {large}"
    else:
        raise AssertionError(f"{told} nothing is said")
    name = named(answer, "group_of")("", large)
    for part in ("train", "test"):
        found = {
            p for (_, s), p in parts(answer, own, {name: part}) if s == large
        }
        assert found == {part}, f"pinned to {part}, a large group is in {found}"


def prints(rows: int, seed: int) -> Tensor:
    """Fingerprints, the first of which has no bit."""
    generator = torch.Generator().manual_seed(seed)
    found = torch.rand(rows, BITS, generator=generator) < 0.3
    found[:1] = False
    return found


def similarity(a: Tensor, b: Tensor) -> Tensor:
    """Of all pairs, as Tanimoto has it."""
    both = (a[:, None] & b).sum(2).double()
    either = (a[:, None] | b).sum(2).double()
    return torch.where(either > 0, both / either.clamp(min=1), 0.0)


NEIGHBORS = {  # test rows, training rows of each rank
    "all ranks have both": ([4, 7, 2], [9, 3, 14]),
    "rank 0 has no training molecule": ([4, 7, 2], [0, 9, 5]),
    "rank 1 has no test molecule": ([4, 0, 6], [5, 9, 2]),
    "rank 2 has nothing": ([3, 5, 0], [5, 9, 0]),
    "nobody has a training molecule": ([3, 5, 2], [0, 0, 0]),
}


def finds_neighbors(answer: Any) -> None:
    """As one process does that has all rows."""
    rank = dist.get_rank()
    for case, (tests, trains) in NEIGHBORS.items():
        every = torch.cat([prints(n, 10 + r) for r, n in enumerate(trains)])
        test = prints(tests[rank], rank)
        if tests[rank] > 1 and len(every) > 1:
            test[1] = every[-1]  # a duplicate, maybe on another rank
        own = prints(trains[rank], 10 + rank)
        found = named(answer, "nearest")(test.clone(), own)
        expected = torch.zeros(len(test), dtype=torch.float64)
        if len(every):
            expected = similarity(test, every).amax(1)
        told = f"{case}: on rank {rank} nearest has the shape"
        same = found.shape == expected.shape
        assert same, f"{told} {list(found.shape)}, not {list(expected.shape)}"
        wrong = ~torch.isclose(found.double(), expected, atol=1e-6)
        for at in wrong.nonzero().flatten().tolist():
            raise AssertionError(
                f"{case}: test molecule {at} of rank {rank} is"
                f" {float(found[at]):.3f} from its nearest, not"
                f" {float(expected[at]):.3f}"
            )


def audits(answer: Any) -> None:
    """Unequal ranks, and one without test molecules; then none with any."""
    rank = dist.get_rank()
    act = named(answer, "audit")
    for sizes in ([9, 2, 5], [12, 0, 3]):
        drawn = [
            torch.rand(n, generator=torch.Generator().manual_seed(r)) ** (r + 1)
            for r, n in enumerate(sizes)
        ]
        every = torch.cat(drawn).double()
        found = act(drawn[rank].clone(), LEAST)
        expected = {
            "molecules": float(len(every)),
            "near": float((every >= LEAST).double().mean()),
            "median": float(np.median(every.numpy())),
        }
        for name, right in expected.items():
            got = found.get(name)
            told = f"with {sizes} test molecules {name!r} is {got} on rank"
            near = got is not None and abs(got - right) < 1e-6
            assert near, f"{told} {rank}, not {right:.6g}"
    try:
        act(torch.zeros(0), LEAST)
    except ValueError:
        return
    raise AssertionError(
        f"nobody has a test molecule; rank {rank} says nothing"
    )


CRITERIA = [
    Criterion(
        "stable",
        14,
        "Take a digest of the name's bytes: hashlib's have no salt.",
        is_stable,
        world=1,
    ),
    Criterion(
        "shares",
        10,
        "Read the digest of seed and name as a number in [0, 1).",
        has_its_shares,
        world=1,
    ),
    Criterion(
        "added data",
        12,
        "What decides about a group must not ask for any other group.",
        stays,
    ),
    Criterion(
        "groups",
        12,
        "Decide about the group's name, never about the row.",
        are_whole,
    ),
    Criterion(
        "acyclic",
        12,
        "No scaffold is not a scaffold.",
        bears_acyclic,
    ),
    Criterion(
        "duplicates",
        10,
        "A molecule without rings has its key for a name.",
        keeps_duplicates,
    ),
    Criterion(
        "large groups",
        10,
        "Add up the rows of all ranks, then decide on each rank alike.",
        bears_large_groups,
    ),
    Criterion(
        "neighbors",
        12,
        "Every rank needs every training row once, and shows its own.",
        finds_neighbors,
    ),
    Criterion(
        "audit",
        8,
        "A median has no parts: bring the numbers together.",
        audits,
    ),
]
