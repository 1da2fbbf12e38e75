"""One optimizer step."""

from collections.abc import Iterator
from math import cos, isfinite, pi
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .config import TrainConfig
from .data import Batch
from .model import DataParallel
from .precision import autocast
from .process import Process
from .telemetry import emit, phase


class Replica(NamedTuple):
    """What this rank trains with; `model` and below stay alike on all ranks."""

    cfg: TrainConfig
    me: Process
    strategy: DataParallel
    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler


# --8<-- [start:learning_rate]
def learning_rate(cfg: TrainConfig, step: int, steps: int) -> float:
    """The rate of `step` of `steps`: linear warm-up, cosine to a tenth."""
    warm = min(1.0, (step + 1) / (cfg.warmup_steps + 1))
    return cfg.learning_rate * warm * (0.55 + 0.45 * cos(pi * step / steps))


# --8<-- [end:learning_rate]
def mean(total: Tensor, count: int) -> float:
    """All ranks' `total` over the global `count`; waits for the device."""
    dist.all_reduce(total)
    return total.item() / count


def train_step(
    r: Replica, source: Iterator[Batch], count: int, step: int
) -> tuple[Tensor, np.ndarray]:
    """Train on this rank's share of a batch of `count` samples over all ranks.

    Returns the sum of the share's losses, unread, and its sample ids. The one
    host read is the gradient norm: all ranks read the same, so all agree.
    """
    total = torch.zeros((), device=r.me.device)
    ids, accum = [], r.cfg.grad_accum_steps or 1
    for micro in range(accum):
        with phase("load"):
            own_ids, x, y = next(source)
        with phase("h2d"):
            x = x.to(r.me.device, non_blocking=True)
            y = y.to(r.me.device, non_blocking=True)
        ids.append(own_ids.numpy())
        with r.strategy.sync_on(last=micro + 1 == accum):
            with phase("forward"), autocast(r.cfg.precision, r.me.device):
                loss = cross_entropy(r.model(x), y, reduction="sum")
            total += loss.detach()
            with phase("backward"):  # DDP divides by the world size
                r.scaler.scale(loss * (r.me.world_size / count)).backward()
    with phase("optimizer"):
        r.scaler.unscale_(r.optimizer)
        norm = r.strategy.clip(r.cfg.clip_norm).item()
        if isfinite(norm):
            r.optimizer.step()
        elif r.scaler.is_enabled() and isfinite(mean(total.clone(), count)):
            emit("update_skipped", step=step, scale=r.scaler.get_scale())
        else:
            raise FloatingPointError(f"step {step}: gradient norm {norm}")
        if r.scaler.is_enabled():
            r.scaler.update()
        r.optimizer.zero_grad()
    return total, np.concatenate(ids)
