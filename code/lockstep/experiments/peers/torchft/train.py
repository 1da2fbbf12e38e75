"""The exam's task on torchft: its train_ddp.py, with the periodic checkpoints
that it leaves to its user. Each process is a replica group of its own."""

import argparse
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch.distributed import TCPStore
from torch.distributed.run import main as torchrun
from torchdata.stateful_dataloader import StatefulDataLoader
from torchft import (
    DistributedDataParallel,
    DistributedSampler,
    Manager,
    Optimizer,
    ProcessGroupGloo,
)
from torchft.coordination import LighthouseServer

from lockstep.exam.task import Model, Samples
from lockstep.experiments.peers.launching import arguments

WARM_UP, KEPT = 4, 3  # steps; checkpoints


def train(args: argparse.Namespace) -> None:
    """What each replica group does."""
    rank, ranks = int(os.environ["RANK"]), args.ranks
    torch.manual_seed(args.seed)
    bare = Model()
    if args.mended:  # from here on each rank draws its own dropout
        torch.manual_seed(args.seed + rank)
    data = Samples()
    sampler = DistributedSampler(
        data, rank, ranks, 0, 1, shuffle=True, seed=args.seed
    )
    if args.mended:  # neither padded nor cut: ranks may differ by one sample
        sampler.total_size = len(data)
        sampler.num_samples = len(range(rank, len(data), ranks))
    loader = StatefulDataLoader(
        data,
        batch_size=args.global_batch // ranks,
        sampler=sampler,
        num_workers=args.workers,
        # Else each iterator draws from dropout's.
        generator=torch.Generator() if args.mended else None,
    )
    timeout = timedelta(seconds=args.timeout_seconds)
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timeout),
        load_state_dict=lambda state: load(parts, state),
        state_dict=lambda: state_of(parts),
        min_replica_size=ranks,
        timeout=timeout,
        quorum_timeout=timeout,
        rank=0,
        world_size=1,
        store_addr="localhost",
        store_port=store.port,
        replica_id=f"train_{rank}",
        init_sync=False,  # all begin with one seed
    )
    model = DistributedDataParallel(manager, bare)
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    optimizer = Optimizer(manager, inner)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        inner, lambda step: rate(step, args.steps)
    )
    fp16 = args.precision == "fp16"
    scaler = torch.amp.GradScaler("cpu", enabled=fp16)
    parts = {
        "model": model,
        "optim": optimizer,
        "schedule": schedule,
        "scaler": scaler,
    }

    epoch, random = 0, None
    found = whole(args)
    if found:
        shared = torch.load(found[-1] / "shared.pt")
        load(parts, shared["user"])
        manager.load_state_dict(shared["torchft"])
        mine = torch.load(found[-1] / f"rank-{rank}.pt", weights_only=False)
        loader.load_state_dict(mine["loader"])
        epoch, random = mine["epoch"], mine["random"]
    end = args.stop_at or args.steps
    while manager.current_step() < end:
        if args.mended:
            sampler.set_epoch(epoch)
        for batch in loader:
            if args.mended and random is not None:
                torch.set_rng_state(random)
                random = None
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16, enabled=fp16):
                loss = model(batch["x"], batch["labels"])["loss"]
            scaler.scale(loss).backward()
            before = manager.current_step()
            scaler.step(optimizer)
            scaler.update()
            step = manager.current_step()
            if step == before:  # not committed
                continue
            schedule.step()
            if step % args.save_every == 0 or step == end:
                save(args, manager, parts, loader, epoch)
            if step == end:
                break
        epoch += 1
    manager.shutdown()


def rate(step: int, steps: int) -> float:
    """Up in a few steps, then down to the end."""
    return min((step + 1) / WARM_UP, 1 - step / (steps + 1))


def state_of(parts: dict[str, Any]) -> dict[str, Any]:
    """What all replica groups have alike."""
    return {name: part.state_dict() for name, part in parts.items()}


def load(parts: dict[str, Any], state: dict[str, Any]) -> None:
    """Into the parts."""
    for name, part in parts.items():
        part.load_state_dict(state[name])


def whole(args: argparse.Namespace) -> list[Path]:
    """The checkpoints that have all their files, oldest first."""
    found = sorted(Path(args.run_dir).glob("step-*"))
    return [f for f in found if (f / "whole").exists()]


def save(
    args: argparse.Namespace,
    manager: Manager,
    parts: dict[str, Any],
    loader: StatefulDataLoader,
    epoch: int,
) -> None:
    """The model, optimizer and manager once, the loader of each rank."""
    rank = int(os.environ["RANK"])
    folder = Path(args.run_dir, f"step-{manager.current_step():06}")
    folder.mkdir(parents=True, exist_ok=True)
    mine = {
        "loader": loader.state_dict(),
        "epoch": epoch,
        "random": torch.get_rng_state(),
    }
    torch.save(mine, folder / f"rank-{rank}.pt")
    if rank == 0:
        shared = {"user": state_of(parts), "torchft": manager.state_dict()}
        torch.save(shared, folder / "shared.pt")
    saved = torch.ones(1)
    manager.allreduce(saved).wait()
    if rank == 0 and not manager.errored():
        (folder / "whole").touch()
        for old in whole(args)[:-KEPT]:
            (old / "whole").unlink()
            for path in old.iterdir():
                path.unlink()
            old.rmdir()


def main() -> None:
    """The lighthouse and the launcher, or one of the launched."""
    args = arguments()
    if "RANK" in os.environ:
        return train(args)
    lighthouse = LighthouseServer(
        bind="[::]:0", min_replicas=args.ranks, join_timeout_ms=10_000
    )
    os.environ["TORCHFT_LIGHTHOUSE"] = lighthouse.address()
    return torchrun(
        ["--standalone", "--nproc-per-node", str(args.ranks), *sys.argv]
    )


if __name__ == "__main__":
    main()
