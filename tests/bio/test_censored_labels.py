"""Labels that are a limit: a loss, and what leaving them out costs."""

import json
import math

import pytest
import torch

from lockstep.bio.labels import bounded, masked_loss
from lockstep.experiments.studies import censored_labels
from lockstep.trainer.process import joined
from tests import ranks

NAN = math.nan
RELATIONS = torch.tensor([[-1, -1, 1, 1, 0, -1]])
VALUES = torch.tensor([[6.0, 6.0, 6.0, 6.0, 6.0, NAN]])
PREDICTED = torch.tensor([[5.0, 7.0, 5.0, 7.0, 5.0, 5.0]])


def test_a_limit_that_is_kept_costs_nothing_and_is_a_label() -> None:
    predicted = PREDICTED.clone().requires_grad_()
    wanted = bounded(predicted, VALUES, RELATIONS)
    loss = masked_loss(predicted, wanted)
    loss.backward()
    assert loss.item() == pytest.approx(3 / 5)  # three are broken, of five
    assert predicted.grad is not None
    signs = predicted.grad.sign().tolist()
    assert signs == [[0, 1, -1, 0, -1, 0]]


def gradient(own: slice) -> float:
    bias = torch.zeros(1, requires_grad=True)
    predicted = PREDICTED[0, own] + bias
    wanted = bounded(predicted, VALUES[0, own], RELATIONS[0, own])
    masked_loss(predicted, wanted).backward()
    assert bias.grad is not None
    return bias.grad.item()


def on_its_rank(parts: list[slice]) -> float:
    with joined(30, ranks.store()) as me:
        return gradient(parts[me.rank])


def test_a_rank_whose_limits_are_all_kept_counts_them() -> None:
    """Rank 0 has one label, a limit that is kept; DDP takes the mean."""
    parts = [slice(0, 1), slice(1, 6)]
    found = ranks.run_ranks(2, on_its_rank, parts)
    assert sum(found) / 2 == pytest.approx(gradient(slice(None)))


# The study


@pytest.mark.weekly
def test_a_small_study_finds_the_same(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(
        censored_labels, "TARGETS", {"CHEMBL204_Ki": "thrombin"}
    )
    file = tmp_path / "censored_labels.json"
    assert censored_labels.run(seeds=1, epochs=4, result=file) == 0
    found = json.loads(file.read_text())
    errors = {
        way: censored_labels.mean(found, way, "below")
        for way in censored_labels.WAYS
    }
    assert errors["limit"] < errors["value"] < errors["left out"]
    assert "| at most 6 |" in file.with_suffix(".md").read_text()


@pytest.fixture(scope="module")
def found():
    return json.loads(censored_labels.RESULT.read_text())


def test_nine_of_ten_are_predicted_above_the_limit(found) -> None:
    broken = censored_labels.mean(found, "left out", "broken")
    assert broken == pytest.approx(0.9, abs=0.05)
    cost = {
        way: censored_labels.mean(found, way, "measured")
        for way in censored_labels.WAYS
    }
    assert 1 < cost["limit"] / min(cost.values()) < 1.1


@pytest.mark.parametrize("target", censored_labels.TARGETS)
def test_what_the_page_says_holds_for_each_target(found, target) -> None:
    """For each target, training on limits as limits is better for weak
    molecules than taking them as values, which is better than leaving them out.
    A score of measured values alone tells none of the ways apart."""

    def of(what: str, *ways: str) -> list[float]:
        return [censored_labels.mean(found, way, what, target) for way in ways]

    # Weak molecules: using the limit is best, and a sign that was not turned
    # is no better than leaving them out.
    truth, limit, value, out, flipped = of(
        "below", "truth", "limit", "value", "left out", "flipped"
    )
    assert truth < limit < value < out
    assert flipped > 0.95 * out
    # What was measured does not tell the ways apart.
    others = of("measured", "left out", "value", "limit", "flipped")
    assert max(others) - min(others) < 0.1
    # Limits that are broken need no truth, and tell.
    broken = of("broken", "limit", "value", "left out")
    assert broken == sorted(broken)
