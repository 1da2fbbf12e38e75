"""What pages say of torch's ports and recorder, on the torch that is here."""

import json
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
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
    DynamicRendezvousHandler,
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


class Agents:
    """Agents of hosts 127.0.0.1 and up, as torchrun lets them meet."""

    def __init__(self) -> None:
        self.server = store(is_master=True)
        self.handlers: dict[int, DynamicRendezvousHandler] = {}

    def add(self, host: int) -> None:
        client = store(self.server.port)
        self.handlers[host] = DynamicRendezvousHandler.from_backend(
            "run",
            client,
            C10dRendezvousBackend(client, "run"),
            min_nodes=1,
            max_nodes=3,
            local_addr=f"127.0.0.{host}",
            timeout=RendezvousTimeout(last_call=timedelta(seconds=1)),
            keep_alive_interval=1,
            keep_alive_max_attempt=2,
        )

    def lose(self, host: int) -> None:
        """It says nothing any more, and is not told to leave."""
        self.handlers.pop(host)._stop_heartbeats()

    def meet(self) -> dict[int, tuple[int, str]]:
        """By host: its group rank, and the MASTER_ADDR of its ranks."""

        def join(handler: DynamicRendezvousHandler) -> tuple[int, str]:
            found = handler.next_rendezvous()
            assert found.bootstrap_store_info
            return found.rank, found.bootstrap_store_info.master_addr

        with ThreadPoolExecutor() as pool:
            met = pool.map(join, self.handlers.values())
            return dict(zip(self.handlers, met, strict=True))


@pytest.mark.parametrize("disabled", ["0", "1"])
def test_agents_keep_the_address_of_a_rank_0_that_is_lost(
    disabled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three hosts lose group rank 0's. The next one opens a store for the
    ranks, and the third still sends its ranks to the lost host, unless
    `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1`."""
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", disabled)
    agents = Agents()
    for host in (1, 2, 3):
        agents.add(host)
    lost, new = "127.0.0.1", "127.0.0.2"
    assert agents.meet() == {1: (0, lost), 2: (1, lost), 3: (2, lost)}
    agents.lose(1)
    third = new if disabled == "1" else lost
    assert agents.meet() == {2: (0, new), 3: (1, third)}
