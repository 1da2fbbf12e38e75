"""A design loop: a model picks what is assayed next, and learns from it.

Variants are described by their mutations, and a small ensemble of ridge
regressions predicts them. A round fills one plate of wells: some with the wild
type, some with variants drawn at random, the rest with what the arm wants most.
The random wells are scored before the model learns from them, which no other
score of the loop can stand in for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_matrix
from scipy.stats import spearmanr

ALPHABET = "ACDEFGHIKLMNPQRSTVWY"


# --8<-- [start:features]
def consensus(sequences: list[str]) -> str:
    """Return the commonest residue of each place: for mutants, the wild type.

    Raises:
        ValueError: the sequences differ in length.
    """
    lengths = {len(one) for one in sequences}
    if len(lengths) != 1:
        raise ValueError(
            f"lengths {sorted(lengths)}: mutants of one protein have one length"
        )
    letters = np.array([list(one) for one in sequences])
    kinds = np.array(list(ALPHABET))
    counts = [(letters == kind).sum(0) for kind in kinds]
    return "".join(kinds[np.argmax(counts, 0)])


def mutations(sequences: list[str], wild: str) -> csr_matrix:
    """Return a column for each residue at each place, [variants, places × 20];
    1 where it differs from the wild type, which is a row of zeros.

    Raises:
        ValueError: a residue is none of the twenty.
    """
    order = {residue: n for n, residue in enumerate(ALPHABET)}
    rows, columns = [], []
    for row, sequence in enumerate(sequences):
        for place, (residue, usual) in enumerate(
            zip(sequence, wild, strict=True)
        ):
            if residue == usual:
                continue
            if residue not in order:
                raise ValueError(f"{residue!r} is no residue of {ALPHABET}")
            rows.append(row)
            columns.append(20 * place + order[residue])
    shape = len(sequences), 20 * len(wild)
    return csr_matrix((np.ones(len(rows), "f4"), (rows, columns)), shape)


# --8<-- [end:features]


class Ensemble:
    """Ridge regressions, each on a bootstrap of what was measured.

    Args:
        members: how many; their spread is the model's own doubt.
        ridge: the penalty on a mutation's effect.
    """

    def __init__(self, members: int = 16, ridge: float = 1.0) -> None:
        self.members, self.ridge = members, ridge

    def fit(
        self, x: csr_matrix, y: np.ndarray, rng: np.random.Generator
    ) -> None:
        """From features [n, f] and readouts [n]."""
        self.weights, self.means = [], []
        for _ in range(self.members):
            often = rng.poisson(1.0, len(y)).astype("f8")
            mean = float(np.average(y, weights=often))
            scaled = x.multiply(often[:, None]).tocsr()
            gram = (scaled.T @ x).toarray()
            gram[np.diag_indices_from(gram)] += self.ridge
            effects = cho_solve(cho_factor(gram), scaled.T @ (y - mean))
            self.weights.append(effects)
            self.means.append(mean)

    def predict(self, x: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation over the members, [n] each."""
        each = x @ np.array(self.weights).T + np.array(self.means)
        return each.mean(1), each.std(1)


# --8<-- [start:arms]
Arm = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
ARMS: dict[str, Arm] = {
    "random": lambda mean, doubt, chance: chance,
    "greedy": lambda mean, doubt, chance: mean,
    "ucb": lambda mean, doubt, chance: mean + 2 * doubt,
}
# --8<-- [end:arms]


@dataclass(frozen=True)
class Assay:
    """A plate's readout: the truth, a plate's own shift, and noise.

    Args:
        noise: standard deviation of a well.
        drift: by how much the wild type reads higher on each plate than on the
            one before: reagents age, another batch of cells.
        corrected: subtract what the plate's wild-type wells read.
    """

    noise: float = 0.3
    drift: float = 0.0
    corrected: bool = True

    def read(
        self,
        truth: np.ndarray,
        plate: int,
        controls: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Readouts of one plate's variants, [wells]; the wild type is 0.

        Raises:
            ValueError: it is to be corrected and has no control.
        """
        if self.corrected and not controls:
            raise ValueError(
                "a plate without wild-type wells cannot be corrected: set"
                " controls to 1 or more, or corrected to False"
            )
        shift = self.drift * plate
        wild = shift + rng.normal(0, self.noise, controls)
        found = truth + shift + rng.normal(0, self.noise, len(truth))
        return found - wild.mean() if self.corrected else found


@dataclass(frozen=True)
class Round:
    """What one plate told, before the model learned from it."""

    wells: int  # assayed so far, in all rounds
    hits: int  # of the best variants there are, found so far
    picked: float  # Spearman of prediction and readout on what the arm picked
    held: float  # the same on the random wells
    unseen: float  # with the truth on all that is left: no laboratory knows it
    read: float  # mean readout of what the arm picked
    true: float  # and its mean true value


@dataclass(frozen=True)
class Loop:
    """How a campaign is run.

    Args:
        wells: of a plate.
        held: of them, drawn at random.
        controls: of them, with the wild type.
        top: how many of the pool's best count as hits.
    """

    rounds: int = 7
    wells: int = 384
    held: int = 48
    controls: int = 8
    top: int = 1000

    # --8<-- [start:run]
    def run(
        self,
        arm: str,
        x: csr_matrix,
        truth: np.ndarray,
        assay: Assay | None = None,
        seed: int = 0,
    ) -> list[Round]:
        """Run a campaign on a pool with features [n, f] and true values [n].

        Raises:
            KeyError: there is no such arm.
            ValueError: the pool has fewer variants than the campaign's wells.
        """
        wants, assay = ARMS[arm], assay or Assay()
        rng = np.random.default_rng(seed)
        each = self.wells - self.controls
        if self.rounds * each > len(truth):
            raise ValueError(
                f"{self.rounds} rounds of {each} variants, and the pool has"
                f" {len(truth)}: take fewer rounds or wells"
            )
        best = np.argsort(-truth, kind="stable")[: self.top]
        hits = set(best.tolist())
        free = np.ones(len(truth), bool)
        known: list[int] = []
        read: list[float] = []
        told, model = [], Ensemble()
        for plate in range(self.rounds):
            mean, doubt = np.zeros(len(truth)), np.zeros(len(truth))
            if plate:  # the first plate is all drawn at random
                model.fit(x[known], np.array(read), rng)
                mean, doubt = model.predict(x)
            held = rng.choice(np.flatnonzero(free), self.held, replace=False)
            free[held] = False
            chance = rng.random(len(truth))
            want = wants(mean, doubt, chance) if plate else chance
            want = np.where(free, want, -np.inf)
            # Many variants are alike: what no member saw has the effect 0, and
            # two mutations that came together share one. Chance decides among
            # them, not a processor's rounding or how it sorts.
            picked = np.lexsort((chance, -want.round(9)))[: each - self.held]
            free[picked] = False
            chosen = np.concatenate([held, picked])
            found = assay.read(truth[chosen], plate, self.controls, rng)
            held_read, picked_read = np.split(found, [self.held])
            known += chosen.tolist()
            read += found.tolist()
            told.append(
                Round(
                    wells=(plate + 1) * self.wells,
                    hits=len(hits.intersection(known)),
                    picked=rank(mean[picked], picked_read),
                    held=rank(mean[held], held_read),
                    unseen=rank(mean[free], truth[free]),
                    read=float(picked_read.mean()),
                    true=float(truth[picked].mean()),
                )
            )
        return told

    # --8<-- [end:run]


def rank(predicted: np.ndarray, read: np.ndarray) -> float:
    """Spearman's correlation; 0 where all predictions are alike."""
    if np.ptp(predicted) == 0:
        return 0.0
    return float(spearmanr(predicted, read).statistic)
