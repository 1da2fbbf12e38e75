"""Every rank steps everything: the result is right."""

from typing import Any

from torch.optim import Optimizer

from lockstep.exercises.labs.lab_03_sharding.solution import *

FAILS = {"optimizer state"}


class ShardedOptimizer(Optimizer):
    """Nothing is shared out, so nothing is sent."""

    inner: Optimizer | None = None

    def __init__(self, params: Any, optimizer_cls: Any, **kwargs: Any) -> None:
        super().__init__(params, kwargs)
        self.inner = optimizer_cls(self.param_groups, **kwargs)
        self.param_groups = self.inner.param_groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Whole."""
        if self.inner:
            self.inner.add_param_group(param_group)
        else:
            super().add_param_group(param_group)

    def step(self, closure: Any = None) -> Any:
        """Of all."""
        assert self.inner
        return self.inner.step(closure)
