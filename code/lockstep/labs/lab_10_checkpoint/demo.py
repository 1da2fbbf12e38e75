"""Four checkpoints, two of them damaged, and the launch that follows.

On two processes: `torchrun --nproc-per-node=2 -m` with the name of this module,
then the file.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from lockstep.labs.demo import show


def main(answer: Any) -> None:
    """Publish, damage, restore; and who would train on what."""
    rank = dist.get_rank()
    box = [tempfile.mkdtemp(prefix="run-") if rank == 0 else ""]
    dist.broadcast_object_list(box)
    root = Path(box[0])
    for step in (1, 2, 3, 4):
        model = {"model": torch.full((2,), step)} if rank == 0 else {}
        answer.publish(root, step, {f"rank-{rank}": step, **model})
    if rank == 0:
        os.truncate(root / "step-00000004" / "model.pt", 700)
        (root / "step-00000003" / "manifest.json").unlink()
    dist.barrier()
    folder = answer.newest(root)
    if rank == 0:
        print("restored", answer.load(folder, "model").tolist())
        for world in (1, 2, 3):
            dealt = [answer.share(10, 0, 8, 6, r, world) for r in range(world)]
            print(f"positions 8 to 13, {world} ranks: {dealt}")
    dist.barrier()
    if rank == 0:
        shutil.rmtree(root)


if __name__ == "__main__":
    show(main)
