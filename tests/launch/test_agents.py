"""What torchrun's agents agree on when one of them is gone, without hosts."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch.distributed as dist
from torch.distributed.elastic.rendezvous import dynamic_rendezvous
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import (
    C10dRendezvousBackend,
)
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import (
    DynamicRendezvousHandler,
    RendezvousTimeout,
)

from tests.jobs import until


@pytest.fixture
def agents(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[int], list[DynamicRendezvousHandler]]:
    """Make that many agents, host n at 127.0.0.n, with one store for all."""
    monkeypatch.setattr(
        dynamic_rendezvous, "_delay", lambda **_: time.sleep(0.02)
    )
    server = dist.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )

    def make(count: int) -> list[DynamicRendezvousHandler]:
        made = []
        for number in range(1, count + 1):
            store = dist.TCPStore("127.0.0.1", server.port, is_master=False)
            made.append(
                DynamicRendezvousHandler.from_backend(
                    *("demo", store, C10dRendezvousBackend(store, "demo")),
                    *(1, count, f"127.0.0.{number}"),
                    RendezvousTimeout(last_call=timedelta(seconds=1)),
                    keep_alive_interval=1,
                )
            )
        return made

    return make


def meet(agents: list[DynamicRendezvousHandler]) -> list[str]:
    """All meet, and each says where its ranks would look for their store."""
    with ThreadPoolExecutor(len(agents)) as pool:
        met = list(pool.map(lambda agent: agent.next_rendezvous(), agents))
    return [each.bootstrap_store_info.master_addr for each in met]


@pytest.mark.parametrize(
    ("own_store", "third"), [("0", "127.0.0.1"), ("1", "127.0.0.2")]
)
def test_a_third_host_keeps_the_address_of_a_lost_store(
    own_store: str,
    third: str,
    agents: Callable[[int], list[DynamicRendezvousHandler]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of three agents, with group rank 0, is lost. The second one becomes
    group rank 0 and opens a store. The third one's ranks get the lost store's
    address, unless TORCH_DISABLE_SHARE_RDZV_TCP_STORE is 1."""
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", own_store)
    lost, *left = agents(3)
    assert meet([lost, *left]) == ["127.0.0.1"] * 3
    lost._stop_heartbeats()
    assert meet(left) == ["127.0.0.2", third]
    for agent in left:
        agent._stop_heartbeats()


def test_a_silent_agent_is_counted_out_while_the_ranks_wait(
    agents: Callable[[int], list[DynamicRendezvousHandler]],
) -> None:
    """An agent falls silent. The other one drops it after three intervals,
    although its own ranks have not ended and it has not gone back to meet."""
    lost, left = agents(2)
    meet([lost, left])
    assert len(left._state_holder.state.participants) == 2
    lost._stop_heartbeats()
    until(
        lambda: len(left._state_holder.state.participants) == 1,
        "the silent agent was counted out",
    )
    left._stop_heartbeats()
