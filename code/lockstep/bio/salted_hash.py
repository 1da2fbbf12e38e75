"""The same split by `hash()` and by a keyed digest, on two ranks.

    python -m lockstep.bio.salted_hash

A rank that torchrun starts is a new process, and Python salts the hash of text
again in each. A rank that was forked has its parent's salt, so a test on forked
ranks does not see it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

import numpy as np

from .datasets import chembl
from .splits import by_scaffold, fraction

TEST = 0.2  # share of the test set
TARGET = "CHEMBL204_Ki"  # thrombin


# --8<-- [start:salted]
def salted(groups: Sequence[str]) -> list[int]:
    """Test rows by built-in `hash()`: other ones in every process."""
    limit = TEST * 1000
    return [i for i, one in enumerate(groups) if hash(one) % 1000 < limit]


# --8<-- [end:salted]
def keyed(groups: Sequence[str]) -> list[int]:
    """Test rows by `fraction`."""
    return [i for i, one in enumerate(groups) if fraction(one, 0) < TEST]


def on_new_processes(
    groups: Sequence[str], salts: Sequence[str]
) -> list[dict[str, list[int]]]:
    """Test rows by both ways, in a new process for each salt: "random" is what
    Python does unasked, a number makes it the same at every call."""
    found = []
    for salt in salts:
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, "-"],
            input=json.dumps(groups),
            env=os.environ | {"PYTHONHASHSEED": salt},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found.append(json.loads(done.stdout))
    return found


def trained_elsewhere(rank0: list[int], rank1: list[int]) -> int:
    """How many of rank 0's test rows lie outside rank 1's, so in training."""
    return len(np.setdiff1d(rank0, rank1))


def main() -> None:
    """Print what two ranks hold out. With `-`: this process's rows, as JSON."""
    if sys.argv[1:] == ["-"]:
        groups = json.load(sys.stdin)
        json.dump(
            {"salted": salted(groups), "keyed": keyed(groups)}, sys.stdout
        )
        return
    groups = by_scaffold(chembl().of(TARGET)[0])
    print(f"{len(groups)} molecules, {len({*groups})} groups by scaffold\n")
    rank0, rank1 = on_new_processes(groups, ["1", "2"])
    print("         rank 0 tests  rank 1 trains on")
    for name, way in {"hash()": "salted", "blake2b": "keyed"}.items():
        leaks = trained_elsewhere(rank0[way], rank1[way])
        print(f"{name:9}{len(rank0[way]):12}{leaks:17}")


if __name__ == "__main__":
    main()
