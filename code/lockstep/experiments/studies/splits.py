"""What a split decides: a random forest's score, and the neighbors it has.

    python -m lockstep.experiments.studies.splits

One target, one model, four ways to split, five seeds each. Then what a refit
of the clusters moves, and where molecules beyond all centers go. Some minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np

from lockstep.bio.datasets import chembl
from lockstep.bio.leakage import NEAR, SHARES, bits
from lockstep.bio.molecules import nearest, parse
from lockstep.bio.splits import (
    Split,
    butina,
    by_component,
    by_molecule,
    by_scaffold,
    side,
    split,
)
from lockstep.experiments import markdown
from lockstep.experiments.markdown import measured, table
from lockstep.experiments.provenance import about, write

RESULT = Path(__file__).with_name("splits.json")
TARGET, SEEDS, TREES = "CHEMBL204_Ki", 5, 30  # thrombin
SPLIT = {"before": 0.9, "later": 0.1}
LEVELS = np.linspace(0, 1, 21)  # similarities at which neighbors are counted
WAYS = {
    "random": "molecule, at random",
    "scaffold": "scaffold",
    "butina": "Butina cluster",
    "component": "chain of neighbors",
}
Found = dict[str, Any]


def groups(smiles: Sequence[str]) -> dict[str, list[str]]:
    """The group of each molecule, by way to split."""
    return {
        "random": by_molecule(smiles),
        "scaffold": by_scaffold(smiles),
        "butina": butina(smiles, NEAR).groups(smiles),
        "component": by_component(smiles, NEAR),
    }


# --8<-- [start:score]
def scores(truth: np.ndarray, guess: np.ndarray) -> dict[str, float]:
    """R² is the error over the spread of the labels that it was measured on:
    another test set has another spread."""
    rmse, spread = np.sqrt(np.mean((truth - guess) ** 2)), truth.std()
    r2 = 1 - (rmse / spread) ** 2
    return {"rmse": float(rmse), "spread": float(spread), "r2": float(r2)}


# --8<-- [end:score]
def one(
    sides: Split, packed: np.ndarray, values: np.ndarray, seed: int, trees: int
) -> Found:
    """A forest trained on one side and scored on the other."""
    from sklearn.ensemble import RandomForestRegressor

    train, test = sides["train"], sides["test"]
    features = np.unpackbits(packed, axis=1)
    forest = RandomForestRegressor(
        trees, max_features=0.1, random_state=seed, n_jobs=2
    )
    forest.fit(features[train], values[train])
    near = nearest(packed[test], packed[train])
    return {
        "test": len(test),
        **scores(values[test], forest.predict(features[test])),
        "near": [float((near >= level).mean()) for level in LEVELS],
        "neighbors": float((near >= NEAR).mean()),
    }


def study(
    smiles: Sequence[str], values: np.ndarray, seeds: int, trees: int
) -> Found:
    """All ways and seeds. The largest group of a way is pinned to training
    where no test set could hold it."""
    packed = bits([parse(text) for text in smiles])
    found: Found = {}
    for way, names in groups(smiles).items():
        kinds, counts = np.unique(names, return_counts=True)
        large = counts > SHARES["test"] * len(names)
        pinned = {str(kind): "train" for kind in kinds[large]}
        found[way] = {
            "groups": len(kinds),
            "largest": int(counts.max()),
            "pinned": len(pinned),
            "seeds": [
                one(
                    split(names, seed, SHARES, pinned),
                    packed,
                    values,
                    seed,
                    trees,
                )
                for seed in range(seeds)
            ],
        }
    return found


def moved(smiles: Sequence[str]) -> Found:
    """A tenth of the scaffolds comes later: how many molecules of before change
    sides, if clusters are found anew and if the centers of before are kept. And
    of the later ones beyond all centers, how many test molecules have a
    neighbor in training, if each is a group and if centers are appended."""
    later = np.array(
        [side(name, 1, SPLIT) == "later" for name in by_scaffold(smiles)]
    )
    before = [text for text, new in zip(smiles, later, strict=True) if not new]
    centers = butina(before, NEAR)
    old = [side(group, 0, SHARES) for group in centers.groups(before)]
    kept = centers.extended(smiles)
    names = kept.groups(smiles)
    appended = {*chain(*kept.versions[len(centers.versions) :])}
    beyond = np.array([name in appended for name in names])
    ways = {
        "found anew": butina(smiles, NEAR).groups(smiles),
        "centers kept": names,
        "alone": np.where(beyond, smiles, names).tolist(),
    }
    found: Found = {
        "before": len(before),
        "later": int(later.sum()),
        "beyond": int(beyond.sum()),
        "series": len(appended),
        "near": {},
    }
    packed = bits([parse(text) for text in smiles])
    for way, groups in ways.items():
        now = np.array([side(group, 0, SHARES) for group in groups])
        found[way] = int((now[~later] != old).sum())
        test = beyond & (now == "test")
        near = nearest(packed[test], packed[now == "train"]) >= NEAR
        found["near"][way] = [int(near.sum()), int(test.sum())]
    return found


def run(seeds: int = SEEDS, trees: int = TREES, result: Path = RESULT) -> int:
    """Both, written down."""
    smiles, values = chembl().of(TARGET)
    found: Found = {
        **about(),
        "settings": {"target": TARGET, "seeds": seeds, "trees": trees},
        "molecules": len(smiles),
        "ways": study(smiles, values, seeds, trees),
        "moved": moved(smiles),
    }
    write(found, result)
    return render(result)


def render(result: Path = RESULT) -> int:
    """Write the tables of a result anew."""
    return markdown.render(result, ways, pair, machine)


def mean(found: Found, way: str, what: str) -> float:
    """Over the seeds."""
    return float(np.mean([seed[what] for seed in found["ways"][way]["seeds"]]))


def ways(found: Found) -> str:
    """A row for each way to split: means over the seeds."""
    return table(
        ["kept together", "RMSE", "spread", "R²", f"neighbor ≥ {NEAR}"],
        (
            [
                label,
                f"{mean(found, way, 'rmse'):.2f}",
                f"{mean(found, way, 'spread'):.2f}",
                f"{mean(found, way, 'r2'):.2f}",
                f"{mean(found, way, 'neighbors'):.0%}",
            ]
            for way, label in WAYS.items()
        ),
    )


def apart(found: Found, way: str) -> tuple[int, int]:
    """Two seeds: the second has a smaller error, and R² falls by the most."""
    scored = [(s["rmse"], s["r2"]) for s in found["ways"][way]["seeds"]]
    pairs = [
        (high, low)
        for high, low in product(range(len(scored)), repeat=2)
        if scored[low][0] <= scored[high][0]
    ]
    return max(pairs, key=lambda two: scored[two[0]][1] - scored[two[1]][1])


def pair(found: Found) -> str:
    """Two seeds of one way to split."""
    seeds = found["ways"]["butina"]["seeds"]
    return table(
        ["Butina, by seed", "RMSE", "spread", "R²"],
        (
            [f"seed {seed}"]
            + [f"{seeds[seed][k]:.2f}" for k in ("rmse", "spread", "r2")]
            for seed in apart(found, "butina")
        ),
    )


def machine(found: Found) -> str:
    """Where, when and with what this was measured."""
    how = found["settings"]
    return measured(
        found,
        Data=f"{how['target']} (thrombin), {found['molecules']} molecules",
        Model=f"random forest of {how['trees']} trees on Morgan fingerprints,"
        f" {how['seeds']} seeds",
    )


if __name__ == "__main__":
    sys.exit(run())
