"""A Distributed Checkpoint that is half of one step and half of the next.

    torchrun --nproc-per-node=2 \\
        -m lockstep.experiments.demos.torn_checkpoint save DIR
    python -m lockstep.experiments.demos.torn_checkpoint load DIR
"""

import os
import signal
import sys
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard


# --8<-- [start:torn]
class Dying(dcp.FileSystemWriter):
    """Rank 1 is killed when rank 0 has written, and before it writes."""

    def write_data(self, *plans: Any) -> Any:
        if dist.get_rank() == 0:
            wrote = super().write_data(*plans)
            dist.barrier()
            return wrote
        dist.barrier()
        return os.kill(os.getpid(), signal.SIGKILL)


def save(folder: str) -> None:
    """Step 1, and then step 2 into the same folder. Runs on two ranks."""
    mesh = init_device_mesh("cpu", (2,))
    for step, writer in (1, dcp.FileSystemWriter), (2, Dying):
        mine = torch.full((2,), float(step))
        whole = DTensor.from_local(mine, mesh, [Shard(0)])
        dcp.save({"weights": whole}, storage_writer=writer(folder))


def load(folder: str) -> Tensor:
    """What the next launch reads."""
    state = {"weights": torch.zeros(4)}
    dcp.load(state, checkpoint_id=folder, no_dist=True)
    return state["weights"]


# --8<-- [end:torn]
if __name__ == "__main__":
    if sys.argv[1] == "save":
        dist.init_process_group("gloo")
        save(sys.argv[2])
    print("loaded, without an error:", load(sys.argv[2]).tolist())
