"""Lab 03: ZeRO/FSDP state sharding.

Build two classes from torch.distributed's collectives. All ranks of the default
group make them, and call their methods, together. torch's own sharding
(`ZeroRedundancyOptimizer`, `fully_shard`) stays out of it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class ShardedOptimizer(torch.optim.Optimizer):
    """ZeRO-1: an optimizer whose state is spread over the ranks.

    Gradients are whole, and the same on every rank, when `step` is called.
    """

    def __init__(
        self,
        params: Any,
        optimizer_cls: Callable[..., torch.optim.Optimizer],
        **kwargs: Any,
    ) -> None:
        """
        Args:
            params: parameters of one dtype, or groups of them, as any optimizer
                of torch's takes them.
            optimizer_cls: such as `torch.optim.AdamW`. It treats every number
                alike, so a part of a tensor may be stepped alone.
            kwargs: its settings, where a group has none of its own.
        """
        # TODO: no rank keeps state for more than its share of all numbers and
        # one tensor
        raise NotImplementedError

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As torch's, which `Optimizer.__init__` calls for each group."""
        raise NotImplementedError  # TODO: the group's state is spread too

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """What `optimizer_cls` would do on one process.

        Afterwards all ranks have all parameters. A parameter without a gradient
        (`grad` is None) stays as it is. Whatever was changed in `param_groups`
        holds, as a scheduler changes `lr`.

        Returns:
            What `closure` does, if there is one.
        """
        raise NotImplementedError  # TODO: each parameter is sent once


class ShardedDataParallel(nn.Module):
    """ZeRO-3: a module whose parameters are spread over the ranks.

    Each submodule that holds parameters itself is a unit. It has all of them
    during its own forward and backward pass only.

    `parameters()` yields this rank's parts, in the dtype of the parameters,
    and an optimizer of theirs is all that is needed.
    """

    def __init__(
        self, module: nn.Module, low_precision: torch.dtype | None = None
    ) -> None:
        """
        Args:
            module: as rank 0 has it; other ranks' parameters do not count. A
                module may be used several times, and one whose parameters are
                all frozen stays so.
            low_precision: the dtype in which parameters are gathered, and
                floating-point inputs are given to `module`. Parts, their
                gradients and the sum over ranks stay as they are without it.

        Raises:
            ValueError: two modules share a parameter, or one module's differ in
                dtype or requires_grad.
        """
        # TODO: nothing whole is kept
        raise NotImplementedError

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What `module` returns."""
        raise NotImplementedError  # TODO: gather, compute, free, and again

    def wait_for_gradients(self) -> None:
        """Called after each backward pass: then each part's `grad` has the mean
        over ranks, added to what it had."""
        raise NotImplementedError  # TODO: nothing if nothing is under way

    def full_parameters(self) -> dict[str, Tensor]:
        """All parameters, by `module`'s own names and in their own shapes and
        dtype, on every rank. They may be whole at once here."""
        raise NotImplementedError  # TODO: what a checkpoint would hold
