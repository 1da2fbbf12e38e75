"""Scores of a ranking, with ties handled and padding removed.

Tied scores have no order, so a metric that reads an order takes its expected
value over all of theirs. Which way a sort happens to break them cannot count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil

import numpy as np
import torch
import torch.distributed as dist

Actives = np.ndarray  # bool [molecules]
Scores = np.ndarray  # float [molecules], higher is better


# --8<-- [start:expected]
def expected_hits(actives: Actives, scores: Scores) -> np.ndarray:
    """Return the chance that each place of the ranking holds an active, float64
    [molecules], the best first: within a tie, the share of its actives.

    Raises:
        ValueError: shapes differ, a score is NaN, or all are of one class.
    """
    actives, scores = np.asarray(actives, bool), np.asarray(scores)
    if actives.ndim != 1 or actives.shape != scores.shape:
        raise ValueError(f"{actives.shape} labels, {scores.shape} scores")
    if np.isnan(scores).any():
        raise ValueError(f"{np.isnan(scores).sum()} scores are NaN: no ranking")
    if actives.all() or not actives.any():
        raise ValueError("one class only: no ranking separates it")
    _, tie, sizes = np.unique(-scores, return_inverse=True, return_counts=True)
    return np.repeat(np.bincount(tie, actives) / sizes, sizes)


def roc_auc(actives: Actives, scores: Scores) -> float:
    """Return the chance that an active leads an inactive; a tie is half."""
    hits = expected_hits(actives, scores)
    n, found = len(hits), hits.sum()
    behind = (n - np.arange(1, n + 1)) @ hits - found * (found - 1) / 2
    return float(behind / (found * (n - found)))


def bedroc(actives: Actives, scores: Scores, alpha: float = 20.0) -> float:
    """Early recognition in [0, 1] (Truchon and Bayly 2007, equation 36); the
    first 8 % of the ranking are 80 % of it at alpha 20."""
    hits = expected_hits(actives, scores)
    n, found = len(hits), hits.sum()
    weights = np.exp(-alpha * np.arange(1, n + 1) / n)
    most = round(found)
    first, last = weights[:most].sum(), weights[-most:].sum()
    return float((weights @ hits - last) / (first - last))


def enrichment(actives: Actives, scores: Scores, fraction: float) -> float:
    """Divide the actives among the first ceil(fraction · n) by those expected
    in a random order; at most 1 / fraction."""
    hits = expected_hits(actives, scores)
    if not 0 < fraction <= 1:
        raise ValueError(f"{fraction=} is not in (0, 1]")
    taken = ceil(Fraction(str(float(fraction))) * len(hits))  # 0.07 is 7 %
    return float(hits[:taken].mean() / hits.mean())


# --8<-- [end:expected]
def pr_auc(actives: Actives, scores: Scores) -> float:
    """Average precision: precision where a tie ends, weighed by the recall that
    the tie adds, as scikit-learn's. A constant score has the share of actives.
    """
    hits = expected_hits(actives, scores)
    found = hits.cumsum()
    descending = np.sort(scores)[::-1]
    ends = np.flatnonzero(np.append(descending[1:] != descending[:-1], True))
    gained = np.diff(found[ends], prepend=0.0)
    return float((found[ends] / (ends + 1)) @ gained / found[-1])


# --8<-- [start:gather]
def gather(
    ids: np.ndarray, actives: Actives, scores: Scores, total: int
) -> tuple[Actives, Scores]:
    """Every sample once, in order of id, on every rank: bool and float64
    [total]. What a sampler repeated to make shares equal is left out.

    Args:
        ids: int64 [here], of this rank's samples; ranks may hold unequal parts.
        total: samples of the set, with ids from 0.

    Raises:
        ValueError: an id is missing, or is none, or has two labels.
    """
    rows = np.column_stack([ids, actives, scores]).astype(np.float64)
    if dist.is_initialized():
        rows = _all_rows(rows)
    found, first = np.unique(rows[:, 0], return_index=True)
    if not np.array_equal(found, np.arange(total)):
        raise ValueError(f"{len(found)} of {total} samples were scored")
    once = rows[first]
    if (once[rows[:, 0].astype(int), 1] != rows[:, 1]).any():
        raise ValueError("a sample has another label on another rank")
    return once[:, 1].astype(bool), once[:, 2]


def _all_rows(rows: np.ndarray) -> np.ndarray:
    """float64 [rows of all ranks, columns], the ranks in order."""
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    mine = torch.from_numpy(rows).to(device)
    count = torch.tensor([len(mine)], device=device)
    counts = [torch.zeros_like(count) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, count)
    most = max(int(here) for here in counts)
    padded = mine.new_zeros(most, mine.shape[1])
    padded[: len(mine)] = mine
    parts = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(parts, padded)
    held = zip(parts, counts, strict=True)
    return torch.cat([part[: int(n)] for part, n in held]).cpu().numpy()


# --8<-- [end:gather]
# --8<-- [start:bootstrap]
def draws(actives: Actives, times: int, seed: int) -> Iterator[np.ndarray]:
    """Draw samples with replacement, int64 [molecules] each: as many actives as
    there are, so that every draw has a ranking to score."""
    rng = np.random.default_rng(seed)
    classes = [np.flatnonzero(actives), np.flatnonzero(~actives)]
    for _ in range(times):
        drawn = [rng.choice(of, len(of)) for of in classes]
        yield np.concatenate(drawn)


def interval(
    metric: Callable[[Actives, Scores], float],
    actives: Actives,
    scores: Scores,
    times: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[float, float]:
    """Return the middle `level` of the metric over draws (percentile
    bootstrap).

    To compare two models, take the interval of their difference over the same
    draws: two intervals that overlap do not say that models are equal.
    """
    found = [metric(actives[i], scores[i]) for i in draws(actives, times, seed)]
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


# --8<-- [end:bootstrap]
