"""What ranks lose that average their own mean over few labels.

    python -m lockstep.experiments.studies.sparse_labels

Gradients of sixty steps over ChEMBL's matrix, 16 molecules a rank: the mean of
what each rank's mean gives, which DDP computes, against the mean over all
labels of the step. The ranks are played by one process, in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lockstep.bio.datasets import chembl
from lockstep.bio.labels import masked_loss, task_weights
from lockstep.trainer.order import GlobalOrder, mix

STEPS, BATCH, FEATURES = 60, 16, 512
Deal = Callable[[int, int], list[np.ndarray]]  # step, ranks: rows of each rank
Loss = Callable[[Tensor, Tensor], Tensor]


@cache
def labeled() -> np.ndarray:
    """Rows of the table that have a value."""
    return np.flatnonzero(~np.isnan(chembl().values).all(axis=1))


@cache
def fingerprint(row: int) -> np.ndarray:
    """Counts of Morgan environments, float32 [FEATURES]."""
    from rdkit import Chem
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    morgan = GetMorganGenerator(radius=2, fpSize=FEATURES)
    mol = Chem.MolFromSmiles(chembl().smiles[labeled()[row]])
    return morgan.GetCountFingerprintAsNumPy(mol).astype("f4")


def features(rows: np.ndarray) -> Tensor:
    """Float32 [rows, FEATURES]."""
    return torch.from_numpy(np.stack([fingerprint(int(row)) for row in rows]))


@cache
def values(kept: float = 1.0) -> Tensor:
    """The matrix, float32 [molecules, tasks], with that share of its labels:
    which ones is a function of row and column."""
    full = torch.from_numpy(chembl().values[labeled()])
    cell = mix(np.arange(full.numel(), dtype=np.uint64)) >> 11
    keep = torch.from_numpy(cell * 2.0**-53 < kept).view_as(full)
    return full.where(keep, torch.nan)


def at_random(step: int, ranks: int) -> list[np.ndarray]:
    """The global order, dealt by turns."""
    order = GlobalOrder(len(values()), seed=0)
    first = step * ranks * BATCH
    ids = order(np.arange(first, first + ranks * BATCH))
    return [ids[rank::ranks] for rank in range(ranks)]


def by_assay(step: int, ranks: int) -> list[np.ndarray]:
    """Each rank reads files of its own, a run of columns in each: rows whose
    first label lies there."""
    files = np.array_split(np.arange(values().shape[1]), ranks)
    first = (~values().isnan()).int().argmax(1).numpy()
    found = []
    for own in files:
        rows = np.flatnonzero(np.isin(first, own))
        turn = np.arange(step * BATCH, (step + 1) * BATCH)
        found.append(rows[GlobalOrder(len(rows), seed=0)(turn)])
    return found


def network(tasks: int) -> nn.Module:
    """It begins at a potency of 7, near the mean of all."""
    torch.manual_seed(0)
    last = nn.Linear(128, tasks)
    nn.init.constant_(last.bias, 7.0)
    return nn.Sequential(nn.Linear(FEATURES, 128), nn.ReLU(), last)


# --8<-- [start:means]
def own_mean(predicted: Tensor, labels: Tensor) -> Tensor:
    """Right in one process. On many, each rank divides by its own count."""
    measured = ~labels.isnan()
    errors = (predicted - labels.nan_to_num()) ** 2 * measured
    return errors.sum() / measured.sum()


# --8<-- [end:means]
class Found(NamedTuple):
    """Over the steps of one setting."""

    error: float  # median over the steps that have one, relative
    nans: int  # steps whose gradient is NaN


def compare(deal: Deal, ranks: int, kept: float, steps: int = STEPS) -> Found:
    """The mean of own means against the mean over all labels."""
    model = network(values().shape[1])
    errors = []
    for step in range(steps):
        shares = deal(step, ranks)
        each = [flat_gradient(model, [rows], kept) for rows in shares]
        right = flat_gradient(model, shares, kept)
        wrong = torch.stack(each).mean(0)
        errors.append(float((wrong - right).norm() / right.norm()))
    return Found(float(np.nanmedian(errors)), int(np.isnan(errors).sum()))


def flat_gradient(
    model: nn.Module, shares: list[np.ndarray], kept: float
) -> Tensor:
    """Of the mean over the labels of all `shares`, float32 [parameters]."""
    rows = np.concatenate(shares)
    loss = own_mean(model(features(rows)), values(kept)[rows])
    found = torch.autograd.grad(loss, [*model.parameters()])
    return torch.cat([part.flatten() for part in found])


# --8<-- [start:batch_means]
def batch_means(predicted: Tensor, labels: Tensor) -> Tensor:
    """The mean over tasks of each one's mean in this batch. A task with one
    label in it weighs as much as a task with twenty."""
    measured = ~labels.isnan()
    errors = (predicted - labels.nan_to_num()) ** 2 * measured
    counts = measured.sum(0)
    return (errors.sum(0)[counts > 0] / counts[counts > 0]).mean()


# --8<-- [end:batch_means]
def objectives(molecules: int = 2000, batch: int = 32) -> dict[str, float]:
    """How far a gradient is from that of all tasks alike on all molecules,
    relative: of all labels alike; and, averaged over the batches of four
    epochs, of both ways to weigh tasks alike."""
    order = GlobalOrder(len(values()), seed=1)
    rows = order(np.arange(molecules))
    x, labels = features(rows), values()[rows]
    model, weights = network(labels.shape[1]), task_weights(labels)

    def of(loss: Loss, ids: np.ndarray | slice) -> Tensor:
        found = torch.autograd.grad(
            loss(model(x[ids]), labels[ids]), [*model.parameters()]
        )
        return torch.cat([part.flatten() for part in found])

    def weighted(predicted: Tensor, labels: Tensor) -> Tensor:
        return masked_loss(predicted, labels, weights)

    whole = slice(None)
    right = of(batch_means, whole)

    def mean(loss: Loss) -> Tensor:
        turns = GlobalOrder(molecules, seed=2)(np.arange(4 * molecules))
        parts = turns[: len(turns) // batch * batch].reshape(-1, batch)
        return torch.stack([of(loss, ids) for ids in parts]).mean(0)

    found = {
        "all labels alike": of(masked_loss, whole),
        "task_weights": mean(weighted),
        "batch_means": mean(batch_means),
    }
    return {
        name: float((one - right).norm() / right.norm())
        for name, one in found.items()
    }


def main() -> None:
    """By fill, dealing and ranks: the error, and the steps that are NaN."""
    torch.set_num_threads(1)
    deals: dict[str, Deal] = {"random": at_random, "by assay": by_assay}
    print("                  2 ranks     8 ranks")
    print("filled  dealt       off  NaN    off  NaN")
    for kept in (1.0, 0.1):
        filled = float((~values(kept).isnan()).float().mean())
        for name, deal in deals.items():
            print(f"{filled:6.2%}  {name:8}", end="")
            for ranks in (2, 8):
                found = compare(deal, ranks, kept)
                print(f"  {found.error:5.0%} {found.nans:4}", end="")
            print()
    print("\nfrom the gradient of all tasks alike")
    for name, error in objectives().items():
        print(f"{name:17}{error:6.1%}")


if __name__ == "__main__":
    main()
