"""One optimizer step."""

from collections.abc import Iterator
from math import cos, isfinite, pi
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from .config import TrainConfig
from .data import Batch
from .model import DataParallel, Task
from .precision import autocast
from .process import Process
from .telemetry import emit, phase


class Replica(NamedTuple):
    """This rank's training state; `model` and below stay equal on all ranks."""

    cfg: TrainConfig
    me: Process
    task: Task
    strategy: DataParallel
    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler


# --8<-- [start:learning_rate]
def learning_rate(cfg: TrainConfig, step: int, steps: int) -> float:
    """Return the rate of a step: linear warm-up, then cosine to a tenth."""
    warm = min(1.0, (step + 1) / (cfg.warmup_steps + 1))
    return cfg.learning_rate * warm * (0.55 + 0.45 * cos(pi * step / steps))


# --8<-- [end:learning_rate]
def mean(parts: list[Tensor], count: int) -> float:
    """Sum all ranks' `parts`, divide by the global `count`; read the device."""
    dist.all_reduce(total := torch.stack(parts).sum())
    return total.item() / count


def train_step(r: Replica, source: Iterator[Batch], count: int,
               step: int) -> tuple[list[Tensor], np.ndarray]:
    """Train on this rank's share of a batch of `count` samples over all ranks.

    Returns each micro-batch's summed loss, unread, and the share's sample ids.
    The one host read is the gradient norm: all ranks read the same and agree.
    """
    losses, ids, accum = [], [], r.cfg.grad_accum_steps or 1
    for micro in range(accum):
        with phase("load"):
            own_ids, x, y = next(source)
        with phase("h2d"):
            x, y = (t.to(r.me.device, non_blocking=True) for t in (x, y))
        ids.append(own_ids)
        with r.strategy.sync_on(last=micro + 1 == accum):
            with phase("forward"), autocast(r.cfg.precision, r.me.device):
                loss = r.task.loss(r.model(x), y)
            losses.append(loss.detach())
            with phase("backward"):  # DDP divides by the world size
                r.scaler.scale(loss * (r.me.world_size / count)).backward()
    with phase("optimizer"):
        r.scaler.unscale_(r.optimizer)
        norm = r.strategy.clip(r.cfg.clip_norm).item()
        # All ranks read the same norm, so either all or no ranks join here.
        whole = 0.0 if isfinite(norm) else mean(losses, count)
        if isfinite(norm):
            r.optimizer.step()
        elif r.scaler.is_enabled() and isfinite(whole):
            emit("update_skipped", step=step, scale=r.scaler.get_scale())
        else:
            raise FloatingPointError(f"step {step}: gradient norm {norm}")
        r.scaler.update()  # if it is enabled
        r.optimizer.zero_grad()
    return losses, torch.cat(ids).numpy()
