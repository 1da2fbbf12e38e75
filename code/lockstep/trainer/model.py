"""What is trained, and the strategy that keeps its replicas in lock-step."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pkgutil import resolve_name
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from .config import TrainConfig, refuse
from .data import load_dataset


def build_model(cfg: TrainConfig, features: int, classes: int) -> nn.Module:
    """An MLP, (m, features) to (m, classes)."""
    h = cfg.hidden_size
    return nn.Sequential(
        nn.Linear(features, h), nn.ReLU(), nn.Dropout(cfg.dropout),
        nn.Linear(h, h), nn.ReLU(), nn.Linear(h, classes))


# --8<-- [start:task]
def right(logits: Tensor, y: Tensor) -> Tensor:
    """Of logits (m, classes), how many are highest where labels (m,) say."""
    return (logits.argmax(1) == y).sum()


class Task(NamedTuple):
    """What is trained, on what, and how it is judged; alike in every process.

    `data` and `held_out` offer what `Samples` does. Loss and metrics are given
    the model's output and y, and return a sum over the micro-batch's samples,
    which the trainer divides by the count of samples over all ranks. By default
    they are a classifier's. Metrics are fields of the run's last event."""

    model: nn.Module
    data: Any
    held_out: Any
    loss: Callable = nn.CrossEntropyLoss(reduction="sum")
    metrics: dict[str, Callable] = {"accuracy": right}  # noqa: RUF012


def make_task(cfg: TrainConfig) -> Task:
    """What `--task module:factory` makes of the settings, or `--dataset`. Torch
    is seeded alike in every process; ConfigError for a --task that is none."""
    torch.manual_seed(cfg.seed)
    if not cfg.task:
        data, held_out = load_dataset(cfg)
        shape = data.x.shape[1], int(data.y.max()) + 1
        return Task(build_model(cfg, *shape), data, held_out)
    try:
        factory = resolve_name(cfg.task)
    except (ImportError, AttributeError, ValueError) as error:
        refuse("task", cfg.task, f"module:factory, to be imported: {error}")
    made = factory(cfg) if callable(factory) else factory
    if not isinstance(made, Task):
        kind = f"a function that returns a Task, not {type(made).__name__}"
        refuse("task", cfg.task, kind)
    return made


# --8<-- [end:task]
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
