"""Two ranks reduce tensors of two shapes: with torch's checks, and without.

python -m lockstep.experiments.faults.shape_mismatch
"""

import os
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist

from lockstep.experiments.faults.forked_rank import Rank


# --8<-- [start:mismatch]
def mismatched(rank: int, meeting: Path, debug: str) -> None:
    """Sum 8 numbers on rank 0 and 4 on rank 1."""
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = debug
    dist.set_debug_level_from_env()  # torch has read it, when imported
    store = dist.FileStore(str(meeting), 2)
    limit = timedelta(seconds=30)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=2, timeout=limit
    )
    dist.all_reduce(torch.ones(4 if rank else 8))


# --8<-- [end:mismatch]
def said(debug: str) -> list[str]:
    """What each of two ranks says under TORCH_DISTRIBUTED_DEBUG=`debug`."""
    with TemporaryDirectory() as folder:
        meeting = Path(folder) / "store"
        ranks = [Rank(mismatched, rank, meeting, debug) for rank in (0, 1)]
        return [rank.said() for rank in ranks]


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # ranks are forked
    for debug in ("OFF", "DETAIL"):
        for rank, words in enumerate(said(debug)):
            print(f"{debug}, rank {rank}: {words}", flush=True)
