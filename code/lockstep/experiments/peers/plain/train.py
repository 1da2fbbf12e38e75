"""Plain PyTorch: DDP, torchdata's StatefulDataLoader, and DCP.

The state that a restart needs is one dictionary of `Stateful` objects, as the
tutorial on distributed checkpoints has it. The loader's state is kept for each
rank, since torchdata says that it does not gather it across ranks.
"""

import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import mending
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    get_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.stateful import Stateful
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

from lockstep.exam.task import Model, Samples
from lockstep.experiments.peers.launching import arguments
from lockstep.experiments.peers.repairs import Notice

KEEP = 2  # checkpoints
GPU = torch.cuda.is_available()


class AppState(Stateful):
    """Model and optimizer, by DCP's own helpers."""

    def __init__(self, model: nn.Module, optimizer: Optimizer) -> None:
        self.model, self.optimizer = model, optimizer

    def state_dict(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state_dict["model"],
            optim_state_dict=state_dict["optimizer"],
        )


class OfRank(Stateful):
    """A state that each rank has of its own, under a key of its own."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.key = inner, f"rank-{dist.get_rank()}"

    def state_dict(self) -> dict[str, Any]:
        return {self.key: self.inner.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.inner.load_state_dict(state_dict[self.key])


class Progress(Stateful):
    """How far the run is."""

    epoch = 0
    step = 0

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "step": self.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epoch, self.step = state_dict["epoch"], state_dict["step"]


def whole(run_dir: Path) -> list[Path]:
    """The checkpoints whose save came to its end, oldest first: DCP writes
    `.metadata` last."""
    return sorted(path.parent for path in run_dir.glob("step-*/.metadata"))


def save(state: dict[str, Any], run_dir: Path, step: int, mended: bool) -> None:
    """One more checkpoint, and the oldest ones away."""
    path = run_dir / f"step-{step:06d}"
    dcp.save(state, checkpoint_id=path)
    if dist.get_rank() == 0:
        if mended:
            mending.write_sums(path)
        for old in whole(run_dir)[:-KEEP]:
            shutil.rmtree(old)


def load(state: dict[str, Any], run_dir: Path, mended: bool) -> None:
    """The newest checkpoint into `state`, if there is one."""
    if mended:
        if path := mending.newest(whole(run_dir)):
            reader = mending.Reader(path)
            dcp.load(state, storage_reader=reader, planner=mending.Planner())
    elif paths := whole(run_dir):
        dcp.load(state, checkpoint_id=paths[-1])


def main() -> None:
    """Train, from wherever the run directory says."""
    args = arguments()
    timeout = timedelta(seconds=args.timeout_seconds)
    dist.init_process_group("nccl" if GPU else "gloo", timeout=timeout)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device = torch.device("cpu")
    if GPU:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    torch.manual_seed(args.seed + rank)
    fp16 = args.precision == "fp16"

    samples = Samples()
    sampler: Any
    if args.mended:
        sampler = mending.SharedBatches(samples, args.global_batch, args.seed)
        loader = StatefulDataLoader(
            samples,
            batch_sampler=sampler,
            num_workers=args.workers,
            generator=torch.Generator().manual_seed(args.seed + rank),
        )
    else:
        sampler = StatefulDistributedSampler(samples, seed=args.seed)
        loader = StatefulDataLoader(
            samples,
            batch_size=args.global_batch // ranks,
            sampler=sampler,
            num_workers=args.workers,
        )
    model = DistributedDataParallel(Model().to(device))
    optimizer = AdamW(model.parameters(), lr=1e-3)
    scheduler = LambdaLR(
        optimizer, lambda k: min((k + 1) / 4, 1 - k / (args.steps + 1))
    )
    scaler = torch.amp.GradScaler(device.type, enabled=fp16)

    progress = Progress()
    state = {
        "app": AppState(model, optimizer),
        "scheduler": scheduler,
        "scaler": scaler,
        "loader": OfRank(loader),
        "progress": progress,
    }
    if args.mended:
        state["loader"] = loader  # its state no longer depends on the rank
        state["random"] = mending.RandomStates()
        state["run"] = mending.SameRun({"seed": args.seed}, samples.x)
    load(state, args.run_dir, args.mended)
    told = Notice(device) if args.mended else None

    while progress.step < args.steps:
        sampler.set_epoch(progress.epoch)
        for batch in loader:
            x, labels = batch["x"].to(device), batch["labels"].to(device)
            with torch.autocast(device.type, torch.float16, enabled=fp16):
                loss = model(x, labels)["loss"]
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            scheduler.step()
            progress.step += 1
            last = progress.step in (args.stop_at, args.steps)
            last = last or (told is not None and told.by_anyone())
            if last or progress.step % args.save_every == 0:
                save(state, args.run_dir, progress.step, args.mended)
            if last:
                return
        progress.epoch += 1


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
