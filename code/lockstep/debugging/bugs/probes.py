"""Hooks that see what any trainer does.

They are global and stay: they belong into ranks, which end with their run.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

FEATURES = 32  # of the toy set, so of the first layer


def count_samples_per_step() -> list[int]:
    """Grows by one number for each optimizer step: the samples it is of."""
    steps: list[int] = []
    since = 0

    def forward(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        nonlocal since
        first = getattr(module, "in_features", None) == FEATURES
        if first and module.training:
            since += len(inputs[0])

    def step(*_: Any) -> None:
        nonlocal since
        steps.append(since)
        since = 0

    register_module_forward_pre_hook(forward)
    register_optimizer_step_post_hook(step)
    return steps


def see_output_dtypes() -> set[str]:
    """Grows by the number format of each linear layer's output."""
    seen: set[str] = set()

    def forward(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(module, nn.Linear):
            seen.add(str(output.dtype))

    register_module_forward_hook(forward)
    return seen


def see_dropout_masks() -> list[bytes]:
    """Grows by the mask of each dropout layer's call, as it will be drawn."""
    masks: list[bytes] = []

    def forward(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if isinstance(module, nn.Dropout) and module.training:
            with torch.random.fork_rng(devices=[]):  # draw it, undraw it
                mask = F.dropout(torch.ones_like(inputs[0]), module.p)
            masks.append((mask != 0).numpy().tobytes())

    register_module_forward_pre_hook(forward)
    return masks


READS = "item", "tolist", "cpu", "__float__", "__int__", "__bool__"


def count_host_reads_per_step() -> list[int]:
    """Grows by one number for each optimizer step: the tensors that the host
    read since the one before, each of which would wait for a GPU.

    Inside `optimizer.step()` none is counted: what it reads are its own step
    counters, which lie on the host whatever the parameters' device.
    """
    steps: list[int] = []
    since, inside = 0, False

    def counting(read: Any) -> Any:
        def counted(self: Tensor, *args: Any, **options: Any) -> Any:
            nonlocal since
            since += not inside
            return read(self, *args, **options)

        return counted

    def before(*_: Any) -> None:
        nonlocal inside
        inside = True

    def after(*_: Any) -> None:
        nonlocal since, inside
        steps.append(since)
        since, inside = 0, False

    for name in READS:
        setattr(torch.Tensor, name, counting(getattr(torch.Tensor, name)))
    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)
    return steps
