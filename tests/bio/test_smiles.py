"""SMILES prepared once, stored, and read by any rank and worker alike."""

import json
import pickle
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import torch
from rdkit import Chem
from torch.utils.data import DataLoader

from lockstep.bio.datasets import chembl, nci
from lockstep.bio.smiles import scale, skips, store, streams
from lockstep.bio.smiles.prepare import (
    Line,
    all_canonical,
    canonical,
    main,
    prepare,
    texts,
    unique,
)
from lockstep.bio.smiles.store import IGNORED, Molecules, write
from lockstep.bio.smiles.tokens import BEGIN, END, PAD, Tokens, frequent
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.data import shares
from lockstep.trainer.process import Process
from tests.conftest import daily
from tests.ranks import run_ranks

LINES = 400  # of the NCI's that are prepared
SHARD = 100


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """Some that RDKit refuses, and some molecules again, as other text."""
    rows = nci()[:LINES]
    again = [Chem.MolFromSmiles(one) for one in rows[:50]]
    others = [
        Chem.MolToRandomSmilesVect(one, 1, randomSeed=7)[0] for one in again
    ]
    assert sum(a != b for a, b in zip(rows, others, strict=False)) > 40
    bad = nci()[2097], "", "C1CC", "CC(C)(C)(C)C"
    return [*rows, *others, *bad]


@pytest.fixture(scope="module")
def folder(lines, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("smiles")
    done = prepare(lines, path, processes=1, shard=SHARD)
    assert done.lines == LINES + 50 + 4
    assert done.refused == 4
    assert done.train + done.test + done.again + done.refused == done.lines
    return path


@pytest.fixture(scope="module")
def data(folder) -> Molecules:
    return Molecules(folder / "train")


def index(ids) -> np.ndarray:
    ids = np.asarray(ids, np.int64)
    return np.stack([0 * ids, ids])


# Tokens


def test_text_comes_back_whatever_the_tokens_are() -> None:
    """Known atoms are one token, others their letters, and none is lost."""
    all_ = [*chembl().smiles[::20], *nci()[::5]]
    few, none = Tokens(frequent(all_[:50])), Tokens([])
    for one in [*all_, "[Cl-].C%12CC%12Br", "[Sc]CSc1ccnc1"]:
        assert few.decode(few.encode(one)) == one
        assert none.encode(one) == one.encode()
        assert len(few.encode(one)) <= len(one)
    made = Tokens(["Br", "Cl", "[nH]"])
    assert [*made.encode("Clc1c[nH]c1[Cl-]")][:2] == [129, ord("c")]
    assert made.encode("[Cl-]") == b"[Cl-]"  # and not a chlorine within
    assert made.encode("[nH]") == bytes([130])


def test_the_most_frequent_tokens_get_an_id() -> None:
    rows = ["[nH][nH]", "[O-]C", "[A]" * 3, *(f"[{i}X]" for i in range(200))]
    found = frequent(rows)
    assert found[:5] == ["Br", "Cl", "[A]", "[nH]", "[0X]"]
    assert len(found) == 128
    with pytest.raises(ValueError, match="129 tokens do not fit"):
        Tokens([*found, "[more]"])
    with pytest.raises(UnicodeEncodeError):
        Tokens(found).encode("Cé")


# Preparing


def test_one_text_for_all_ways_to_write_a_molecule() -> None:
    assert {canonical(one) for one in ("OCC", "C(O)C", "CCO")} == {
        Line("CCO", "")
    }
    assert canonical("").refused.endswith("no atom")
    assert "valence for atom # 1 C, 5" in canonical("CC(C)(C)(C)C").refused
    assert "cannot be read" in canonical("C1CC").refused


def test_lines_keep_their_order_whoever_works_on_them() -> None:
    """Also where the first task is the last to be done."""
    rows = [*chembl().smiles[:1000], "C1CC", *nci()[:30], *["C"] * 2969]
    one, two = ([*all_canonical(iter(rows), n)] for n in (1, 2))
    assert one == two
    assert one[900:1040] == [canonical(each) for each in rows[900:1040]]
    assert len(one) == 4000


def test_lines_are_read_a_little_ahead() -> None:
    """A pool's `imap` reads all of them before the first is done."""
    taken = 0

    def counted(n: int = 12_000) -> Iterator[str]:
        nonlocal taken
        for _ in range(n):
            taken += 1
            yield "C"

    next(all_canonical(counted()))
    assert taken <= 3000
    taken = 0
    with get_context("fork").Pool(1) as pool:
        next(pool.imap(len, counted()))
        while taken < 12_000:  # it goes on by itself
            time.sleep(0.01)


def test_the_store_has_each_molecule_once(lines, folder) -> None:
    """Those of its lines, as RDKit writes them; others are on the list."""
    wanted = Counter(canonical(one).canonical for one in lines)
    del wanted[""]
    found = []
    for part in ("train", "test"):
        data = Molecules(folder / part)
        rows = data.rows(np.arange(len(data)))
        found += [data.tokens.decode(one.tobytes()) for one in rows]
    assert sorted(found) == sorted(wanted)
    assert max(wanted.values()) > 1
    refused = (folder / "refused.jsonl").read_text().splitlines()
    numbers = [json.loads(one)["line"] for one in refused]
    assert numbers == [*range(LINES + 50, LINES + 54)]


def test_the_store_depends_on_molecules_alone(lines, folder, tmp_path) -> None:
    """Not on the order of the lines, on repeats, or on who worked."""
    prepare([*lines[::-1], *lines[5:9]], tmp_path, processes=2, shard=SHARD)
    for part in ("train", "test"):
        assert (
            Molecules(tmp_path / part).fingerprint
            == Molecules(folder / part).fingerprint
        )
    short = tmp_path / "short"
    prepare(lines[:-60], short, shard=SHARD)
    assert (
        Molecules(short / "train").fingerprint
        != Molecules(folder / "train").fingerprint
    )


def test_a_file_of_ones_own_is_prepared(tmp_path, capsys) -> None:
    lines, made = tmp_path / "lines.smi", tmp_path / "store"
    lines.write_text("OCC ethanol\nCCO,1\nC1CC\nc1ccncc1\n")
    assert main([str(lines), str(made)]) == 0
    said = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert said["lines"] == "4"
    assert said["refused"] == said["again"] == "1"
    assert len(Molecules(made / "train")) == int(said["train"])
    none = str(tmp_path / "none.smi")
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    for wrong, why in (
        ([str(lines)], "LINES STORE"),
        ([none, str(made)], "No such file"),
    ):
        assert main(wrong) == 2
        assert why in capsys.readouterr().err
    after = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    assert after == before


def test_sorting_keeps_the_first_of_equal_texts(tmp_path) -> None:
    """Exactly: what differs in one bracket, or in case, is another."""
    rows = ["cc\t0", "CC\t1", "C(C)\t2", "CC\t3", "C[C@H]\t4", "C[C@@H]\t5"]
    source, result = tmp_path / "a.tsv", tmp_path / "b.tsv"
    many = [f"N{'C' * (i % 997)}\t{i}" for i in range(6, 5000)]
    source.write_text("\n".join([*rows, *many]) + "\n")
    unique(source, result, "64K")
    found = result.read_text().splitlines()
    assert {*found} == {*rows[:3], *rows[4:], *many[:997]}
    assert [*texts(result)] == sorted(one.split("\t")[0] for one in found)


# The store


def test_a_batch_is_its_molecules_side_by_side(folder, data) -> None:
    """Across shards, with repeats, and with none."""
    assert len(data.begins) > 3
    whole = [*texts(folder / "unique.tsv")]
    for ids in ([99, 0, 100, 101, 250, 99], [7], []):
        own, inputs, labels = data[index(ids)]
        assert own.tolist() == ids
        for i, read, asked in zip(ids, inputs, labels, strict=True):
            text = data.tokens.decode(data.rows(np.array([i]))[0].tobytes())
            assert text in whole
            n = len(data.tokens.encode(text))
            assert read[0] == BEGIN
            assert read[1 : n + 1].tolist() == [*data.tokens.encode(text)]
            assert asked[:n].tolist() == read[1 : n + 1].tolist()
            assert asked[n] == END
            assert (read[n + 1 :] == PAD).all()
            assert (asked[n + 1 :] == IGNORED).all()
    assert inputs.shape == (0, 1)
    assert inputs.dtype == torch.uint8


def test_ranks_and_workers_read_the_trainers_order(data) -> None:
    """Each molecule of an epoch once, from forked and from fresh workers."""
    data[index([1, 150])]  # mapped here before any worker starts
    n = len(data)
    cfg = TrainConfig(Path(), global_batch_size=32, micro_batch_size=16)
    seen: list[int] = []
    for rank, context in enumerate(("fork", "spawn")):
        me = Process(rank, 2, torch.device("cpu"))
        loader = DataLoader(
            data,
            sampler=[*shares(cfg, me, n, 0, n)],
            batch_size=None,
            num_workers=2,
            multiprocessing_context=context,
        )
        for own, inputs, _ in loader:
            seen += own.tolist()
            same = data[index(own.numpy())].inputs
            assert inputs.equal(same)
    assert sorted(seen) == [*range(n)]


def test_a_worker_is_sent_a_path(data) -> None:
    data[index([1, 150])]
    assert data.opened
    again = pickle.loads(pickle.dumps(data))
    assert not again.opened
    assert len(pickle.dumps(data)) < len(pickle.dumps(data.__dict__)) / 2
    assert again[index([150])].inputs.equal(data[index([150])].inputs)


def test_a_shard_too_large_for_its_ends_is_refused(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(store, "MOST", 10)
    with pytest.raises(ValueError, match="12 tokens: make shards smaller"):
        write(tmp_path, ["CCCC"] * 3, Tokens([]))
    assert write(tmp_path, ["CCCC"] * 3, Tokens([]), size=2) == 3
    assert len(Molecules(tmp_path)) == 3
    assert write(tmp_path / "none", [], Tokens([])) == 0
    assert len(Molecules(tmp_path / "none")) == 0


# What goes wrong


def test_a_stream_dealt_to_ranks_is_read_by_each_worker() -> None:
    """A stream that is dealt to ranks and not to workers is read several times:
    4,800 samples come again. Dealt to workers too, each comes once, and ranks
    may have unequal numbers of batches."""
    by_rank = streams.epoch(4, by_worker=False)
    assert (by_rank.again, by_rank.never) == (4800, 0)
    assert streams.epoch(4, by_worker=True) == (0, 0, [24, 24])
    assert streams.epoch(2, by_worker=True) == (0, 0, [48, 0])


def test_a_buffer_leaves_the_order_of_the_disk() -> None:
    found = {
        name.split()[0]: streams.trend(places)
        for name, places in streams.orders(20_000, 500).items()
    }
    assert found["as"] == pytest.approx(1)
    assert found["buffer"] > 0.99
    assert abs(found["keyed"]) < 0.03


def test_what_streams_do_is_printed(monkeypatch, capsys) -> None:
    monkeypatch.setattr(
        streams, "epoch", lambda *_: streams.Epoch(3, 4, [5, 6])
    )
    streams.main()
    out = capsys.readouterr().out
    assert out.count("       3      4  5 and 6") == 4
    trends = [float(row.split()[-2]) for row in out.splitlines()[-3:]]
    assert trends[0] == 1
    assert trends[1] > 0.99 > 0.02 > abs(trends[2])


def hang(good: list[bool], skip: bool) -> skips.Made:
    from tests import ranks

    return skips.train(ranks.store(), good, skip)


@pytest.mark.parametrize("bad", daily([1, 16], 1))
def test_ranks_that_skip_wait_for_each_other_in_vain(bad) -> None:
    """One bad line is enough where it takes a rank its last full batch."""
    good = [True] * 64
    good[1 : 2 * bad : 2] = [False] * bad
    ranks = run_ranks(2, hang, good, True)
    assert [one.steps for one in ranks] == [(32 - bad) // 8] * 2
    assert ranks[0].error
    told = run_ranks(2, hang, good, False)
    assert [one.error for one in told] == ["", ""]
    assert told[0].steps == told[1].steps == -(-(64 - bad) // 16)


def test_a_bad_line_that_is_answered_with_the_next_repeats_it() -> None:
    assert skips.replaced([True, False, True, False, False, True]) == 2


def test_what_skipping_does_is_printed(monkeypatch, capsys) -> None:
    monkeypatch.setattr(skips, "nci", lambda: [*nci()[:31], "C1CC"])
    skips.main()
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "32 lines, RDKit refuses 1"
    assert [row.split(", then ")[1] for row in out if "steps" in row] == [
        "an error after 3 s",
        "an error after 3 s",
        "done",
        "done",
    ]


# What holds at a million and not at a billion


def test_ends_that_wrap_read_nothing_or_another_place() -> None:
    """Ends of 16 or 8 bits wrap, and slices by them return nothing or bytes of
    a different place, exactly as Python slices bytes."""
    rng = np.random.default_rng(0)
    for kind, n in ((np.int16, 3000), (np.int8, 40)):
        lengths = rng.integers(1, 40, n)
        raw = rng.bytes(int(lengths.sum()))
        true = np.cumsum([0, *lengths])
        ends = np.cumsum([0, *lengths], dtype=kind)
        wrong = [
            (i, raw[ends[i] : ends[i + 1]])
            for i in range(n)
            if raw[ends[i] : ends[i + 1]] != raw[true[i] : true[i + 1]]
        ]
        found = scale.reads(lengths, kind)
        assert found.first == wrong[0][0] > 0
        assert found.empty == sum(not text for _, text in wrong) > 0
        assert found.others == sum(bool(text) for _, text in wrong) > 0
    assert scale.reads(lengths, np.int64) == (-1, 0, 0)


def test_to_read_a_list_in_a_fork_is_to_copy_it() -> None:
    """A forked process that reads a list of texts comes to own more than 80 %
    of their memory. Reading a NumPy array of the same kind copies less than 20
    %."""
    texts_ = [f"{i:040d}" for i in range(100_000)]
    held = 89 * len(texts_)  # bytes of such texts
    assert scale.after_fork(scale.each, texts_) > 0.8 * held
    assert scale.after_fork(np.sum, np.zeros(10**7, np.uint8)) < 0.2 * held


def test_short_digests_take_molecules_for_others() -> None:
    texts_ = [f"{i}" for i in range(2000)]
    found = scale.merged(texts_, 16)
    assert found == pytest.approx(scale.expected(2000, 16), rel=0.3)
    assert scale.merged(texts_, 64) == 0
