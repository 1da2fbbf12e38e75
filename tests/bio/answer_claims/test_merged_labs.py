"""What the answer on merging laboratories claims: real potencies, dealt to
laboratories series by series; the laboratories' offsets are made."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from rdkit.ML.Cluster import Butina
from scipy.stats import norm
from sklearn.linear_model import Ridge
from sklearn.preprocessing import KernelCenterer

from lockstep.bio.datasets import chembl
from lockstep.bio.molecules import fingerprints, tanimoto

from .test_data_and_draws import molecules

ALPHA = 20.0
NOISE = 0.4  # of a reading
OFFSET = 0.5  # of a laboratory
SHARED = 5  # compounds that each laboratory reads


class Series(NamedTuple):
    """Compounds in series of twenty or more."""

    potency: np.ndarray  # float64 [n]
    of: np.ndarray  # int64 [n], which series
    kernel: np.ndarray  # float64 [n, n]: fingerprints' common bits
    near: np.ndarray  # float64 [n, n]: their Tanimoto similarity


@cache
def series(target: str) -> Series:
    smiles, values = chembl().of(target)
    packed = fingerprints(molecules(smiles))
    near = tanimoto(packed, packed)
    apart = 1 - near[np.tril_indices(len(smiles), -1)]
    found = Butina.ClusterData(
        apart, len(smiles), 0.6, isDistData=True, reordering=True
    )
    large = [list(one) for one in found if len(one) >= 20]
    rows = np.concatenate(large)
    bits = np.unpackbits(packed[rows], axis=1).astype(float)
    return Series(
        values[rows].astype(float),
        np.repeat(np.arange(len(large)), [len(one) for one in large]),
        bits @ bits.T,
        near[np.ix_(rows, rows)].astype(float),
    )


def ridge(
    own: np.ndarray, other: np.ndarray, y: np.ndarray, alpha: float = ALPHA
) -> np.ndarray:
    """Predictions of ridge regressions with a constant, a column of `y` each.

    Args:
        own: [train, train], scalar products.
        other: [test, train].
        y: [train, k].
    """
    centered = KernelCenterer().fit(own)
    solved = np.linalg.solve(
        centered.transform(own) + alpha * np.eye(len(own)), y - y.mean(0)
    )
    return y.mean(0) + centered.transform(other) @ solved


def test_it_is_ridge_regression() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 90)) + 1, rng.normal(size=(40, 2)) + 3
    a, b = x[:30], x[30:]
    right = Ridge(ALPHA).fit(a, y[:30]).predict(b)
    assert ridge(a @ a.T, b @ a.T, y[:30]) == pytest.approx(right)


class Score(NamedTuple):
    """Of held-out compounds of all laboratories, by their true potency."""

    error: float  # RMSE of one list, a constant of the list left free
    within: float  # Spearman in each laboratory, the mean
    top: float  # share of the best tenth among the first tenth


def ranks(x: np.ndarray) -> np.ndarray:
    return x.argsort(kind="stable").argsort(kind="stable").astype(float)


def score(guess: np.ndarray, truth: np.ndarray, lab: np.ndarray) -> Score:
    error = (guess - guess.mean() - truth + truth.mean()).std()
    each = [
        np.corrcoef(ranks(guess[lab == one]), ranks(truth[lab == one]))[0, 1]
        for one in np.unique(lab)
        if (lab == one).sum() > 4
    ]
    few = len(truth) // 10
    best = np.argsort(-truth, kind="stable")[:few]
    first = np.argsort(-guess, kind="stable")[:few]
    top = len(np.intersect1d(best, first)) / few
    return Score(float(error), float(np.mean(each)), top)


def one(
    data: Series,
    seed: int,
    labs: int | None = None,
    offset: float = OFFSET,
    shared: int = SHARED,
    whole: bool = True,
    alike: bool = False,
    free: bool = False,
) -> dict[str, Score]:
    """Each way's score.

    Args:
        labs: how many laboratories; or one for each series.
        shared: compounds that every laboratory reads.
        whole: a series lies in one laboratory; or compounds at random.
        alike: similarity in place of common bits.
        free: with the column that has no penalty, too.
    """
    rng = np.random.default_rng(seed)
    count, n = int(data.of.max()) + 1, len(data.of)
    labs = labs or count
    dealt = np.empty(count, int)
    dealt[rng.permutation(count)] = np.arange(count) % labs
    lab = dealt[data.of] if whole else rng.integers(labs, size=n)
    off = offset * rng.standard_normal(labs)
    read = data.potency + off[lab] + NOISE * rng.standard_normal(n)
    # Each laboratory's mean of the shared compounds, against all's.
    known = off + NOISE * rng.standard_normal((shared, labs)).mean(0)
    test = rng.random(n) < 0.2
    a, b = np.flatnonzero(~test), np.flatnonzero(test)
    mean = np.array([read[a][lab[a] == one].mean() for one in range(labs)])

    kernel, alpha = (data.near, 0.3) if alike else (data.kernel, ALPHA)
    own, other = kernel[np.ix_(a, a)], kernel[np.ix_(b, a)]
    y = np.c_[read, read - mean[lab], read - (known - known.mean())[lab]]
    found = ridge(own, other, np.c_[y, data.potency][a], alpha).T
    # A column for each laboratory; all are 0 for what is predicted.
    same = (lab[a][:, None] == lab[a]) * (0.02 if alike else 1.0)
    column = ridge(own + same, other, y[a, :1], alpha)[:, 0]
    heads = np.empty(len(b))
    for at in np.unique(lab[b]):
        i, j = lab[a] == at, lab[b] == at
        inner, outer = own[np.ix_(i, i)], other[np.ix_(j, i)]
        heads[j] = ridge(inner, outer, y[a][i, :1], alpha)[:, 0]
    guesses = {
        "pooled": found[0],
        "centered": found[1],
        "column": column,
        "shared": found[2],
        "heads": heads,
        "back": found[1] + mean[lab[b]],  # centered, and its mean added again
        "exact": found[3],  # without offset and noise
    }
    if free:  # the column without a penalty, nearly
        guess = ridge(own + 1000 * same, other, y[a, :1], alpha)
        guesses["free"] = guess[:, 0]
    truth, where = data.potency[b], lab[b]
    return {way: score(one, truth, where) for way, one in guesses.items()}


class Found(NamedTuple):
    """Of a way, over seeds."""

    mean: Score
    more: float  # error beyond that of pooling
    doubt: float  # of `more`: standard error of the seeds' differences


def found(data: Series, seeds: int = 4, **other: Any) -> dict[str, Found]:
    runs = [one(data, seed, **other) for seed in range(seeds)]
    told = {}
    for way in runs[0]:
        mean = Score(*np.mean([run[way] for run in runs], 0))
        more = [run[way].error - run["pooled"].error for run in runs]
        doubt = np.std(more, ddof=1) / seeds**0.5
        told[way] = Found(mean, float(np.mean(more)), float(doubt))
    return told


def errors(of: dict[str, Found], *ways: str) -> list[float]:
    return [of[way].mean.error for way in ways]


WAYS = ["pooled", "centered", "column", "shared", "heads"]
THROMBIN, FACTOR_XA = "CHEMBL204_Ki", "CHEMBL244_Ki"


@cache
def of_thrombin() -> dict[str, Found]:
    return found(series(THROMBIN), seeds=6, free=True)


def levels(data: Series) -> np.ndarray:
    """Each series' mean potency."""
    return np.bincount(data.of, data.potency) / np.bincount(data.of)


def test_what_is_merged() -> None:
    data = series(THROMBIN)
    assert (len(data.of), data.of.max() + 1) == (2031, 39)
    assert levels(data).std(ddof=1) == pytest.approx(1.1, abs=0.05)
    # A normal error of which 27 % of pairs differ by more than 1.
    reading = 1 / (2**0.5 * norm.isf(0.27 / 2))
    assert reading == pytest.approx(0.64, abs=0.005)
    assert np.hypot(OFFSET, NOISE) == pytest.approx(0.64, abs=0.005)


@pytest.mark.weekly
def test_centring_costs_more_than_the_offsets() -> None:
    told = of_thrombin()
    right = [0.89, 1.24, 0.86, 0.80, 0.93]
    assert errors(told, *WAYS) == pytest.approx(right, abs=0.006)
    assert errors(told, "exact", "free") == pytest.approx(
        [0.77, 1.13], abs=0.006
    )
    for way in WAYS[1:]:
        assert abs(told[way].more) > 3 * told[way].doubt
        assert told[way].doubt < 0.015
    per_cent = [100 * told[way].mean.top for way in ("pooled", "centered")]
    assert per_cent == pytest.approx([52, 41], abs=0.6)
    # Its mean added again brings the offset back.
    assert told["back"].more > 3 * told["back"].doubt


@pytest.mark.weekly
def test_within_laboratories_nothing_is_seen() -> None:
    """Within laboratories, pooling ranks worst, at 0.50, and all ways lie
    within 0.05."""
    told = {way: of_thrombin()[way].mean.within for way in WAYS}
    assert min(told, key=told.__getitem__) == "pooled"
    assert max(told.values()) - min(told.values()) < 0.05
    assert told["pooled"] == pytest.approx(0.50, abs=0.01)


def test_pairs_within_laboratories_are_the_column_without_a_penalty() -> None:
    """Squared differences of pairs, each laboratory's sum divided by twice
    its size, are squares about its means, of features too."""
    rng = np.random.default_rng(0)
    lab = np.repeat([0, 1, 2], [4, 6, 10])
    x, y = rng.normal(size=(20, 30)), rng.normal(size=(20, 1))
    about = np.eye(20) - (lab[:, None] == lab) / np.bincount(lab)[lab]
    residual = rng.normal(size=20)
    pairs = [
        ((residual[lab == i][:, None] - residual[lab == i]) ** 2).sum()
        / (2 * (lab == i).sum())
        for i in range(3)
    ]
    assert sum(pairs) == pytest.approx(((about @ residual) ** 2).sum())
    within = Ridge(ALPHA, fit_intercept=False).fit(about @ x, about @ y)
    own = x @ x.T
    same = 1e6 * (lab[:, None] == lab)
    free = ridge(own + same, own, y)[:, 0]
    apart = free - within.predict(x).ravel()
    assert np.ptp(apart) < 1e-3


@pytest.mark.weekly
def test_it_is_not_this_model_or_target() -> None:
    """Similarity in place of bits; another protease. The order of all but
    heads is the same."""
    alike = found(series(THROMBIN), alike=True)
    other = found(series(FACTOR_XA), seeds=3)
    assert errors(alike, *WAYS) == pytest.approx(
        [0.86, 1.22, 0.81, 0.74, 0.93], abs=0.006
    )
    assert errors(other, *WAYS) == pytest.approx(
        [0.90, 1.46, 0.86, 0.81, 0.88], abs=0.006
    )


@pytest.mark.weekly
def test_it_is_not_the_offsets_that_were_there() -> None:
    """A reading's whole error taken out of the variance of series' means."""
    data = series(THROMBIN)
    own = levels(data)
    spread = own.var(ddof=1)
    less = 1 - ((spread - 0.64**2) / spread) ** 0.5
    potency = data.potency - less * (own[data.of] - data.potency.mean())
    told = found(data._replace(potency=potency))
    assert errors(told, "pooled", "centered") == pytest.approx(
        [0.90, 1.11], abs=0.006
    )


@pytest.mark.weekly
def test_twice_the_offset_is_still_less() -> None:
    told = found(series(THROMBIN), offset=1.0)
    assert errors(told, *WAYS[:4]) == pytest.approx(
        [1.17, 1.25, 1.04, 0.80], abs=0.006
    )
    assert told["centered"].more > 3 * told["centered"].doubt


def test_dealt_at_random_centring_is_right() -> None:
    told = found(series(THROMBIN), whole=False)
    assert errors(told, "pooled", "centered", "shared") == pytest.approx(
        [0.83, 0.79, 0.79], abs=0.006
    )
    assert -told["centered"].more > 3 * told["centered"].doubt


def test_one_shared_compound_is_worth_the_column() -> None:
    told = found(series(THROMBIN), shared=1)
    pooled, column, shared = errors(told, "pooled", "column", "shared")
    assert [pooled, column, shared] == pytest.approx(
        [0.86, 0.82, 0.83], abs=0.006
    )
