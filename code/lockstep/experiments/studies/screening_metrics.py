"""Two screens of equal ROC-AUC, and what ties and ranks do to their metrics.

    python -m lockstep.experiments.studies.screening_metrics

Each screen ranks 15,000 molecules by their similarity to one known thrombin
inhibitor. Thirty of the 15,000 have a pKi of 8 or more; the others were never
measured on thrombin, and are taken for inactive. The two queries are the most
unlike of fifty whose ROC-AUC is equal to three decimals.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from lockstep.bio.datasets import chembl
from lockstep.bio.metrics import bedroc, enrichment, interval, pr_auc, roc_auc
from lockstep.trainer.order import GlobalOrder

TARGET, POTENT, LIBRARY, HIDDEN = "CHEMBL204_Ki", 8.0, 15_000, 30
QUERIES = {"a": 23345, "b": 27366}  # rows of the matrix


class Screen(NamedTuple):
    """A library, and how alike it is to each query."""

    actives: np.ndarray  # bool [LIBRARY]
    scores: dict[str, np.ndarray]  # float64 [LIBRARY] by query


@cache
def screen() -> Screen:
    """Some seconds, most of them for fingerprints."""
    from rdkit import Chem
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
    from rdkit.DataStructs import BulkTanimotoSimilarity

    assays = chembl()
    column = assays.column(TARGET)
    potent = shuffled(np.flatnonzero(column >= POTENT))[:HIDDEN]
    other = shuffled(np.flatnonzero(np.isnan(column)))[: LIBRARY - HIDDEN]
    morgan = GetMorganGenerator(radius=2, fpSize=1024)

    def bits(row: int) -> Any:
        return morgan.GetFingerprint(Chem.MolFromSmiles(assays.smiles[row]))

    library = [bits(row) for row in np.concatenate([potent, other])]
    return Screen(
        np.arange(LIBRARY) < HIDDEN,
        {
            name: np.array(BulkTanimotoSimilarity(bits(row), library))
            for name, row in QUERIES.items()
        },
    )


def shuffled(rows: np.ndarray) -> np.ndarray:
    """The same in every process."""
    return rows[GlobalOrder(len(rows), seed=0)(np.arange(len(rows)))]


# --8<-- [start:by_rank]
def mean_by_rank(
    actives: np.ndarray, scores: np.ndarray, ranks: int, none: float = 0.0
) -> float:
    """What ranks report that average their own PR-AUC. A rank without actives
    reports `none`; if that is NaN, it is left out."""
    found = []
    for part in (slice(rank, None, ranks) for rank in range(ranks)):
        here = actives[part].any()
        found.append(pr_auc(actives[part], scores[part]) if here else none)
    return float(np.nanmean(found))


# --8<-- [end:by_rank]
def one_percent(actives: np.ndarray, scores: np.ndarray) -> float:
    """EF1%."""
    return enrichment(actives, scores, 0.01)


def rows() -> dict[str, list[float]]:
    """What is printed: by query, and of a score that says nothing."""
    actives, scores = screen()
    constant = {"constant": np.zeros(LIBRARY)}
    return {
        name: [
            metric(actives, given)
            for metric in (roc_auc, pr_auc, bedroc, one_percent)
        ]
        for name, given in (scores | constant).items()
    }


def listed_first() -> float:
    """RDKit's BEDROC of the constant score, for a file with actives on top."""
    from rdkit.ML.Scoring.Scoring import CalcBEDROC

    actives, _ = screen()
    scored = sorted(
        ((0.0, active) for active in actives), key=lambda row: -row[0]
    )
    return float(CalcBEDROC(scored, 1, 20.0))


def main() -> None:
    """Metrics by query, an interval, and the mean over ranks."""
    print("query     ROC-AUC  PR-AUC  BEDROC   EF1%")
    for name, (roc, pr, early, top) in rows().items():
        print(f"{name:8} {roc:8.3f} {pr:7.4f} {early:7.3f} {top:6.1f}")
    actives, scores = screen()
    for name, given in scores.items():
        low, high = interval(one_percent, actives, given, times=300)
        print(f"EF1% of {name}, 95 %: {low:.1f} to {high:.1f}")
    print(f"constant, RDKit's BEDROC: {listed_first():.3f}")
    print("\nPR-AUC of b, averaged; no active is\nranks    0  left out")
    for ranks in (1, 8, 64, 512):
        print(f"{ranks:5}", end="")
        for none in (0.0, np.nan):
            mean = mean_by_rank(actives, scores["b"], ranks, none)
            print(f"{mean:8.4f}", end="")
        print()


if __name__ == "__main__":
    main()
