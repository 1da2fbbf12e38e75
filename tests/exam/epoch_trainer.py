"""A trainer that counts and saves in epochs, and its adapter: what it draws
follows from the epoch, so that it has no random state to save. Of its gradient
scaler it says nothing.
"""

import sys
from math import ceil
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from lockstep.exam.adapter import Launch
from lockstep.exam.task import Model, Samples

lacks = {"stop": "it ends with its last epoch", "save_every": "after epochs"}


def command(launch: Launch) -> list[object]:
    """By torchrun."""
    steps = launch.samples / launch.global_batch  # in an epoch
    return [
        launch.python, "-m", "torch.distributed.run", "--standalone",
        "--max-restarts", 0, "--nproc-per-node", launch.ranks, __file__,
        launch.run_dir, ceil(launch.steps / steps), launch.precision,
    ]  # fmt: skip


def train(run_dir: Path, epochs: int, precision: str) -> None:
    """From the last epoch that was saved, to the last one."""
    dist.init_process_group("gloo")
    rank, path = dist.get_rank(), run_dir / "checkpoints/last.pt"
    half = precision == "fp16"
    data = Samples()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 8, sampler=sampler)
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, enabled=half)
    begin = 0
    if path.exists():
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin = state["epoch"]
    replica = DistributedDataParallel(model)
    for epoch in range(begin, epochs):
        torch.manual_seed(1000 * epoch + rank)
        sampler.set_epoch(epoch)
        for batch in loader:
            with torch.autocast("cpu", torch.float16, enabled=half):
                loss = replica(**batch)["loss"]
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        if rank == 0:
            path.parent.mkdir(exist_ok=True)
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "epoch": epoch + 1,
            }
            torch.save(state, path.with_suffix(".tmp"))
            path.with_suffix(".tmp").replace(path)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    train(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
