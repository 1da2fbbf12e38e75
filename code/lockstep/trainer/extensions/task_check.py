"""Check a task before a run begins with it; name what is wrong in a line."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..config import TrainConfig, refuse
from ..model import Task, make_task

SAMPLES = 4  # enough to halve a batch
TOLERANCE = 1e-3  # relative; a mean of halves is off by a factor of two


def check_task(cfg: TrainConfig, device: torch.device) -> None:
    """Make the task of `--task` and try it on a few samples.

    Raises:
        ConfigError: the data aren't as the trainer asks for them, or the loss
            isn't a sum over samples.
    """
    task = make_task(cfg)
    for name, data in ("data", task.data), ("held_out", task.held_out):
        fault = _data_fault(name, data) or _fetch_fault(name, data)
        if fault:
            refuse("task", cfg.task, fault)
    if fault := _loss_fault(task, device):
        refuse("task", cfg.task, fault)


def _data_fault(name: str, data: Any) -> str:
    """Name the first of the three things that a data set lacks, or none."""
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        return f"a task whose {name} has len() and [epochs, ids]"
    if len(data) < 1:
        return f"a task whose {name} has samples; len() is {len(data)}"
    if not isinstance(getattr(data, "fingerprint", None), str):
        return (
            f"a task whose {name} has a fingerprint, a str that changes when"
            " any sample changes"
        )
    return ""


def _fetch_fault(name: str, data: Any) -> str:
    ids = np.arange(min(SAMPLES, len(data)), dtype=np.int64)
    index = np.stack([0 * ids, ids])
    batch = data[index]
    if not isinstance(batch, tuple) or len(batch) != 3:
        got = len(batch) if isinstance(batch, tuple) else type(batch).__name__
        return f"a task whose {name}[epochs, ids] is (ids, x, y), not {got}"
    got_ids, x, y = batch
    if not torch.equal(torch.as_tensor(got_ids), torch.from_numpy(ids)):
        return (
            f"a task whose {name}[epochs, ids] returns the ids it was asked"
            f" for; for {ids.tolist()} it returned {_said(got_ids)}"
        )
    again = data[index]
    if not _equal(x, again[1]) or not _equal(y, again[2]):
        return (
            f"a task whose {name}[epochs, ids] gives the same samples each"
            " time; what is random in one must follow from seed, epoch and id"
        )
    return ""


def _loss_fault(task: Task, device: torch.device) -> str:
    """Find a loss that isn't one number, or that is a mean over the batch."""
    ids = np.arange(min(SAMPLES, len(task.data)) // 2 * 2, dtype=np.int64)
    if not len(ids):
        return ""  # a single sample has no halves
    model = task.model.to(device).eval()

    def loss(some: np.ndarray) -> Tensor:
        _, x, y = task.data[np.stack([0 * some, some])]
        with torch.no_grad():
            return task.loss(model(x.to(device)), y.to(device))

    whole, halves = loss(ids), [loss(half) for half in np.split(ids, 2)]
    if not isinstance(whole, Tensor) or whole.ndim:
        shape = tuple(whole.shape) if isinstance(whole, Tensor) else whole
        return f"a task whose loss is a tensor without dimensions, not {shape}"
    total = sum(float(half) for half in halves)
    if abs(float(whole) - total) <= TOLERANCE * max(abs(total), TOLERANCE):
        return ""
    return (
        f"a task whose loss is a sum over samples: {len(ids)} samples give"
        f" {float(whole):.4g}, and their halves"
        f" {' + '.join(f'{float(half):.4g}' for half in halves)}"
    )


def _equal(a: Any, b: Any) -> bool:
    same = torch.equal(a, b) if isinstance(a, Tensor) else a == b
    return bool(same)


def _said(ids: Any) -> Any:
    return ids.tolist() if hasattr(ids, "tolist") else ids
