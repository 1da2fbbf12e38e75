"""Relatives by a profile search: found below what words and identity find."""

import random

import numpy as np
import pytest

from lockstep.bio.datasets import families, proteome
from lockstep.bio.homology import related, scores
from lockstep.bio.splits import split


def test_a_pairs_score_depends_on_the_pair_alone() -> None:
    """A score is the same whatever else is searched, infinite for equal
    sequences, and 0 without a hit."""
    whole = list(proteome().values())
    one, near = whole[0], whole[0][:60] + whole[1][60:90] + whole[0][90:]
    found = scores([one], [near, whole[2], one])
    assert found[0, 0] > 5
    assert found[0, 1:].tolist() == [0, np.inf]
    assert scores([one], [near])[0, 0] == found[0, 0]
    assert scores(["MK"], ["MK"]) == np.inf  # too short for a profile


def test_relatives_of_relatives_are_one_family() -> None:
    """A chain of two hits joins proteins that share nothing, and a shuffled
    protein is related to none."""
    left, right, other = list(proteome().values())[:3]
    both = left + right
    mixed = "".join(random.Random(0).sample(left, len(left)))
    names = related([left, right, both, mixed, other])
    assert names == [min(left, right, both)] * 3 + [mixed, other]


def test_the_shipped_families_are_found_again() -> None:
    """Of one large family and thirty other proteins."""
    found, genes = families(), [*proteome()]
    large = max({*found}, key=found.count)
    rows = [row for row, one in enumerate(found) if one == large][:8]
    rows += [row for row, one in enumerate(found) if one != large][:8]
    sequences = [proteome()[genes[row]] for row in rows]
    near = scores(sequences, sequences) >= 5
    same = np.array([found[row] for row in rows])
    assert not near[same[:, None] != same].any()
    assert near[:8, :8].sum() > 8  # others of the family join the rest


@pytest.mark.weekly
def test_no_held_out_protein_has_a_homolog_in_training() -> None:
    """All held-out proteins are searched against all of training, and none has
    a hit at an E-value of 1e-5 or below."""
    whole = list(proteome().values())
    parts = split(families(), 0, {"train": 0.9, "test": 0.1})
    train, test = ([whole[row] for row in parts[p]] for p in parts)
    assert scores(test, train).max() < 5
