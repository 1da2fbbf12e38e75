"""What is valid, unique and new, counted over all ranks."""

import pytest
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.bio.generation import Chain, Counts, counts
from lockstep.experiments.studies import generation as study
from lockstep.instruments.forked import in_a_group
from lockstep.trainer.process import joined
from tests.conftest import daily
from tests.ranks import run_ranks, store

DRAWN = ["A", "B", None, "A", "C", "D", "B", "E", None, "A", "F", "G"]
TRAINING = ["B", "D", "X", "Y", "F"]
# Seven distinct of ten valid; B, D and F are known.
TRUTH = Counts(drawn=12, valid=10, distinct=7, novel=4)


def counted(cut: str) -> Counts:
    with joined(30, store()):
        rank, world = dist.get_rank(), dist.get_world_size()
        if cut == "all on one":
            mine = DRAWN if rank == world - 1 else []
            return counts(mine, TRAINING if rank == 0 else [])
        return counts(DRAWN[rank::world], TRAINING[rank::world])


@pytest.mark.parametrize("world", daily([1, 2, 3], 1, 3))
@pytest.mark.parametrize("cut", ["dealt", "all on one"])
def test_a_cut_changes_no_count(world: int, cut: str) -> None:
    """However the generated molecules are divided among ranks, every rank ends
    with the counts of one process."""
    assert run_ranks(world, counted, cut) == [TRUTH] * world


def test_nothing_drawn_is_counted_too() -> None:
    assert str(Counts(4, 0, 0, 0)) == "valid 0.000  unique 0.000  novel 0.000"


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 9), st.integers(0, 999))
def test_a_draw_is_a_function_of_seed_and_number(seed: int, number: int):
    chain = Chain(["CCO", "CCN", "CCCl", "OCC"], order=2)
    drawn = chain.draw(seed, number)
    chain.draw(seed + 1, 3)
    assert chain.draw(seed, number) == drawn
    assert set(drawn) <= set("CONl")


def test_a_chain_writes_what_it_has_read() -> None:
    chain = Chain(["c1ccccc1"], order=8)
    assert chain.draw(0, 0) == "c1ccccc1"
    assert len(Chain(["C" * 50], order=2).draw(0, 0, most=20)) <= 20


def test_what_one_run_may_be_made_to_say(monkeypatch) -> None:
    """The page's claims, on fewer draws."""
    monkeypatch.setattr(study, "EACH", 60)
    first, *others = in_a_group(4, study.claims, study.learned())
    said = {
        who: dict(zip(words[::2], map(float, words[1::2]), strict=True))
        for who, what in first
        for words in [what.split()]
    }
    assert [who for who, _ in others[0]] == list(said)
    here, whole = said["one seed, this rank"], said["one seed, all ranks"]
    # Four ranks with one seed draw four times the same.
    assert whole["unique"] == pytest.approx(here["unique"] / 4, abs=0.001)
    assert (here["valid"], here["novel"]) == (whole["valid"], whole["novel"])
    shard, truth = said["own draws, own shard"], said["own draws, all ranks"]
    assert shard["novel"] > truth["novel"] + 0.15
    assert shard["unique"] >= truth["unique"] > whole["unique"]


def test_the_study_says_all_of_it(monkeypatch, capsys) -> None:
    few = study.learned()[:200]
    monkeypatch.setattr(study, "EACH", 30)
    monkeypatch.setattr(study, "learned", lambda: few)
    study.main()
    *lines, near = capsys.readouterr().out.splitlines()
    assert [line[:22].strip() for line in lines] == [
        "one seed, this rank",
        "one seed, all ranks",
        "own draws, own shard",
        "own draws, all ranks",
    ]
    assert 0 < float(near.split()[3]) <= 1


def test_its_targets_are_two_kinases() -> None:
    """Never an opioid receptor."""
    assert study.TARGETS == ("CHEMBL2835_Ki", "CHEMBL2971_Ki")
    assert len(study.learned()) == 1047
