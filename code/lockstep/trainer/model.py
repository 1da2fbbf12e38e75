"""What is trained, and the strategy that keeps its replicas in lock-step."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from .config import TrainConfig


def build_model(cfg: TrainConfig, features: int, classes: int) -> nn.Module:
    """An MLP, (m, features) to (m, classes), the same weights on every rank."""
    torch.manual_seed(cfg.seed)
    h = cfg.hidden_size
    return nn.Sequential(
        nn.Linear(features, h), nn.ReLU(), nn.Dropout(cfg.dropout),
        nn.Linear(h, h), nn.ReLU(), nn.Linear(h, classes))


# --8<-- [start:strategy]
class DataParallel:
    """DDP averages gradients over ranks; it shards no input."""

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        """The model to call, whose backward pass synchronizes gradients."""
        self.module = model.to(device)
        ids = [device] if device.type == "cuda" else None
        self.ddp = DistributedDataParallel(self.module, ids)
        return self.ddp

    def sync_on(self, last: bool) -> AbstractContextManager:
        """Only the last micro-batch's backward pass communicates."""
        return nullcontext() if last else self.ddp.no_sync()

    def clip(self, norm: float) -> Tensor:
        """Clips; returns the global norm before, the same on every rank."""
        return nn.utils.clip_grad_norm_(self.module.parameters(), norm)

    def full_state(self, of: nn.Module | Optimizer) -> dict[str, Any]:
        """Of `module` or its optimizer, in whole tensors. All ranks call it."""
        return of.state_dict()

    def load(self, into: nn.Module | Optimizer, state: dict[str, Any]) -> None:
        """The inverse of `full_state`."""
        into.load_state_dict(state)


# --8<-- [end:strategy]
