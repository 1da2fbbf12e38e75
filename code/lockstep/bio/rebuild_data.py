"""Rebuild the shipped data from its source.

    python -m lockstep.bio.rebuild_data

The archive is fetched and held against its card. The same archive gives the
same bytes: rows in one order, no time in the compressed file.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import tarfile
import tempfile
import zipfile
from pathlib import Path

from .datasets import HERE, archive, cards, digest
from .homology import related

GENOME = "pyhmmer/tests/data/seqs/938293.PRJEB85.HG003687.faa"
LISTS, LISTED = "chembl_structure_pipeline/data", ("solvents", "salts")
OPIOID = "CHEMBL233", "CHEMBL236", "CHEMBL237"  # receptors that are left out


def chembl(sdist: Path) -> bytes:
    """One table of MoleculeACE's thirty but the opioid receptors', as a
    compressed CSV. Molecules measured on those alone keep an empty row."""
    found: dict[str, dict[str, str]] = {}
    targets = []
    with tarfile.open(sdist) as package:
        for member in package.getmembers():
            if "/benchmark_data/" not in member.name:
                continue
            if not member.name.endswith(".csv"):
                continue
            target = Path(member.name).stem
            shipped = target.split("_")[0] not in OPIOID
            if shipped:
                targets.append(target)
            file = package.extractfile(member)
            assert file
            for row in csv.DictReader(io.TextIOWrapper(file, "utf-8")):
                values = found.setdefault(row["smiles"], {})
                if shipped:
                    value = 9 - math.log10(float(row["exp_mean [nM]"]))
                    values[target] = f"{value:.3f}"
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["smiles", *sorted(targets)])
    for smiles, values in sorted(found.items()):
        writer.writerow([smiles, *(values.get(t) for t in sorted(targets))])
    return gzip.compress(table.getvalue().encode(), mtime=0)


def proteome(wheel: Path) -> bytes:
    """Whole, determined and different proteins of PyHMMER's test genome with
    their families, as a compressed CSV in the order of the genes. The search
    for families takes two minutes."""
    with zipfile.ZipFile(wheel) as package:
        text = package.read(GENOME).decode()
    genes: dict[str, str] = {}  # by sequence
    for entry in text.split(">")[1:]:
        head, *lines = entry.splitlines()
        sequence = "".join(lines)
        whole = "partial=00" in head and sequence.endswith("*")
        sequence = sequence.rstrip("*")
        if whole and "X" not in sequence:
            # What precedes is the same in all: taxon and project.
            genes.setdefault(sequence, head.split()[0].split(".")[-1])
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["gene", "family", "sequence"])
    families = related([*genes])
    for (sequence, gene), first in zip(genes.items(), families, strict=True):
        writer.writerow([gene, genes[first], sequence])
    return gzip.compress(table.getvalue().encode(), mtime=0)


def counterions(wheel: Path) -> bytes:
    """ChEMBL's lists of solvents and salts: a name, a tab, a SMARTS."""
    with zipfile.ZipFile(wheel) as package:
        texts = (package.read(f"{LISTS}/{n}.smi") for n in LISTED)
        lines = [one.decode().splitlines() for one in texts]
    kept = [one.strip() for list_ in lines for one in list_ if "\t" in one]
    return "".join(f"{one}\n" for one in kept).encode()


def main() -> None:
    """Write what is shipped, and say what its cards have to say."""
    shipped = {
        "chembl": chembl,
        "proteome": proteome,
        "counterions": counterions,
    }
    for name, make in shipped.items():
        card = cards()[name]
        assert card.file
        with tempfile.TemporaryDirectory() as folder:
            made = make(archive(card, Path(folder)))
        target = HERE / card.file
        target.write_bytes(made)
        print(f"{target.name}: {len(made)} bytes, sha256 {digest(target)}")


if __name__ == "__main__":
    main()
