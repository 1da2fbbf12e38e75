"""Splits by a digest of the group: alike everywhere, and they stay."""

import json
from collections import Counter
from datetime import date
from functools import cache

import numpy as np
import pytest
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

from lockstep.bio import salted_hash, splits
from lockstep.bio.datasets import chembl, nci
from lockstep.bio.molecules import read
from lockstep.bio.splits import (
    SHARES,
    alike,
    butina,
    by_component,
    by_molecule,
    by_scaffold,
    by_time,
    families,
    fraction,
    side,
    split,
)
from lockstep.labs.lab_b1_split import sound
from lockstep.trainer.data import uniform
from tests import ranks


@cache
def some(count: int = 400) -> list[str]:
    """Of one target, so that there are neighbors; of many scaffolds."""
    return chembl().of("CHEMBL204_Ki")[0][::6][:count]


@cache
def scaffolds() -> list[str]:
    return by_scaffold(some())


def test_a_side_is_the_same_in_every_process_and_year() -> None:
    """Figures that were written down once; lab B1 has the same."""
    assert fraction("c1ccccc1", 0) == 0.605945058214164
    assert fraction("c1ccccc1", 1) == 0.8925296167356591
    assert side("c1ccccc1", 0) == "train"
    assert 0 <= fraction("c1ccccc1", -1) < 1
    assert fraction("c1ccccc1", -1) == sound.fraction("c1ccccc1", -1)
    assert fraction("c1ccccc1", 1) == sound.fraction("c1ccccc1", 1)
    places = [fraction(f"{n}", 3) for n in range(20_000)]
    assert np.allclose(
        np.histogram(places, 10, (0, 1))[0] / 20_000, 0.1, atol=0.01
    )


def rank_split(groups: list[str]) -> list[int]:
    return split(groups, 0, SHARES)["test"].tolist()


def test_ranks_agree_without_a_message() -> None:
    """Three processes that split the same groups have the same sides, without
    communicating."""
    here = rank_split(scaffolds())
    assert ranks.run_ranks(3, rank_split, scaffolds()) == [here] * 3
    assert here


def test_salted_hashes_make_ranks_disagree_and_forks_hide_it() -> None:
    """Two new processes that split by Python's `hash` disagree about most of
    the test set. Two forks of one parent agree, and so hide it."""
    groups = scaffolds()
    mine, other = salted_hash.on_new_processes(groups, ["random"] * 2)
    expected = salted_hash.keyed(groups)
    assert mine["keyed"] == other["keyed"] == expected
    leaks = salted_hash.trained_elsewhere(mine["salted"], other["salted"])
    # By chance four in five: rank 1's test set has nothing to do with rank 0's.
    assert leaks > 0.5 * len(mine["salted"])
    forks = ranks.run_ranks(2, salted_hash.salted, groups)
    assert forks[0] == forks[1]  # both have the salt of one parent


def test_what_is_printed_of_salted_ranks(monkeypatch, capsys) -> None:
    monkeypatch.setattr(salted_hash, "by_scaffold", lambda _: scaffolds())
    monkeypatch.setattr(salted_hash.sys, "argv", ["salted"])
    salted_hash.main()
    *_, salt, key = capsys.readouterr().out.splitlines()
    assert int(salt.split()[-1]) > 30
    assert int(key.split()[-1]) == 0


def test_a_process_prints_its_own_test_rows(monkeypatch, capsys) -> None:
    import io

    monkeypatch.setattr(salted_hash.sys, "argv", ["salted", "-"])
    monkeypatch.setattr(
        salted_hash.sys, "stdin", io.StringIO('["a", "b", "c"]')
    )
    salted_hash.main()
    found = json.loads(capsys.readouterr().out)
    assert found["keyed"] == salted_hash.keyed(["a", "b", "c"])
    assert found["salted"] == salted_hash.salted(["a", "b", "c"])


@pytest.mark.parametrize("way", [by_molecule, by_scaffold])
def test_no_molecule_changes_side_when_others_are_added(way) -> None:
    """Adding molecules to the data leaves each earlier one on its side of the
    split, by random, scaffold or cluster."""
    smiles = some()
    before = split(way(smiles[:250]), 0)
    after = split(way(smiles), 0)
    for part, rows in before.items():
        assert {*rows} == {row for row in after[part] if row < 250}


def test_a_group_lies_whole_on_one_side() -> None:
    groups = scaffolds()
    found = split(groups, 5)
    sides = [{groups[row] for row in rows} for rows in found.values()]
    assert sum(map(len, sides)) == len({*groups})
    everything = np.sort(np.concatenate([*found.values()]))
    assert everything.tolist() == [*range(len(groups))]


def test_molecules_without_rings_have_no_scaffold_in_common() -> None:
    smiles = nci()[:400]
    acyclic = [one for one in by_scaffold(smiles) if one.startswith("acyclic")]
    assert len(acyclic) > 40
    sides = {side(one, 0) for one in acyclic}
    assert sides == {*SHARES}  # not all on one
    # ...but two writings of one stay together, and a salt of it too.
    one, two, salt = by_scaffold(["CCO", "OCC", "CC[O-].[Na+]"])
    assert one == two == salt


def test_a_group_too_large_for_a_part_is_refused_until_it_is_pinned() -> None:
    """A group that holds half of all molecules is refused by name until it is
    pinned to a part, and pinning it moves nobody else."""
    groups = ["large"] * 50 + [f"{n}" for n in range(50)]
    with pytest.raises(ValueError, match=r"'large' has 50 of 100 .* pin it"):
        split(groups, 0)
    found = split(groups, 0, pinned={"large": "train"})
    assert {*range(50)} < {*found["train"].tolist()}
    free = split(groups[50:], 0)  # the others lie where they lay
    for part in "valid", "test":
        assert (found[part] - 50).tolist() == free[part].tolist()
    assert side("large", 0, pinned={"large": "test"}) == "test"
    half = {"train": 0.5, "test": 0.5}
    assert len(split(groups, 0, half)) == 2  # a part that could hold it


def test_a_real_set_has_such_a_group() -> None:
    """Benzene is the scaffold of a fifth of the NCI's compounds."""
    molecules = read(nci()).molecules.values()
    found = Counter(MurckoScaffoldSmiles(mol=one) for one in molecules)
    assert found["c1ccccc1"] > 0.2 * len(molecules)
    assert found[""] > 0.2 * len(molecules)  # as one group, as bad
    with pytest.raises(ValueError, match="c1ccccc1"):
        split(by_scaffold(nci()[:400]), 0)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"shares": {"train": 0.8, "test": 0.1}}, "sum to 1"),
        ({"shares": {"train": 1.0, "test": 0.0}}, "positive"),
        ({"pinned": {"a": "tests"}}, "no part is called tests"),
    ],
)
def test_what_cannot_be_a_split_is_refused(given, why) -> None:
    with pytest.raises(ValueError, match=why):
        split(["a"], 0, **given)


def test_shares_that_round_down_still_hold_all() -> None:
    thirds = {"a": 0.1, "b": 0.2, "c": 0.7 - 1e-12}
    found = split([f"{n}" for n in range(1000)], 0, thirds)
    assert sum(map(len, found.values())) == 1000
    # One that lies beyond the last end goes into the last part.
    assert side("x", 0, {"a": 1e-9, "b": 1e-9}) == "b"


# Clusters


def test_kept_centers_move_nobody_and_new_ones_do() -> None:
    """With the cluster centers kept, adding molecules and appending their
    centers changes the group of no earlier one. With new centers at least three
    molecules change their side."""
    smiles = some(300)
    before = smiles[:250]
    centers = butina(before)
    old = centers.groups(before)
    later = centers.extended(smiles)
    assert len(later.versions) == 2
    assert later.groups(smiles)[:250] == old
    assert later.groups(smiles[::-1])[::-1][:250] == old
    assert later.extended(smiles) == later
    anew = butina(smiles).groups(smiles)[:250]
    moved = sum(
        side(a, 1) != side(b, 1) for a, b in zip(old, anew, strict=True)
    )
    assert moved >= 3


def test_centers_do_not_depend_on_the_order_of_rows() -> None:
    smiles = some()[:150]
    assert butina(smiles).versions == butina(smiles[::-1]).versions


def test_a_new_series_is_one_group() -> None:
    """Molecules beyond all centers are clustered, and whatever way one is
    written, with a salt or mirrored, it is in one group."""
    centers = butina(["CCCCCCO", "CCCCCCCO"], 0.4)
    assert len({*centers.groups(["CCCCCCO", "CCCCCCCO"])}) == 1
    new = ["c1ccc2ccccc2c1", "Cc1ccc2ccccc2c1", "CCO", "OCC", "CCO.Cl"]
    mirrored = ["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"]
    with pytest.raises(ValueError, match="7 of 7 items are near no center"):
        centers.groups(new + mirrored)
    found = centers.extended(new + mirrored).groups(new + mirrored)
    assert [len({*found[i:j]}) for i, j in ((0, 2), (2, 5), (5, 7))] == [1] * 3
    assert len({*found}) == 3


def test_only_components_leave_no_neighbor_on_another_side() -> None:
    smiles = some(200)
    near = alike(smiles, smiles)
    least = {}
    for name, groups in {
        "cluster": butina(smiles, 0.5).groups(smiles),
        "component": by_component(smiles, 0.5),
    }.items():
        of = np.array(groups)
        least[name] = near[of[:, None] != of].max()
    assert least["component"] < 0.5 <= least["cluster"]
    again = by_component(smiles[::-1], 0.5)[::-1]
    assert again == by_component(smiles, 0.5)


# Sequences


def family(start: str, size: int, key: int) -> list[str]:
    """Variants: a tenth of the residues changed, one lost at the end."""
    found = []
    for n in range(size):
        noise = uniform(key, np.array([n]), np.array([n]), len(start))[0]
        letters = [
            "ACDEFGHIKLMNPQRSTVWY"[int(u * 200)] if u < 0.1 else residue
            for u, residue in zip(noise, start, strict=True)
        ]
        found.append("".join(letters)[n % 2 :])
    return found


def proteins() -> list[str]:
    noise = uniform(9, np.zeros(4, int), np.arange(4), 60)
    letters = np.array([*"ACDEFGHIKLMNPQRSTVWY"])
    starts = ["".join(letters[(one * 20).astype(int)]) for one in noise]
    return [v for key, s in enumerate(starts) for v in family(s, 6, key)]


def test_families_stay_together_and_stay() -> None:
    found = proteins()
    centers = families(found)
    groups = centers.groups(found)
    assert len({*groups}) == 4
    assert [len({*groups[i : i + 6]}) for i in range(0, 24, 6)] == [1] * 4
    new = "".join(reversed(found[0]))
    later = centers.extended([*found, new])
    assert later.groups([*found, new]) == [*groups, new]
    assert families(found[::-1]).versions == centers.versions
    # All variants of one protein are one family: no such split is to be had.
    with pytest.raises(ValueError, match="pin it"):
        split(families(found[:6]).groups(found[:6]), 0)


# Time


def test_a_compound_stays_where_it_was_first_seen() -> None:
    """A compound's first day decides its part, and a row of it that was
    measured in a later part's time is in none."""
    days = [date(2020, 1, 1), date(2021, 6, 1), date(2022, 3, 1)]
    starts = {"valid": date(2021, 1, 1), "test": date(2022, 1, 1)}
    found = by_time(["a", "b", "c"], days, starts)
    assert [found[part].tolist() for part in SHARES] == [[0], [1], [2]]
    # Measured once more: the row of 2022 belongs to neither side.
    again = by_time(["a", "b", "a"], days, starts)
    assert [again[part].tolist() for part in SHARES] == [[0], [1], []]
    with pytest.raises(ValueError, match="order of time"):
        by_time(["a"], days[:1], dict([*starts.items()][::-1]))


def test_shares_are_met_on_the_whole() -> None:
    found = split(by_molecule(some()), 0)
    parts = {part: len(rows) / 400 for part, rows in found.items()}
    assert parts == pytest.approx(SHARES, abs=0.05)
    assert splits.SHARES == {"train": 0.8, "valid": 0.1, "test": 0.1}
