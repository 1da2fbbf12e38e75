"""Names of a molecule: what each level makes one, and what is refused."""

import numpy as np
import pytest
from rdkit import DataStructs

from lockstep.bio import molecules
from lockstep.bio.datasets import chembl, nci
from lockstep.bio.molecules import (
    canonical,
    fingerprints,
    flat,
    nearest,
    parent,
    parse,
    read,
    scaffold,
    skeleton,
    tanimoto,
    tautomer,
)


@pytest.mark.parametrize(
    ("level", "same", "other"),
    [
        (canonical, ("C(C)O", "OCC"), ("OCC", "OCCC")),
        (parent, ("CC(=O)O", "CC(=O)[O-].[Na+]"), ("C[C@H](N)O", "CC(N)O")),
        (parent, ("CCN", "CC[NH3+].[Cl-]"), ("CCN", "CC=N")),
        (flat, ("C[C@H](N)O", "C[C@@H](N)O"), ("CC(=O)C", "CC(O)=C")),
        (flat, ("C/C=C/C", "C/C=C\\C"), ("CC=CC", "C=CCC")),
        (tautomer, ("CC(=O)C", "CC(O)=C"), ("CCC=O", "CC(C)=O")),
        (tautomer, ("Oc1ccccn1", "O=c1cccc[nH]1"), ("Oc1ccccn1", "Oc1cccnc1")),
        (parent, ("COc1ccccc1", "[2H]C([2H])([2H])Oc1ccccc1"), ("C", "CC")),
        (parent, ("[13CH3]CO", "CCO.O"), ("C[13CH2]O", "CC[18O]C")),
    ],
)
def test_each_level_joins_what_it_names_and_no_more(level, same, other) -> None:
    """At each level of identity the molecules that it names as equal have one
    key, and the others have two."""
    one, two = (level(parse(smiles)) for smiles in same)
    assert one == two
    one, two = (level(parse(smiles)) for smiles in other)
    assert one != two


BESYLATE, PAMOATE = (
    "OS(=O)(=O)c1ccccc1",
    "OC(=O)c1cc2ccccc2c(Cc3c(O)c(cc4ccccc34)C(=O)O)c1O",
)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (f"CCCCN.{BESYLATE}", "CCCCN"),  # each acid has more atoms
        (f"CN(C)C(=N)NC(N)=N.{PAMOATE}", "CN(C)C(=N)NC(=N)N"),
        ("NN.OS(=O)(=O)O", "NN"),
        ("CC(=O)[O-].[Na+]", "CC(=O)O"),  # both are on the list
        ("OC(=O)c1ccccc1O", "O=C(O)c1ccccc1O"),  # a drug that is a salt too
        ("[Na+].[Cl-]", "[Cl-].[Na+]"),
        ("CCN.CCN.OS(=O)(=O)O", "CCN"),
    ],
)
def test_counterions_go_whatever_their_size(one, expected) -> None:
    """A counterion on ChEMBL's list is removed even where it is larger than the
    drug, and never when nothing else is left."""
    assert parent(parse(one)) == expected


def test_two_organic_counterions_stay_together() -> None:
    both = parent(parse(f"NCCO.{BESYLATE}"))
    assert both == "NCCO.O=S(=O)(O)c1ccccc1"
    assert both != parent(parse(BESYLATE))


def test_two_compounds_may_share_a_name() -> None:
    """Complexes of two metals have one parent, their ligand, and an aldose and
    a ketose are tautomers by RDKit's rules: other compounds all the same."""
    copper, chromium = "C1CN[Cu]2(N1)NCCN2", "C1CN[Cr]23(N1)(NCCN2)NCCN3"
    assert parent(parse(copper)) == parent(parse(chromium)) == "NCCN"
    aldose, ketose = "OCC(O)C(O)C=O", "OCC(O)C(=O)CO"
    assert flat(parse(aldose)) != flat(parse(ketose))
    assert tautomer(parse(aldose)) == tautomer(parse(ketose))


def test_a_level_takes_in_the_one_before() -> None:
    """So that names of a later level are never more."""
    rows = [row for row in nci() if "." in row or "+" in row][:60]
    found = [*read(rows).molecules.values()]
    levels = [canonical, parent, flat]
    counts = [len({level(one) for one in found}) for level in levels]
    assert counts == sorted(counts, reverse=True)
    for one in found:
        assert flat(parse(flat(one))) == flat(one)  # a name of itself


def test_tautomers_share_their_skeleton() -> None:
    """Four pairs of tautomers share a skeleton, and molecules that aren't
    tautomers don't."""
    for one, two in [
        ("CC(=O)C", "CC(O)=C"),
        ("Oc1ccccn1", "O=c1cccc[nH]1"),
        ("CC(=O)CC(C)=O", "CC(O)=CC(C)=O"),
        ("c1c[nH]cn1.Cl", "c1cnc[nH]1"),
    ]:
        assert skeleton(parse(one)) == skeleton(parse(two))
    assert skeleton(parse("CCCO")) != skeleton(parse("CC(C)O"))
    assert skeleton(parse("CCCO")) != skeleton(parse("CCC=O"))


@pytest.mark.parametrize(
    ("smiles", "why"),
    [
        ("", "no atom"),
        ("C1CC", "cannot be read"),
        ("not one", "cannot be read"),
        ("C(C)(C)(C)(C)C", "Explicit valence for atom # 0 C, 5"),
        ("c1cccc1", "kekulize"),
    ],
)
def test_what_rdkit_refuses_is_said_in_one_line(smiles, why, capfd) -> None:
    with pytest.raises(ValueError, match=why) as error:
        parse(smiles)
    assert repr(smiles) in str(error.value)
    assert "\n" not in str(error.value)
    assert not capfd.readouterr().err  # and not by RDKit, too


def test_every_row_is_read_or_refused() -> None:
    """Each row of the file is either read or refused with its reason, and none
    is dropped."""
    rows = nci()[2090:2110]
    found = read(rows)
    assert {*found.molecules} | {*found.refused} == {*range(len(rows))}
    assert [*found.refused] == [7]
    assert "Hg" in found.refused[7]


def test_a_scaffold_is_the_parents() -> None:
    """A salt with a ring is none of its rings, and stereo is no part. RDKit
    keeps an atom that a double bond joins to a ring."""
    assert scaffold(parse("CCc1ccccc1")) == "c1ccccc1"
    assert scaffold(parse("CC1CCCCC1=O")) == "O=C1CCCCC1"
    salt = "CCCCCCCCCCCC[NH3+].Cc1ccc(S(=O)(=O)[O-])cc1"
    assert scaffold(parse(salt)) == ""
    assert scaffold(parse("CCO")) == ""
    left, right = "C[C@H]1CC[C@@H](c2ccccc2)O1", "C[C@H]1CC[C@H](c2ccccc2)O1"
    assert scaffold(parse(left)) == scaffold(parse(right))


def test_similarity_is_rdkits(monkeypatch) -> None:
    monkeypatch.setattr(molecules, "BLOCK", 7)  # rows are cut anywhere
    read_ones = [parse(one) for one in chembl().smiles[:40]]
    packed = fingerprints(read_ones)
    assert packed.shape == (40, molecules.BITS // 8)
    asked = molecules._morgan().GetFingerprint
    theirs = [asked(one) for one in read_ones]
    expected = [
        DataStructs.BulkTanimotoSimilarity(one, theirs) for one in theirs
    ]
    assert np.allclose(tanimoto(packed, packed), expected, atol=1e-7)
    near = nearest(packed[:9], packed[9:])
    assert np.allclose(near, np.array(expected)[:9, 9:].max(1), atol=1e-7)
    nothing = np.zeros((1, molecules.BITS // 8), np.uint8)
    assert tanimoto(nothing, packed).max() == 0
    assert tanimoto(nothing, nothing).item() == 0
