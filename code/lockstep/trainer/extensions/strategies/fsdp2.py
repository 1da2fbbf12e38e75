"""FSDP2: every rank keeps a shard of weights, gradients and optimizer state."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.utils._pytree import tree_map_only

from ...model import DataParallel
from ...process import Process


class Sharded(DataParallel):
    """A layer's weights are whole only while that layer computes: gathered
    before its forward and its backward pass, freed after each.

    Gradients are averaged and scattered as they are ready, so a rank updates
    its own shard and nothing else.
    """

    def __init__(self, me: Process) -> None:
        self.mesh = init_device_mesh(me.device.type, (me.world_size,))

    # --8<-- [start:wrap]
    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        self.module = model.to(device)
        for layer in model.children():
            if next(layer.parameters(), None) is not None:
                fully_shard(layer, mesh=self.mesh)  # a unit to gather
        fully_shard(model, mesh=self.mesh)  # in place
        return self.module

    # --8<-- [end:wrap]
    @contextmanager
    def sync_on(self, last: bool) -> Iterator[None]:
        assert isinstance(self.module, FSDPModule)
        self.module.set_requires_gradient_sync(last)
        yield

    def clip(self, norm: float) -> Tensor:
        whole = clip_grad_norm_(self.module.parameters(), norm)
        return whole.full_tensor() if isinstance(whole, DTensor) else whole

    # --8<-- [start:full_state]
    def full_state(self, of: nn.Module | Optimizer) -> dict[str, Any]:
        return tree_map_only(DTensor, DTensor.full_tensor, of.state_dict())

    def load(self, into: nn.Module | Optimizer, state: dict[str, Any]) -> None:
        into.load_state_dict(tree_map_only(Tensor, self.shard, state))

    def shard(self, whole: Tensor) -> Tensor:
        """Return this rank's shard of a full tensor; scalars stay whole."""
        if not whole.ndim:
            return whole
        return distribute_tensor(
            whole, self.mesh, [Shard(0)], src_data_rank=None
        )

    # --8<-- [end:full_state]
