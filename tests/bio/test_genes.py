"""A choice of genes: what it has seen, and whether ranks agree on it."""

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import ttest_ind

from lockstep.bio import genes
from lockstep.bio.genes import (
    KEPT,
    apparent,
    by_label,
    moments,
    shared,
    top,
    variable,
)
from lockstep.bio.sparse_rows import synthetic
from lockstep.trainer.process import joined
from tests import ranks


@pytest.fixture(scope="module")
def scores() -> dict[str, float]:
    found = [apparent(seed) for seed in range(6)]
    return {name: np.mean([one[name] for one in found]) for name in found[0]}


def test_labels_seen_before_the_split_score_on_data_without_signal(
    scores,
) -> None:
    """On data without any signal, genes chosen by label on all rows score above
    0.7. Chosen on the training rows alone they score 0.5, as chance does."""
    assert scores["by label, all rows"] > 0.7
    assert abs(scores["by label, training"] - 0.5) < 0.15


def test_variance_sees_no_labels(scores) -> None:
    assert abs(scores["by variance, all rows"] - 0.5) < 0.15
    assert abs(scores["by variance, training"] - 0.5) < 0.15


def test_the_label_is_found_where_there_is_signal() -> None:
    """Or a choice that finds nothing anywhere would pass."""
    counts = synthetic(200, 500, 1).toarray()
    labels = np.arange(200) % 2 == 0
    counts[labels, :KEPT] += 3
    assert by_label(sparse.csr_array(counts), labels).tolist() == [*range(KEPT)]


def test_genes_by_label_are_those_of_welchs_test() -> None:
    counts = synthetic(120, 400, 2)
    labels = np.arange(120) % 3 == 0
    dense = counts.toarray()
    t = ttest_ind(dense[labels], dense[~labels], equal_var=False).statistic
    t = np.abs(np.nan_to_num(t))  # some are equal, so which are kept may differ
    ours, theirs = (np.sort(t[k]) for k in (by_label(counts, labels), top(t)))
    assert np.allclose(ours, theirs)


def test_moments_are_those_of_the_dense_rows() -> None:
    counts = synthetic(80, 300, 3)
    dense = counts.toarray().astype(float)
    sums = moments(counts)
    assert np.allclose(sums, [dense.sum(0), (dense**2).sum(0)])
    mean, spread = dense.mean(0), dense.var(0)
    ratio = np.divide(spread, mean, out=np.zeros(300), where=mean > 0)
    assert variable(sums, 80).tolist() == top(ratio).tolist()


def on_rank(world: int) -> list[int]:
    counts = synthetic(80, 300, 3)
    with joined(60, ranks.store()) as me:
        return variable(moments(counts[me.rank :: world]), 80).tolist()


def test_ranks_that_add_their_moments_choose_as_one() -> None:
    """Two ranks that add up their genes' moments choose the same genes as one
    process does."""
    alone = variable(moments(synthetic(80, 300, 3)), 80).tolist()
    assert ranks.run_ranks(2, on_rank, 2) == [alone] * 2


def test_ranks_that_choose_alone_differ_in_tensors_of_one_shape() -> None:
    assert shared(1, 400, 500) == KEPT
    assert shared(4, 400, 500) < KEPT - 5


def test_scores_are_printed(monkeypatch, capsys) -> None:
    monkeypatch.setattr(genes, "apparent", lambda seed: {"by": seed / 20})
    monkeypatch.setattr(genes, "shared", lambda ranks: 100 + ranks)
    genes.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["by", "0.47", "0.00", "0.95"]
    assert lines[-1] == "8 ranks share 108"
