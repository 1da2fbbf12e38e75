"""Proteins as tokens: what is shipped, families, crops and masks, and which
ranks draw the same."""

import csv
import gzip
import io
import zipfile

import numpy as np
import pytest
import torch

from lockstep.bio import masks_across_ranks, rebuild_data
from lockstep.bio.datasets import families, proteome
from lockstep.bio.protein_lm import Place, Settings, batches, dropped
from lockstep.bio.tokens import (
    IGNORED,
    MASK,
    RESIDUES,
    drawn,
    encode,
    masked,
    starts,
)

SMALL = Settings(length=64, batch=8, dropout=0.25, hidden=8, layers=2)
MESH = [Place(2, d, 2, c) for d in range(2) for c in range(2)]


def test_the_proteome_is_one_of_the_twenty_residues() -> None:
    found = list(proteome().values())
    assert len(found) == len({*found}) == 2_078
    assert (min(map(len, found)), max(map(len, found))) == (32, 4_559)
    assert sum(map(len, found)) == 672_677
    assert {*"".join(found)} == {*RESIDUES}
    assert len(families()) == len(found)
    assert len({*families()}) == 1_339
    assert {*families()} < {*proteome()}


def test_whole_determined_and_different_proteins_are_derived(tmp_path) -> None:
    one, other = list(proteome().values())[:2]
    genes = [
        ("1.P.A_1", "00", f"{one[:60]}\n{one[60:]}*"),
        ("1.P.A_2", "10", "MKL*"),  # begins before its scaffold
        ("1.P.A_3", "00", "MXL*"),
        ("1.P.B_1", "00", f"{one}*"),
        ("1.P.B_2", "00", f"{other}*"),
        ("1.P.B_3", "00", f"{one[5:]}*"),
    ]
    text = "".join(
        f">{name} # 1 # 9 # 1 # ID=1;partial={partial};x=y\n{sequence}\n"
        for name, partial, sequence in genes
    )
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as package:
        package.writestr(rebuild_data.GENOME, text)
    made = gzip.decompress(rebuild_data.proteome(tmp_path / "a.whl")).decode()
    first = "A_1" if one < one[5:] else "B_3"
    assert list(csv.reader(io.StringIO(made))) == [
        ["gene", "family", "sequence"],
        ["A_1", first, one],
        ["B_2", "B_2", other],
        ["B_3", first, one[5:]],
    ]


def test_letters_that_are_no_residues_are_refused() -> None:
    assert encode("ACY").tolist() == [0, 1, 19]
    with pytest.raises(ValueError, match="'X' is none of the residues"):
        encode("ACX")


def test_masks_are_berts() -> None:
    whole = [np.full(100, 7, np.uint8)] * 4000
    draws = drawn(0, np.zeros(4000, int), np.arange(4000), 100)
    inputs, labels = masked(whole, draws, 100)
    asked = labels != IGNORED
    assert bool((labels[asked] == 7).all() and (inputs[~asked] == 7).all())
    assert asked.double().mean() == pytest.approx(0.15, abs=0.002)
    hidden = (inputs == MASK)[asked].double().mean()
    assert hidden == pytest.approx(0.8, abs=0.005)
    kept = (inputs == 7)[asked].double().mean()
    assert kept == pytest.approx(0.1 + 0.1 / 20, abs=0.004)


def test_a_crop_may_begin_anywhere_it_fits() -> None:
    proteins = [np.arange(10, dtype=np.uint8)] * 200
    draws = drawn(1, np.zeros(200, int), np.arange(200), 7)
    assert {*starts(proteins, draws, 7).tolist()} == {0, 1, 2, 3}
    epochs = [drawn(1, np.full(9, e), np.arange(9), 7) for e in (0, 0, 1)]
    assert (epochs[0] == epochs[1]).all()
    assert (epochs[0] != epochs[2]).all()


# --8<-- [start:masks]
def test_context_ranks_cut_one_mask_and_data_ranks_draw_others() -> None:
    proteins = masks_across_ranks.proteins()
    (one,) = (next(batches(proteins, SMALL, Place())),)
    mesh = [next(batches(proteins, SMALL, at)) for at in MESH]
    for d in range(2):
        left, right = mesh[2 * d : 2 * d + 2]
        for name in ("inputs", "labels"):
            parts = [getattr(half, name) for half in (left, right)]
            assert torch.equal(torch.cat(parts, 1), getattr(one, name)[d::2])
    asked = [half.labels != IGNORED for half in mesh]
    assert not torch.equal(asked[0], asked[2])


# --8<-- [end:masks]
def test_context_ranks_drop_their_own_positions_of_one_draw() -> None:
    ids, epochs = np.arange(64), np.zeros(64, int)
    whole, *halves = (
        dropped(SMALL, ids, epochs, torch.arange(64)[part])
        for part in (slice(None), slice(32), slice(32, 64))
    )
    assert whole is not None
    assert torch.equal(torch.cat(halves, 2), whole)
    assert not torch.equal(*halves)
    assert (whole == 0).double().mean() == pytest.approx(0.25, abs=0.01)
    assert whole.mean() == pytest.approx(1, abs=0.02)
    other = dropped(SMALL, ids + 64, epochs, torch.arange(64))
    assert not torch.equal(other, whole)


def test_what_each_way_to_draw_does(capsys) -> None:
    masks_across_ranks.main()
    generator, seed, sample = (
        masks_across_ranks.found(way) for way in masks_across_ranks.WAYS
    )
    assert generator["fit"] < 0.05
    assert generator["shown"] == pytest.approx(0.865, abs=0.01)
    assert seed["twice"] == 1
    assert sample["fit"] == 1
    assert sample["twice"] == 0
    assert sample["shown"] == pytest.approx(0.105, abs=0.01)
    assert "86.6%" in capsys.readouterr().out
