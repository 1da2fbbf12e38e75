"""Defect 8: autocast is switched by `scaler is not None`, and a disabled
scaler is not None."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.amp import GradScaler


def make_scaler(device: torch.device, use_amp: bool) -> GradScaler:
    """Mixed precision where there is a GPU for it."""
    return GradScaler(device.type, enabled=use_amp and device.type == "cuda")


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: GradScaler | None,
    x: Tensor,
    y: Tensor,
) -> Tensor:
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(x.device.type, enabled=scaler is not None):
        loss = F.cross_entropy(model(x), y)
    if scaler is not None:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        optimizer.step()
    return loss.detach()
