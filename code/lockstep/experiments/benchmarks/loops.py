"""The trainer's competitors: a bare DDP loop, and two peers.

They do the same mathematics: accumulation, gradients weighted by the global
count, clipping, a check for what is not finite, the schedule. Model, data,
order, optimizer and seed are the trainer's own, so that only the loops differ.
Each is a generator that yields after every optimizer step.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from math import isfinite
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader

from lockstep.trainer.config import TrainConfig
from lockstep.trainer.data import Batch, shares
from lockstep.trainer.model import make_task
from lockstep.trainer.process import Process
from lockstep.trainer.step import learning_rate


class Parts(NamedTuple):
    """What every loop is given: equal to the others', and its own."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loader: DataLoader[Batch]  # this rank's micro-batches of the whole run
    rates: list[float]  # the learning rate of every step
    world_size: int
    accum: int  # micro-batches of a rank in a step
    weight: float  # of a loss: DDP divides by the ranks, we by the samples
    clip_norm: float


def parts(cfg: TrainConfig, me: Process) -> Parts:
    """As the trainer builds them. `cfg` has its batch arithmetic filled in."""
    model, data, *_ = make_task(cfg)
    optimizer = torch.optim.AdamW(
        model.parameters(), weight_decay=cfg.weight_decay
    )
    steps, batch = cfg.max_steps or 1, cfg.global_batch_size or 1
    mine = shares(cfg, me, len(data), 0, steps * batch)
    loader = DataLoader(
        data, batch_size=None, sampler=mine, generator=torch.Generator()
    )
    rates = [learning_rate(cfg, step, steps) for step in range(steps)]
    accum, world = cfg.grad_accum_steps or 1, me.world_size
    weight = world / batch
    return Parts(
        model, optimizer, loader, rates, world, accum, weight, cfg.clip_norm
    )


def require_finite(norm: Tensor) -> None:
    """FloatingPointError for a gradient norm that is not; reads the host."""
    if not isfinite(norm.item()):
        raise FloatingPointError(f"gradient norm {norm}")


# --8<-- [start:bare]
def bare(p: Parts) -> Iterator[None]:
    """DDP, and nothing that the mathematics can do without."""
    ddp, source = DistributedDataParallel(p.model), iter(p.loader)
    for rate in p.rates:
        p.optimizer.param_groups[0]["lr"] = rate
        for micro in range(p.accum):
            _, x, y = next(source)
            last = micro + 1 == p.accum
            with nullcontext() if last else ddp.no_sync():
                loss = cross_entropy(ddp(x), y, reduction="sum")
                (loss * p.weight).backward()
        require_finite(clip_grad_norm_(p.model.parameters(), p.clip_norm))
        p.optimizer.step()
        p.optimizer.zero_grad()
        yield


# --8<-- [end:bare]
# --8<-- [start:accelerate]
def accelerate(p: Parts) -> Iterator[None]:
    """Hugging Face Accelerate. `prepare` would shard the loader once more,
    so it is not given the loader, and is not charged for it."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=p.accum)
    model, optimizer = accelerator.prepare(p.model, p.optimizer)
    weight = p.weight * p.accum  # its `backward` divides by that
    rates = iter(p.rates)
    for _, x, y in p.loader:
        with accelerator.accumulate(model):
            loss = cross_entropy(model(x), y, reduction="sum")
            accelerator.backward(loss * weight)
            if accelerator.sync_gradients:
                parameters = model.parameters()
                norm = accelerator.clip_grad_norm_(parameters, p.clip_norm)
                require_finite(norm)
                optimizer.param_groups[0]["lr"] = next(rates)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            yield


# --8<-- [end:accelerate]
# --8<-- [start:fabric]
def fabric(p: Parts) -> Iterator[None]:
    """Lightning Fabric. Its clipping raises by itself for a norm that is not
    finite."""
    from lightning_fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=p.world_size, strategy="ddp")
    fabric.launch()
    model, optimizer = fabric.setup(p.model, p.optimizer)
    loader = fabric.setup_dataloaders(p.loader, use_distributed_sampler=False)
    rates = iter(p.rates)
    for micro, (_, x, y) in enumerate(loader, 1):
        accumulating = micro % p.accum != 0
        with fabric.no_backward_sync(model, enabled=accumulating):
            loss = cross_entropy(model(x), y, reduction="sum")
            fabric.backward(loss * p.weight)
        if not accumulating:
            fabric.clip_gradients(model, optimizer, max_norm=p.clip_norm)
            optimizer.param_groups[0]["lr"] = next(rates)
            optimizer.step()
            optimizer.zero_grad()
            yield


# --8<-- [end:fabric]
LOOPS: dict[str, Callable[[Parts], Iterator[None]]] = {
    "bare": bare,
    "accelerate": accelerate,
    "fabric": fabric,
}
