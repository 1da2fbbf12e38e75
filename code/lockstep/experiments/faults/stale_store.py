"""The launch before left its addresses in the store. Who trusts them?

python -m lockstep.experiments.faults.stale_store
"""

import os
from datetime import timedelta

import torch.distributed as dist

from lockstep.experiments.faults.forked_rank import Rank
from lockstep.trainer.extensions.launcher import untouched


# --8<-- [start:meet]
def meet(rank: int, port: int, mend: bool, seconds: float) -> str:
    """Join the other rank through the store at `port`."""
    limit = timedelta(seconds=seconds)
    store: dist.Store = dist.TCPStore("127.0.0.1", port, timeout=limit)
    if mend:
        store = untouched(store, rank, 2)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=2, timeout=limit
    )
    dist.barrier()
    return "both met"


# --8<-- [end:meet]
def second_launch(mend: bool, seconds: float = 60) -> str:
    """Two launches in one store: what rank 1 of the second finds if it comes
    first. `mend`: each launch has a part of the store to itself."""
    server = dist.TCPStore("127.0.0.1", 0, is_master=True)
    first = [Rank(meet, rank, server.port, mend, 60.0) for rank in (0, 1)]
    for rank in first:
        rank.said()
    early = Rank(meet, 1, server.port, mend, seconds)
    if mend:  # it waits for rank 0, as it should
        Rank(meet, 0, server.port, mend, seconds).said()
    return early.said().partition(" with [")[0]  # and a place in gloo


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # ranks are forked
    print("the store as it is:", second_launch(mend=False, seconds=3))
    print("a part of its own: ", second_launch(mend=True))
