"""What torch's own analyzer of flight recorder dumps says."""

import gc
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.flight_recorder import fr_trace
from torch.distributed.flight_recorder.components import loader


def entry(name: str, state: str = "completed") -> dict[str, Any]:
    """The first operation of a group, as torch 2.13 records it."""
    one = {"input_sizes": [[8]], "output_sizes": [[8]], "record_id": 0}
    kinds = {"input_dtypes": ["Float"], "output_dtypes": ["Float"]}
    peer = " " in name
    return {
        "process_group": ("0", "default_pg"),
        "collective_seq_id": int(not peer),
        "p2p_seq_id": int(peer),
        "profiling_name": f"nccl:{name}",
        "state": state,
        "time_created_ns": 1,
        "is_p2p": peer,
        **one,
        **kinds,
    }


def printed(
    folder: Path,
    by_rank: list[list[dict[str, Any]]],
    caplog: pytest.LogCaptureFixture,
) -> str:
    """Return what torchfrtrace logs about the ranks' entries."""
    ranks = str(list(range(len(by_rank))))
    group = {"name": "0", "desc": "default_pg", "ranks": ranks}
    for rank, entries in enumerate(by_rank):
        dump = {"version": "2.10", "pg_config": {"0": group}}
        path = folder / f"trace_{rank}"
        path.write_bytes(pickle.dumps(dump | {"entries": entries}))
    with caplog.at_level(logging.INFO):
        fr_trace.main([str(folder)])
    gc.enable()  # which reading has disabled
    return caplog.text


@pytest.mark.parametrize("first", [0, 1])
def test_torchfrtrace_blames_the_rank_whose_file_it_reads_second(
    first: int,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rank 0 completed an all-reduce that rank 1 didn't complete. torch 2.13's
    torchfrtrace reports COLLECTIVE_STATE_MISMATCH, and calls the rank the
    culprit whose file it reads second, so it may blame rank 0."""
    names = [f"trace_{rank}" for rank in (first, 1 - first)]
    found = [(str(tmp_path), [], names)]
    monkeypatch.setattr(loader.os, "walk", lambda folder: found)
    by_rank = [[entry("all_reduce")], [entry("all_reduce", "scheduled")]]
    said = printed(tmp_path, by_rank, caplog)
    culprit = f"Culprit rank {1 - first}; Error type: COLLECTIVE_STATE_MISMATCH"
    assert culprit in said
    assert said.count("Culprit rank") == 1


def test_torchfrtrace_calls_bystanders_of_a_send_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Rank 0 sends to rank 1 in a group of three. torch 2.13's torchfrtrace
    calls rank 2 missing, although it has no part in the transfer."""
    sent, received = entry("send 0->1"), entry("recv 1<-0")
    said = printed(tmp_path, [[sent], [received], []], caplog)
    assert "Not all ranks joining collective" in said
    assert "missing ranks: {2}" in said
