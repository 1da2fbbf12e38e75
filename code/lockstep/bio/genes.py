"""Which genes a model sees: chosen on training rows, alike on all ranks.

    python -m lockstep.bio.genes

A choice by the label that has seen the test rows finds a signal where there is
none. A choice by variance does not see labels, but a rank that makes it on its
own rows has other columns than the next, in tensors of the same shape.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.distributed as dist
from scipy import sparse

from .sparse_rows import synthetic

KEPT = 50  # genes


def by_label(counts: sparse.csr_array, labels: np.ndarray) -> np.ndarray:
    """Return the genes whose means differ most between two labels, in units of
    their standard error: int64 [KEPT]."""
    values = counts.astype(np.float64)  # squares of counts overflow
    sides = [values[labels == value] for value in (False, True)]
    means = [side.mean(axis=0) for side in sides]
    squares = [side.multiply(side).mean(axis=0) for side in sides]
    error = sum(
        (square - mean**2) / (side.shape[0] - 1)
        for side, mean, square in zip(sides, means, squares, strict=True)
    )
    score = np.abs(means[1] - means[0]) / np.sqrt(error + 1e-12)
    return top(score)


# --8<-- [start:variable]
def moments(counts: sparse.csr_array) -> np.ndarray:
    """Return sums from which variances follow, float64 [2, genes]; over all
    ranks, if there are several. Zeros are not touched."""
    values = counts.astype(np.float64)
    sums = np.stack([values.sum(axis=0), values.multiply(values).sum(axis=0)])
    if dist.is_initialized():
        dist.all_reduce(torch.from_numpy(sums))
    return sums


def variable(sums: np.ndarray, rows: int) -> np.ndarray:
    """Return the genes with the largest variance over mean in `rows` rows,
    unless they were left out: int64 [KEPT]."""
    mean, square = sums / rows
    return top((square - mean**2) / np.where(mean > 0, mean, np.inf))


# --8<-- [end:variable]
def top(score: np.ndarray) -> np.ndarray:
    """Places of the KEPT largest, in order; of equal ones the first."""
    return np.sort(np.argsort(-score, kind="stable")[:KEPT])


def apparent(
    seed: int, cells: int = 200, genes: int = 2000
) -> dict[str, float]:
    """ROC-AUC on test rows, by how genes were chosen; labels are coins."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(seed)
    counts = synthetic(cells, genes, seed)
    labels = rng.permutation(np.arange(cells) % 2 == 0)
    test = rng.permutation(cells) < cells // 4
    train = ~test
    chosen = {
        "by label, all rows": by_label(counts, labels),
        "by label, training": by_label(counts[train], labels[train]),
        "by variance, all rows": variable(moments(counts), cells),
        "by variance, training": variable(moments(counts[train]), train.sum()),
    }
    found = {}
    for name, kept in chosen.items():
        x = np.log1p(counts[:, kept].toarray())
        model = LogisticRegression(C=0.1).fit(x[train], labels[train])
        guess = model.decision_function(x[test])
        found[name] = float(roc_auc_score(labels[test], guess))
    return found


def shared(ranks: int, cells: int = 2000, genes: int = 2000) -> int:
    """Genes that all ranks keep, of KEPT, if each asks its own rows alone."""
    counts = synthetic(cells, genes, seed=0)
    kept = [
        {*variable(moments(own), own.shape[0]).tolist()}
        for own in (counts[rank::ranks] for rank in range(ranks))
    ]
    return len(set.intersection(*kept))


def main() -> None:
    """Scores on data without signal, and what ranks have in common."""
    runs = [apparent(seed) for seed in range(20)]
    print("chosen                  ROC-AUC, of 20: least, most")
    for name in runs[0]:
        scores = [run[name] for run in runs]
        print(
            f"{name:24}{np.mean(scores):7.2f}"
            f"{min(scores):15.2f}{max(scores):6.2f}"
        )
    print(f"\n{KEPT} most variable genes, chosen by each rank alone")
    for ranks in (2, 4, 8):
        print(f"{ranks} ranks share {shared(ranks)}")


if __name__ == "__main__":
    main()
