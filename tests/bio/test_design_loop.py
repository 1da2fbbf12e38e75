"""The design loop, on a made-up landscape; and what was recorded on GB1."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from lockstep.bio.design_loop import (
    ALPHABET,
    ARMS,
    Assay,
    Ensemble,
    Loop,
    consensus,
    mutations,
    rank,
)
from lockstep.experiments.studies import design_loop as study

WILD = "MKVLAT"
FOUND = json.loads(study.RESULT.read_text())


def mutants() -> list[str]:
    """All single and double mutants of six places and twenty residues."""
    singles = [
        WILD[:p] + r + WILD[p + 1 :]
        for p in range(6)
        for r in ALPHABET
        if r != WILD[p]
    ]
    doubles = {
        one[:p] + r + one[p + 1 :]
        for n, one in enumerate(singles)
        for p in range(n // 19 + 1, 6)
        for r in ALPHABET
        if r != WILD[p]
    }
    return [*singles, *sorted(doubles)]


POOL = mutants()
X = mutations(POOL, WILD)
EFFECTS = np.random.default_rng(7).normal(-1, 1, X.shape[1])
TRUTH = X @ EFFECTS
SMALL = Loop(rounds=4, wells=96, held=20, controls=4, top=100)


def test_the_wild_type_is_what_mutants_have_in_common() -> None:
    assert consensus(POOL) == WILD
    with pytest.raises(ValueError, match=r"lengths \[2, 3\]"):
        consensus(["AC", "ACD"])


def test_a_variant_is_its_mutations() -> None:
    x = mutations([WILD, "MKVLAC", "AKVLAC"], WILD).toarray()
    assert x.sum(1).tolist() == [0, 1, 2]
    assert x[1, 100 + ALPHABET.index("C")] == x[2, ALPHABET.index("A")] == 1
    with pytest.raises(ValueError, match="'B' is no residue"):
        mutations(["BKVLAT"], WILD)


def test_what_is_additive_is_learned_and_doubt_is_where_nothing_is_known():
    """A ridge ensemble ranks what it has seen almost perfectly. For a mutation
    that no member saw, its error is ten times larger and its spread is less
    than half of that error."""
    rng = np.random.default_rng(0)
    seen = rng.random(len(POOL)) < 0.5
    seen &= np.asarray(X[:, ALPHABET.index("W")].todense()).ravel() == 0
    model = Ensemble(ridge=0.1)
    model.fit(X[seen], TRUTH[seen], rng)
    mean, doubt = model.predict(X)
    assert rank(mean[seen], TRUTH[seen]) > 0.99
    # No member has seen the mutation, so that none can doubt its effect: the
    # spread of an ensemble is not the error of what it never saw.
    new = np.asarray(X[:, ALPHABET.index("W")].todense()).ravel() == 1
    error = np.abs(mean - TRUTH)
    assert error[new].mean() > 10 * error[seen].mean()
    assert doubt[new].mean() < error[new].mean() / 2


def test_a_campaign_follows_from_its_seed() -> None:
    one, other = (SMALL.run("ucb", X, TRUTH, seed=s) for s in (3, 3))
    assert one == other != SMALL.run("ucb", X, TRUTH, seed=4)


def test_among_equals_chance_decides() -> None:
    """And no sort: which of them it puts first depends on the processor."""
    alike = csr_matrix((1000, 20))
    place = np.arange(1000) / 1000
    loop = Loop(rounds=2, wells=80, held=10, controls=4, top=10)
    picked = loop.run("greedy", alike, place)[-1].true
    assert picked == pytest.approx(0.5, abs=0.15)  # four standard errors
    assert loop.run("greedy", alike, place)[-1].true == picked


def test_a_model_finds_more_than_chance() -> None:
    found = {arm: SMALL.run(arm, X, TRUTH)[-1].hits for arm in ARMS}
    assert found["greedy"] > 2 * found["random"]
    assert found["ucb"] > 2 * found["random"]


def test_what_is_picked_by_the_model_says_less_of_it_than_chance_does() -> None:
    """Picks are alike by its own judgment: little is left to rank."""
    told = SMALL.run("greedy", X, TRUTH)[1:]
    assert all(one.picked < one.held for one in told)
    assert all(abs(one.held - one.unseen) < 0.25 for one in told)


def test_wild_type_wells_take_a_drift_away() -> None:
    """With wild-type wells on each plate, a campaign with drift reads what the
    steady campaign reads. Without them the readout rises by 6 while nothing got
    better."""
    drifting = Assay(drift=2.0)
    raw = Assay(drift=2.0, corrected=False)
    steady, corrected, read = (
        SMALL.run("random", X, TRUTH, assay)
        for assay in (Assay(), drifting, raw)
    )
    assert [one.read for one in corrected] == pytest.approx(
        [one.read for one in steady]
    )
    # Nothing got better, and the readout says that it did, plate by plate.
    assert read[-1].true == steady[-1].true
    assert read[-1].read - read[-1].true == pytest.approx(6, abs=0.3)


def test_rounding_picks_nothing() -> None:
    """A drift that was taken away leaves readouts that differ by rounding."""
    for seed in range(12):
        steady, corrected = (
            [one.true for one in SMALL.run("greedy", X, TRUTH, assay, seed)]
            for assay in (Assay(), Assay(drift=1.0))
        )
        assert corrected == steady


def test_what_cannot_be_run_is_refused() -> None:
    with pytest.raises(ValueError, match="set controls to 1 or more"):
        Loop(rounds=1, wells=40, controls=0).run("random", X, TRUTH)
    with pytest.raises(ValueError, match="take fewer rounds or wells"):
        Loop(rounds=10).run("random", X[:100], TRUTH[:100])


# What the page says of GB1


def last(assay: str, arm: str, what: str) -> float:
    return study.last(FOUND["assays"][assay][arm], what)[0]


def test_more_hits_go_with_a_lower_score() -> None:
    """In the recorded study both ways to pick by the model find 17 times as
    many hits as chance, and their models rank unseen variants worse by more
    than 0.1 than the model of randomly picked ones."""
    hits, unseen = (
        {arm: last("steady", arm, what) for arm in ARMS}
        for what in ("hits", "unseen")
    )
    for arm in ("greedy", "ucb"):
        assert round(hits[arm] / hits["random"]) == 17
        assert unseen[arm] < unseen["random"] - 0.1
        assert last("steady", arm, "picked") < last("steady", arm, "held")
        assert abs(last("steady", arm, "held") - unseen[arm]) < 0.05


def test_a_drift_reads_as_progress() -> None:
    """With plates that drift and no correction, wells that were picked at
    random seem to improve by more than 5. With the correction, what is read and
    what is true agree, and the campaign is the steady one."""
    assert last("drifts, as read", "random", "read") > 5 + last(
        "drifts, as read", "random", "true"
    )
    for arm in ARMS:
        fixed = [last("drifts, corrected", arm, w) for w in ("read", "true")]
        assert fixed[0] == pytest.approx(fixed[1], abs=0.2)
        steady, corrected = (
            [
                [one["hits"] for one in rounds]
                for rounds in FOUND["assays"][a][arm]
            ]
            for a in ("steady", "drifts, corrected")
        )
        assert corrected == steady


def test_what_a_drift_costs_in_hits_five_seeds_do_not_show() -> None:
    """In the recorded study an uncorrected drift costs the greedy campaign hits
    with four of five seeds, but the largest gain is larger than the largest
    loss, so five seeds do not show a cost."""
    lost = {
        arm: [
            right[-1]["hits"] - read[-1]["hits"]
            for right, read in zip(
                FOUND["assays"]["drifts, corrected"][arm],
                FOUND["assays"]["drifts, as read"][arm],
                strict=True,
            )
        ]
        for arm in ("greedy", "ucb")
    }
    assert sum(one > 0 for one in lost["greedy"]) == 4
    assert min(lost["greedy"]) < -max(lost["greedy"])
    assert min(lost["ucb"]) < 0 < max(lost["ucb"])


def test_a_plate_finds_fewer_once_what_is_easy_is_found() -> None:
    """In the recorded study the second plate finds the most new hits, and the
    last one finds 40 % as many."""
    counts = np.mean(
        [
            [one["hits"] for one in rounds]
            for rounds in FOUND["assays"]["steady"]["greedy"]
        ],
        axis=0,
    )
    new = np.diff(counts)
    assert new.argmax() == 1
    assert new[-1] / new[1] == pytest.approx(0.4, abs=0.02)


def test_the_tables_are_those_of_the_result(tmp_path) -> None:
    result = tmp_path / "design_loop.json"
    result.write_text(json.dumps(FOUND))
    assert study.render(result) == 0
    made = result.with_suffix(".md").read_text()
    assert made == study.RESULT.with_suffix(".md").read_text()
