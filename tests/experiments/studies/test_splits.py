"""The recorded study is whole, and the page's claims follow from it."""

import json

import numpy as np
import pytest

from lockstep.bio.datasets import chembl
from lockstep.bio.leakage import NEAR
from lockstep.experiments.studies import splits as study
from lockstep.site.pages import pictures

FOUND = json.loads(study.RESULT.read_text())


def of(way: str, what: str) -> list[float]:
    return [seed[what] for seed in FOUND["ways"][way]["seeds"]]


def test_it_is_whole() -> None:
    assert FOUND["molecules"] == len(chembl().of(study.TARGET)[0])
    assert FOUND["settings"]["trees"] == study.TREES
    assert {*FOUND["ways"]} == {*study.WAYS}
    assert FOUND["revision"]
    for way in study.WAYS:
        seeds = FOUND["ways"][way]["seeds"]
        assert len(seeds) == study.SEEDS
        for seed in seeds:
            again = 1 - (seed["rmse"] / seed["spread"]) ** 2
            assert seed["r2"] == pytest.approx(again)
            assert np.all(np.diff(seed["near"]) <= 0)
            at = round(NEAR * (len(study.LEVELS) - 1))
            assert seed["near"][at] == pytest.approx(seed["neighbors"])


def test_fewer_neighbors_more_error() -> None:
    """In the recorded study the error rises as fewer test molecules have a near
    neighbor in training, by two fifths from the first way to split to the last,
    and R² falls from each way to the next."""
    order = [*study.WAYS]
    errors = [study.mean(FOUND, way, "rmse") for way in order]
    scores = [study.mean(FOUND, way, "r2") for way in order]
    near = [study.mean(FOUND, way, "neighbors") for way in order]
    assert errors[0] < errors[1] < min(errors[2:])
    assert scores == sorted(scores, reverse=True)
    assert near == sorted(near, reverse=True)
    assert round(near[order.index("scaffold")], 2) == 0.83
    # "error rises by two fifths"
    assert errors[-1] / errors[0] == pytest.approx(1.43, abs=0.02)
    # Labels of the last way's test sets lie closest together.
    spread = [study.mean(FOUND, way, "spread") for way in order]
    assert min(spread) == spread[-1]


def test_clusters_leave_half_of_the_molecules_a_neighbor() -> None:
    """In the recorded study at least 45 % of test molecules keep a near
    neighbor in training under clustering, and none under connected
    components."""
    assert min(of("butina", "neighbors")) > 0.45
    assert max(of("component", "neighbors")) == 0
    assert FOUND["ways"]["component"]["pinned"] == 1
    assert FOUND["ways"]["component"]["largest"] == 627


def test_r2_falls_by_a_third_while_the_error_falls_too() -> None:
    """Two seeds of one way to split."""
    high, low = study.apart(FOUND, "butina")
    rmse, spread, r2 = (of("butina", k) for k in ("rmse", "spread", "r2"))
    assert rmse[low] < rmse[high]
    assert spread[low] < 0.85 * spread[high]
    assert r2[low] < 0.7 * r2[high]


def test_a_refit_moves_molecules_and_kept_centers_none() -> None:
    """In the recorded study clusters that are found again move 119 of 2,419
    molecules, and kept centers move none. Of 81 later molecules beyond all
    centers, nine of 17 in the test set have a near neighbor in training, and
    nine of eleven if each is a group."""
    moved = FOUND["moved"]
    assert moved["found anew"] == 119
    assert (moved["before"], moved["later"]) == (2419, 335)
    assert moved["centers kept"] == 0
    assert (moved["beyond"], moved["series"]) == (81, 39)
    assert moved["near"]["centers kept"] == [9, 17]
    assert moved["near"]["alone"] == [9, 11]


def test_the_tables_are_the_results(tmp_path) -> None:
    copy = tmp_path / "splits.json"
    copy.write_text(study.RESULT.read_text())
    study.render(copy)
    shown = study.RESULT.with_suffix(".md").read_text()
    assert copy.with_suffix(".md").read_text() == shown
    assert f"{study.mean(FOUND, 'random', 'rmse'):.2f}" in shown


def test_the_chart_is_the_result() -> None:
    drawn = pictures.neighbors()
    assert [*pictures.KEPT] == [*study.WAYS]
    (row,) = [one for one in drawn.table if one[0] == f"{NEAR:.2f}"]
    shares = [study.mean(FOUND, way, "neighbors") for way in study.WAYS]
    assert row[1:] == [pictures.percent(one) for one in shares]


@pytest.mark.slow
def test_a_study_of_few_molecules(tmp_path, monkeypatch) -> None:
    """Each part runs; scaffolds of so few hold a component that is pinned."""
    smiles, values = chembl().of(study.TARGET)
    few = smiles[:90]
    monkeypatch.setattr(study, "chembl", lambda: Few(few, values[:90]))
    study.run(seeds=1, trees=5, result=tmp_path / "splits.json")
    found = json.loads((tmp_path / "splits.json").read_text())
    for way in study.WAYS:
        (seed,) = found["ways"][way]["seeds"]
        assert 0 < seed["test"] < 90
        assert 0 < seed["rmse"] < 5
    assert found["ways"]["component"]["seeds"][0]["neighbors"] == 0
    assert found["moved"]["centers kept"] == 0


class Few:
    """A table of one column."""

    def __init__(self, smiles: list[str], values: np.ndarray) -> None:
        self.smiles, self.values = smiles, values

    def of(self, _: str) -> tuple[list[str], np.ndarray]:
        return self.smiles, self.values


def test_scores_are_those_of_scikit_learn() -> None:
    from sklearn.metrics import r2_score, root_mean_squared_error

    rng = np.random.default_rng(0)
    truth = rng.normal(6, 1, 50)
    guess = truth + rng.normal(0, 0.5, 50)
    found = study.scores(truth, guess)
    assert found["r2"] == pytest.approx(r2_score(truth, guess))
    assert found["rmse"] == pytest.approx(root_mean_squared_error(truth, guess))
