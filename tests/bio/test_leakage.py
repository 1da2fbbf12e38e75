"""An audit: it counts what was planted, each leak once."""

from pathlib import Path

import numpy as np
import pytest

from lockstep.bio import leakage, molecules
from lockstep.bio.datasets import chembl
from lockstep.bio.leakage import SHARES, audit, table
from lockstep.bio.splits import by_component, by_molecule, split

TRAIN = ["CCO", "CC(=O)O", "C[C@H](N)C(=O)O", "CC(=O)CC(C)=O", "c1ccccc1C"]


@pytest.mark.parametrize(
    ("leak", "level"),
    [
        ("CCO", "as written"),
        ("OCC", "written otherwise"),
        ("CC(=O)[O-].[Na+]", "salt, isotope, charge"),
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
    smiles = chembl().of("CHEMBL204_Ki")[0][::12]
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


@pytest.fixture
def files(tmp_path) -> list[str]:
    """A table and a list of lines; two test molecules of three are in training.
    The table's first column parses as molecules, and its header does too."""
    train, test = tmp_path / "train.csv", tmp_path / "test.smi"
    train.write_text(
        'CNS,Canonical_SMILES,y\nC,CCO,"1,5"\nN,CC(=O)[O-].[Na+],2\n'
    )
    test.write_text("OCC ethanol\nCC(=O)O\nc1ccncc1\n")
    return [str(train), str(test)]


def test_files_of_ones_own_are_audited(files, capsys) -> None:
    """The command reads the column of SMILES, and ends with 1 because test
    molecules are in training."""
    assert leakage.main(files) == 1
    printed = capsys.readouterr().out
    lines = {
        line[:24].strip(): line[24:].split() for line in printed.split("\n")
    }
    assert lines["test molecules"] == ["3"]
    assert lines["written otherwise"] == ["1"]
    assert lines["salt, isotope, charge"] == ["1"]
    assert lines["refused by RDKit"] == ["0"]
    assert "broken: 2 test molecules are in training, at most 0" in printed


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (["--max-same", "2"], 0),
        (["--max-same", "1"], 1),
        (["--max-same", "2", "--max-near", "0.6=0.7"], 0),
        (["--max-same", "2", "--max-near", "0.6=0.5"], 1),
        (["--max-near", "0.6"], 2),
        (["--smiles", "smiles"], 2),
        (["--smiles", "4"], 2),
    ],
)
def test_thresholds_decide_the_exit_code(files, given, code) -> None:
    """The command ends with 0 if the split passes, 1 if it breaks a threshold,
    and 2 if it cannot read its input."""
    assert leakage.main([*files, *given]) == code


def test_what_cannot_be_read_is_an_error(files, tmp_path, capsys) -> None:
    plain = tmp_path / "plain.csv"
    plain.write_text("CCO,1\nCCN,2\n")
    for wrong, why in (
        (files[:1], "TRAIN and TEST"),
        ([files[0], str(tmp_path / "none")], "No such file"),
        ([str(plain), files[1]], "name the column of SMILES with --smiles"),
    ):
        assert leakage.main(wrong) == 2
        assert why in capsys.readouterr().err
    # A table without a header, whose first column is asked for.
    assert leakage.smiles_of(plain, "1") == ["CCO", "CCN"]
    assert leakage.smiles_of(Path(files[0]), "CNS") == ["C", "N"]


def test_an_audit_holds_no_matrix_of_all_pairs(monkeypatch) -> None:
    """Whatever the number of molecules, no similarity of more than a block is
    in memory at once."""
    sizes = []
    right = molecules.tanimoto

    def seen(a, b):
        sizes.append((len(a), len(b)))
        return right(a, b)

    monkeypatch.setattr(molecules, "tanimoto", seen)
    monkeypatch.setattr(molecules, "BLOCK", 7)
    alkanes = ["C" * n for n in range(1, 41)]
    found = audit(alkanes[:25], alkanes[25:])
    assert len(found.nearest) == 15
    assert np.max(sizes) == 7
