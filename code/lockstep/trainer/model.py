"""The task to train, and the strategy that keeps replicas in lock-step."""

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
    """Return an MLP from (m, features) to (m, classes)."""
    h = cfg.hidden_size
    return nn.Sequential(
        nn.Linear(features, h), nn.ReLU(), nn.Dropout(cfg.dropout),
        nn.Linear(h, h), nn.ReLU(), nn.Linear(h, classes))


# --8<-- [start:task]
def right(logits: Tensor, y: Tensor) -> Tensor:
    """Count the rows of logits (m, classes) that are highest at y (m,)."""
    return (logits.argmax(1) == y).sum()


class Task(NamedTuple):
    """A model, its data, loss and metrics; the same in every process.

    `data` and `held_out` have the interface of `Samples`. Loss and metrics take
    the model's output and y, and return a sum over the micro-batch's samples,
    which the trainer divides by the count of samples over all ranks. The
    defaults fit a classifier. Metrics are fields of the run's last event."""

    model: nn.Module
    data: Any
    held_out: Any
    loss: Callable = nn.CrossEntropyLoss(reduction="sum")
    metrics: dict[str, Callable] = {"accuracy": right}  # noqa: RUF012


def make_task(cfg: TrainConfig) -> Task:
    """Return the task of `--task module:factory` or `--dataset`. Torch has the
    same seed in every process. ConfigError, if --task isn't a task factory."""
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
    """DDP, which averages gradients over ranks and doesn't shard the input."""

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        """Return the model to call; its backward pass averages gradients."""
        self.module = model.to(device)
        ids = [device] if device.type == "cuda" else None
        self.ddp = DistributedDataParallel(self.module, ids)
        return self.ddp

    def sync_on(self, last: bool) -> AbstractContextManager:
        """Communicate only in the last micro-batch's backward pass."""
        return nullcontext() if last else self.ddp.no_sync()

    def clip(self, norm: float) -> Tensor:
        """Clip; return the global norm before, the same on every rank."""
        return nn.utils.clip_grad_norm_(self.module.parameters(), norm)

    def full_state(self, of: nn.Module | Optimizer) -> dict[str, Any]:
        """Return the state in whole tensors. All ranks must call it."""
        return of.state_dict()

    def load(self, into: nn.Module | Optimizer, state: dict[str, Any]) -> None:
        """Load a state that `full_state` returned."""
        into.load_state_dict(state)


# --8<-- [end:strategy]
