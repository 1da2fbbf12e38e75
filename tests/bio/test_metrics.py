"""Scores of a ranking, against RDKit's, scikit-learn's and every order."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rdkit.ML.Scoring.Scoring import CalcBEDROC, CalcEnrichment
from sklearn.metrics import average_precision_score, roc_auc_score

from lockstep.bio import metrics
from lockstep.bio.metrics import (
    bedroc,
    draws,
    enrichment,
    expected_hits,
    gather,
    interval,
    pr_auc,
    roc_auc,
)
from lockstep.experiments.studies import screening_metrics
from lockstep.trainer.process import joined
from tests import ranks

Case = tuple[np.ndarray, np.ndarray]


@st.composite
def rankings(draw: Any, tied: bool) -> Case:
    n = draw(st.integers(2, 6 if tied else 40))
    actives = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    assume(actives.any() and not actives.all())
    values = st.integers(0, 2) if tied else st.integers(-999, 999)
    scores = draw(st.lists(values, min_size=n, max_size=n, unique=not tied))
    return actives, np.array(scores, float)


def by_rdkit(actives: np.ndarray, order: np.ndarray) -> tuple[float, float]:
    """BEDROC and the enrichment of a third, of one order."""
    table = [[bool(active)] for active in actives[order]]
    # It hands over no value for a fraction that ends with the table.
    found = CalcEnrichment(table, 0, [0.3])
    return CalcBEDROC(table, 0, 20.0), found[0] if found else 1.0


@given(rankings(tied=False))
@settings(deadline=None, max_examples=60)
def test_without_ties_they_are_the_libraries(case: Case) -> None:
    actives, scores = case
    early, top = by_rdkit(actives, np.argsort(-scores))
    assert bedroc(actives, scores) == pytest.approx(early, abs=1e-9)
    assert enrichment(actives, scores, 0.3) == pytest.approx(top)
    assert roc_auc(actives, scores) == pytest.approx(
        roc_auc_score(actives, scores)
    )
    assert pr_auc(actives, scores) == pytest.approx(
        average_precision_score(actives, scores)
    )


@given(rankings(tied=True))
@settings(deadline=None, max_examples=40)
def test_with_ties_they_are_the_mean_over_all_orders(case: Case) -> None:
    """With ties, each metric equals its mean over all orders that the scores
    allow, for up to six molecules."""
    actives, scores = case
    orders = [
        np.array(order)
        for order in permutations(range(len(scores)))
        if (np.diff(scores[list(order)]) <= 0).all()
    ]
    early, top = np.mean([by_rdkit(actives, order) for order in orders], 0)
    assert bedroc(actives, scores) == pytest.approx(early, abs=1e-9)
    assert enrichment(actives, scores, 0.3) == pytest.approx(top)
    assert roc_auc(actives, scores) == pytest.approx(
        roc_auc_score(actives, scores)
    )
    assert pr_auc(actives, scores) == pytest.approx(
        average_precision_score(actives, scores)
    )


def test_bounds_are_reached() -> None:
    actives = np.arange(100) < 5
    best, worst = -np.arange(100.0), np.arange(100.0)
    assert bedroc(actives, best) == pytest.approx(1)
    assert bedroc(actives, worst) == pytest.approx(0)
    assert roc_auc(actives, best) == 1
    assert roc_auc(actives, worst) == 0
    assert pr_auc(actives, best) == 1
    assert enrichment(actives, best, 0.05) == pytest.approx(20)
    assert enrichment(actives, worst, 1.0) == pytest.approx(1)


def test_what_has_no_ranking_is_refused() -> None:
    scores = np.array([0.1, np.nan])
    with pytest.raises(ValueError, match="1 scores are NaN"):
        expected_hits(np.array([True, False]), scores)
    for actives in (np.ones(2, bool), np.zeros(2, bool)):
        with pytest.raises(ValueError, match="one class only"):
            roc_auc(actives, np.arange(2.0))
    with pytest.raises(ValueError, match="labels"):
        pr_auc(np.ones(3, bool), np.arange(2.0))
    with pytest.raises(ValueError, match="fraction"):
        enrichment(np.array([True, False]), np.arange(2.0), 0)


# Across ranks


def scored(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.random(n) < 0.3, rng.normal(size=n)


def gathered(n: int, empty: bool) -> tuple[float, int]:
    """Rank by rank what torch's sampler deals; or all to the last rank."""
    from torch.utils.data import DistributedSampler

    actives, scores = scored(n)
    with joined(30, ranks.store()) as me:
        sampler: Any = DistributedSampler(range(n), shuffle=True)  # type: ignore
        ids = np.array(list(sampler))
        if empty:
            last = me.rank + 1 == me.world_size
            ids = np.arange(n if last else 0)
        found = gather(ids, actives[ids], scores[ids], n)
        assert np.array_equal(found[0], actives)
        assert np.array_equal(found[1], scores)
        return pr_auc(*found), len(ids)


@pytest.mark.parametrize("empty", [False, True])
def test_ranks_find_the_score_of_one_process(empty: bool) -> None:
    """101 samples are 102 on two ranks that pad, 102 on three."""
    for world in (2, 3):
        found = ranks.run_ranks(world, gathered, 101, empty)
        assert {score for score, _ in found} == {pr_auc(*scored(101))}
        assert sum(n for _, n in found) == (101 if empty else 102)


def test_what_is_missing_or_at_odds_is_said() -> None:
    actives, scores = scored(5)
    ids = np.arange(5)
    with pytest.raises(ValueError, match="4 of 5 samples were scored"):
        gather(ids[1:], actives[1:], scores[1:], 5)
    twice = np.append(ids, 0)
    with pytest.raises(ValueError, match="another label"):
        gather(twice, np.append(actives, ~actives[0]), scores[twice], 5)
    one = gather(twice, actives[twice], scores[twice], 5)
    assert np.array_equal(one[1], scores)


# Intervals


def test_draws_keep_the_classes_and_the_seed() -> None:
    actives, _ = scored(50)
    once = [draw.tolist() for draw in draws(actives, 5, seed=1)]
    assert once == [draw.tolist() for draw in draws(actives, 5, seed=1)]
    assert once != [draw.tolist() for draw in draws(actives, 5, seed=2)]
    for draw in once:
        assert actives[draw].sum() == actives.sum()
        assert len(set(draw)) < len(draw)


def test_an_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    """The interval contains the true ROC-AUC of 0.760 in at least 51 of 60
    draws of normal scores one deviation apart."""
    rng, held = np.random.default_rng(0), 0
    actives = np.arange(120) < 40
    for trial in range(60):
        scores = rng.normal(size=120) + actives
        low, high = interval(roc_auc, actives, scores, times=80, seed=trial)
        held += low < 0.7602 < high
    assert 51 <= held <= 60


# The screens


def test_an_equal_roc_auc_hides_the_top() -> None:
    """Two screens have the same ROC-AUC. In the top 1 % one has 14 times as
    many actives as the other, and 50 times its PR-AUC."""
    rows = screening_metrics.rows()
    one, other, constant = rows["a"], rows["b"], rows["constant"]
    assert one[0] == pytest.approx(other[0], abs=5e-4)  # ROC-AUC
    actives, _ = screening_metrics.screen()
    top = actives.sum() * 0.01  # of an enrichment of 1, in actives
    assert one[3] * top == pytest.approx(14)  # EF1%
    assert other[3] * top == pytest.approx(1)
    assert one[1] > 50 * other[1]  # PR-AUC
    assert constant == pytest.approx([0.5, 0.002, 0.0511, 1], abs=1e-3)


def test_a_constant_score_is_perfect_in_the_order_of_the_file() -> None:
    assert screening_metrics.listed_first() == pytest.approx(1, abs=1e-9)
    actives, _ = screening_metrics.screen()
    assert bedroc(actives, np.zeros(len(actives))) < 0.06


def test_the_mean_of_ranks_scores_is_another_number() -> None:
    actives, scores = screening_metrics.screen()
    given = scores["b"]
    truth = pr_auc(actives, given)
    assert screening_metrics.mean_by_rank(actives, given, 1) == pytest.approx(
        truth
    )
    as_zero = screening_metrics.mean_by_rank(actives, given, 64)
    left_out = screening_metrics.mean_by_rank(actives, given, 64, np.nan)
    assert left_out > as_zero > 4 * truth
    assert left_out > 10 * truth


def test_the_study_prints_its_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        screening_metrics,
        "interval",
        lambda *args, times: metrics.interval(*args, 3),
    )
    screening_metrics.main()
    assert "EF1% of a" in capsys.readouterr().out


def test_a_share_that_is_a_whole_number_of_molecules_takes_that_many() -> None:
    """0.07 · 100 is 7.000000000000001 in float64, and seven are taken."""
    actives = np.arange(100) < 7
    scores = -np.arange(100.0)
    assert enrichment(actives, scores, 0.07) == pytest.approx(1 / 0.07)
    assert enrichment(actives, scores, 0.071) == pytest.approx(7 / 8 / 0.07)
