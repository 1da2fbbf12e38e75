"""What pages say of torch's ports and recorder, on the torch that is here."""

import json
import os
import pickle
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import (
    C10dRendezvousBackend,
)
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import (
    RendezvousSettings,
    RendezvousTimeout,
    _BackendRendezvousStateHolder,
)

from lockstep.trainer.process import joined
from tests import ranks


def store(port: int = 0, is_master: bool = False) -> dist.TCPStore:
    return dist.TCPStore(
        "127.0.0.1", port, is_master=is_master, wait_for_workers=False
    )


def test_a_store_for_this_host_listens_on_every_interface() -> None:
    """A `TCPStore` for 127.0.0.1 listens on all network interfaces."""
    server = store(is_master=True)
    lines = Path("/proc/net/tcp6").read_text().splitlines()[1:]
    local = [line.split()[1] for line in lines if line.split()[3] == "0A"]
    assert f"{'0' * 32}:{server.port:04X}" in local


class Marks:
    """A pickle that leaves a file where it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


def test_an_agent_runs_what_somebody_put_into_its_store(tmp_path: Path) -> None:
    """A pickled object that a stranger puts into the rendezvous store runs its
    code in the agent that reads it."""
    server = store(is_master=True)
    stranger = C10dRendezvousBackend(store(server.port), "run")
    stranger.set_state(pickle.dumps(Marks(tmp_path / "ran")))
    settings = RendezvousSettings(
        "run", 1, 2, RendezvousTimeout(), timedelta(seconds=5), 3
    )
    agent = _BackendRendezvousStateHolder(
        C10dRendezvousBackend(server, "run"), settings
    )
    with pytest.raises(AttributeError):  # what it read is no state
        agent.sync()
    assert (tmp_path / "ran").exists()


def recorded() -> list[str]:
    """What the flight recorder has after three all-reduces."""
    os.environ.pop("TORCH_FR_BUFFER_SIZE", None)
    os.environ.pop("TORCH_NCCL_TRACE_BUFFER_SIZE", None)
    with joined(30, ranks.store()):
        for _ in range(3):
            dist.all_reduce(torch.ones(1))
        entries = json.loads(c10d._dump_fr_trace_json())["entries"]
    return [entry["profiling_name"] for entry in entries]


def test_the_flight_recorder_is_on_for_gloo() -> None:
    """In a process of its own: it reads its size once."""
    assert ranks.run_ranks(2, recorded) == [["gloo:all_reduce"] * 3] * 2
