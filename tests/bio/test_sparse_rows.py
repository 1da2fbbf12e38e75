"""Counts on disk: the same numbers, no more than a batch of them."""

import pickle
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from torch.utils.data import DataLoader

from lockstep.bio import sparse_rows
from lockstep.bio.sparse_rows import Rows, peak, synthetic, write
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.data import shares
from lockstep.trainer.process import Process

SIZES = 40, 25, 35  # rows of each shard


@pytest.fixture(scope="module")
def counts() -> sparse.csr_array:
    return synthetic(sum(SIZES), 300, seed=0)


@pytest.fixture(scope="module")
def data(counts, tmp_path_factory) -> Rows:
    folder = tmp_path_factory.mktemp("rows")
    ends = np.cumsum((0, *SIZES))
    write(folder, (counts[a:b] for a, b in pairwise(ends)))
    return Rows(folder, np.arange(sum(SIZES)) % 2)


def index(ids) -> np.ndarray:
    ids = np.asarray(ids)
    return np.stack([0 * ids, ids])


def test_a_batch_is_the_rows_in_their_order(counts, data) -> None:
    """Across shards, with repeats, and with none."""
    for ids in ([99, 0, 40, 39, 64, 65, 39], [5], np.array([], int)):
        own, dense, labels = data[index(ids)]
        assert own.tolist() == [*ids]
        assert np.array_equal(dense, counts[np.asarray(ids, int)].toarray())
        assert labels.tolist() == [one % 2 for one in ids]
    assert dense.shape == (0, 300)
    assert dense.dtype == torch.float32


@pytest.mark.parametrize(("context", "workers"), [("fork", 2), ("spawn", 1)])
def test_workers_read_what_one_process_reads(data, context, workers) -> None:
    """Two forked loader workers, and a spawned one, return the same rows in the
    same order as one process."""
    data[index([1, 50])]  # opened here before any worker starts
    order = [index(np.arange(i, 100, 7)) for i in range(7)]
    settings = {"sampler": order, "batch_size": None}
    alone = [*DataLoader(data, **settings)]
    settings |= {"num_workers": workers, "multiprocessing_context": context}
    others = DataLoader(data, **settings)
    for (ids, x, y), (their_ids, their_x, their_y) in zip(
        alone, others, strict=True
    ):
        assert ids.equal(their_ids)
        assert x.equal(their_x)
        assert y.equal(their_y)


def test_ranks_get_the_trainers_order(counts, data) -> None:
    """Two ranks' steps together are one rank's."""
    cfg = TrainConfig(Path(), global_batch_size=12, micro_batch_size=6)

    def steps(world: int) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in range(5)]
        for rank in range(world):
            me = Process(rank, world, torch.device("cpu"))
            micro = [*shares(cfg, me, len(data), 0, 60)]
            per = len(micro) // 5
            for i, part in enumerate(micro):
                own, dense, _ = data[part]
                assert np.array_equal(dense, counts[own.numpy()].toarray())
                found[i // per] += own.tolist()
        return [sorted(one) for one in found]

    assert steps(2) == steps(1)


def test_a_worker_is_sent_a_path_and_no_counts(data) -> None:
    data[index([1, 50, 99])]
    assert data.opened
    sent = pickle.dumps(data)
    assert len(sent) < len(pickle.dumps(data.__dict__)) / 3
    again = pickle.loads(sent)
    assert not again.opened
    assert again[index([70])][1].equal(data[index([70])][1])


def test_a_batch_costs_its_rows(data, counts) -> None:
    data[index([0])]  # opens files and loads code, once
    cost = peak(data.__getitem__, index(np.arange(10)))
    assert cost < 3 * 10 * 300 * 4 < peak(counts.toarray)


def test_a_gene_named_twice_in_a_row_is_added_up(tmp_path) -> None:
    twice = sparse.csr_array(
        (np.array([2, 3, 1]), np.array([4, 4, 0]), np.array([0, 2, 3])), (2, 5)
    )
    write(tmp_path, [twice])
    _, dense, _ = Rows(tmp_path, np.zeros(2))[index([0, 1])]
    assert dense.tolist() == [[0, 0, 0, 0, 5], [1, 0, 0, 0, 0]]


def test_what_is_no_counts_is_refused(tmp_path, data) -> None:
    with pytest.raises(ValueError, match="float64, not counts"):
        write(tmp_path, [sparse.csr_array(np.ones((2, 2)))])
    blocks = [synthetic(3, genes, 0) for genes in (5, 6)]
    with pytest.raises(ValueError, match="block 1 has 6 genes, those before 5"):
        write(tmp_path, blocks)
    with pytest.raises(ValueError, match="99 labels, 100 rows"):
        Rows(data.folder, np.zeros(99))


def test_the_fingerprint_changes_with_counts_and_labels(
    counts, data, tmp_path
) -> None:
    labels = data.labels.numpy()
    other = counts.copy()
    other.data[7] += 1
    write(tmp_path, [other[:40], other[40:65], other[65:]])
    assert Rows(tmp_path, labels).fingerprint != data.fingerprint
    assert Rows(data.folder, 1 - labels).fingerprint != data.fingerprint
    assert Rows(data.folder, labels).fingerprint == data.fingerprint


def test_ends_of_rows_do_not_overflow(data) -> None:
    """An atlas stores more than 2³¹ counts."""
    assert data.shard(0)[2].dtype == np.int64


def test_costs_are_printed(monkeypatch, capsys) -> None:
    small = synthetic(1024, 200, 0)
    monkeypatch.setattr(sparse_rows, "synthetic", lambda *_: small)
    sparse_rows.main()
    lines = capsys.readouterr().out.splitlines()
    cost = {line[:22].strip(): float(line.split()[-2]) for line in lines[2:]}
    assert cost["a batch of 64"] < cost["all, made dense first"] / 4
    assert cost["to a new worker"] < cost["with its maps"]
