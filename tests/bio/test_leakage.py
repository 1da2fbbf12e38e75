"""An audit: it counts what was planted, each leak once."""

import pytest

from lockstep.bio import leakage
from lockstep.bio.datasets import chembl
from lockstep.bio.leakage import SHARES, audit, table
from lockstep.bio.splits import by_component, by_molecule, split

TRAIN = ["CCO", "CC(=O)O", "C[C@H](N)C(=O)O", "CC(=O)CC(C)=O", "c1ccccc1C"]


@pytest.mark.parametrize(
    ("leak", "level"),
    [
        ("CCO", "as written"),
        ("OCC", "written otherwise"),
        ("CC(=O)[O-].[Na+]", "another salt, charge"),
        ("C[C@@H](N)C(=O)O", "another stereoisomer"),
        ("CC(O)=CC(C)=O", "another tautomer"),
    ],
)
def test_a_planted_leak_is_counted_once_at_its_level(leak, level) -> None:
    """A molecule planted in the test set is counted as a leak once, at the
    level at which it equals one in the training set, and at no other."""
    found = audit(TRAIN, [leak, "CCCCCCCCBr"])
    assert {name for name, count in found.same.items() if count} == {level}
    assert found.same[level] == 1
    assert found.refused == 0
    assert len(found.nearest) == 2


def test_what_is_refused_is_counted_and_nothing_readable_is_an_error() -> None:
    found = audit([*TRAIN, "C1CC"], ["CCO", "c1cccc1"])
    assert found.refused == 2
    assert found.same["as written"] == 1
    with pytest.raises(ValueError, match="no molecule of one side"):
        audit(TRAIN, ["C1CC"])


def test_a_neighbor_is_no_duplicate_and_is_seen() -> None:
    found = audit(["CCCCCCCCO"], ["CCCCCCCO", "c1ccncc1"])
    assert not any(found.same.values())
    assert found.nearest[0] > 0.6 > found.nearest[1]
    assert found.share() == 0.5


def test_rows_leak_where_molecules_do_not() -> None:
    smiles = chembl().smiles[:60]
    salts = [f"{one}.Cl" for one in smiles]  # every row twice
    both = smiles + salts
    rows = split([f"{n}" for n in range(len(both))], 0, SHARES)
    molecules = split(by_molecule(both), 0, SHARES)
    leaks = []
    for found in rows, molecules:
        train, test = ([both[i] for i in found[part]] for part in SHARES)
        leaks.append(sum(audit(train, test).same.values()))
    assert leaks[0] > 0.5 * len(rows["test"])
    assert leaks[1] == 0


def test_components_leave_no_near_neighbor() -> None:
    smiles = chembl().of("CHEMBL233_Ki")[0][::12]
    groups = by_component(smiles)
    found = split(groups, 0, SHARES)
    train, test = ([smiles[i] for i in found[part]] for part in SHARES)
    assert audit(train, test).share() == 0
    rows = split(by_molecule(smiles), 0, SHARES)
    train, test = ([smiles[i] for i in rows[part]] for part in SHARES)
    assert audit(train, test).share() > 0.3


def test_audits_side_by_side(monkeypatch, capsys) -> None:
    text = table({"one": audit(TRAIN, ["OCC"]), "two": audit(TRAIN, TRAIN)})
    lines = {line[:24].strip(): line[24:].split() for line in text.splitlines()}
    assert lines["test molecules"] == ["1", "5"]
    assert lines["written otherwise"] == ["1", "0"]
    assert lines["as written"] == ["0", "5"]
    assert lines["nearest, median"] == ["1.00", "1.00"]
    monkeypatch.setattr(leakage, "FIRST", 300)
    leakage.main()
    printed = capsys.readouterr().out
    assert "of 300 rows are refused" in printed
    assert "scaffold" in printed


def test_tautomers_are_asked_of_few(monkeypatch) -> None:
    """The audit would take minutes if it asked them of all."""
    asked = []
    right = leakage.tautomer
    monkeypatch.setattr(
        leakage, "tautomer", lambda one: asked.append(one) or right(one)
    )
    smiles = chembl().smiles[:80]
    audit(smiles[:40], smiles[40:])
    assert len(asked) < 10


def test_files_of_ones_own_are_audited(tmp_path, capsys) -> None:
    train, test = tmp_path / "train.csv", tmp_path / "test.smi"
    train.write_text("smiles,y\nCCO,1\nCC(=O)[O-].[Na+],2\n")
    test.write_text("OCC ethanol\nCC(=O)O\nc1ccncc1\n")
    assert leakage.main([str(train), str(test)]) == 0
    printed = capsys.readouterr().out
    lines = {
        line[:24].strip(): line[24:].split() for line in printed.split("\n")
    }
    assert lines["test molecules"] == ["3"]
    assert lines["written otherwise"] == ["1"]
    assert lines["another salt, charge"] == ["1"]
    assert lines["refused by RDKit"] == ["1"]  # the head of the table
    for wrong, why in (
        ([str(train)], "TRAIN and TEST"),
        ([str(train), str(tmp_path / "none")], "No such file"),
    ):
        assert leakage.main(wrong) == 2
        assert why in capsys.readouterr().err
