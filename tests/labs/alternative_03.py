"""Lab 03 once more, in another style: whole tensors have owners, lists are
gathered, and autograd's saved tensors bring the weights back."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks


class ShardedOptimizer(torch.optim.Optimizer):
    def __init__(self, params: Any, optimizer_cls: Any, **kwargs: Any) -> None:
        self.cls, self.kwargs = optimizer_cls, kwargs
        self.load = [0] * dist.get_world_size()
        self.owners: dict[Tensor, int] = {}
        self.local: list[Any] = []  # an optimizer for each group, or None
        super().__init__(params, kwargs)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for param in sorted(group["params"], key=Tensor.numel, reverse=True):
            lightest = min(range(len(self.load)), key=self.load.__getitem__)
            self.owners[param] = lightest
            self.load[lightest] += param.numel()
        me = dist.get_rank()
        mine = [p for p in group["params"] if self.owners[p] == me]
        own = {**group, "params": mine}
        self.local.append(self.cls([own], **self.kwargs) if mine else None)

    def step(self, closure: Any = None) -> Any:
        loss = closure() if closure is not None else None
        for group, local in zip(self.param_groups, self.local, strict=True):
            if local is None:
                continue
            for name, value in group.items():
                if name != "params":
                    local.param_groups[0][name] = value
            local.step()
        for param, owner in self.owners.items():
            dist.broadcast(param.detach(), owner)
        return loss


class Fetch(torch.autograd.Function):
    """One parameter's rows of numbers, one for each rank."""

    @staticmethod
    def forward(ctx: Any, row: Tensor, layer: "Layer", name: str) -> Tensor:
        ctx.row, ctx.layer = row, layer
        return layer.fetch(name)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        rows = [
            part.contiguous() for part in layer_rows(grad.to(ctx.row.dtype))
        ]
        total = torch.empty_like(ctx.row)
        dist.reduce_scatter(total, rows)
        return total / len(rows), None, None


def layer_rows(tensor: Tensor) -> list[Tensor]:
    ranks = dist.get_world_size()
    each = -(-tensor.numel() // ranks)
    padded = tensor.new_zeros(each * ranks)
    padded[: tensor.numel()] = tensor.reshape(-1)
    return list(padded.view(ranks, each))


class Layer:
    """One module's parameters, each cut by itself."""

    def __init__(self, module: nn.Module, low: torch.dtype | None) -> None:
        self.module, self.low = module, low
        self.rows: dict[str, nn.Parameter] = {}
        self.shapes: dict[str, torch.Size] = {}
        for name, param in list(module.named_parameters(recurse=False)):
            dist.broadcast(param.data, 0)
            row = layer_rows(param.data)[dist.get_rank()].clone()
            self.rows[name] = nn.Parameter(row, param.requires_grad)
            self.shapes[name] = param.shape
            del module._parameters[name]
        self.plain = module.forward
        module.forward = self.forward  # type: ignore[method-assign]

    def fetch(self, name: str, low: bool = True) -> Tensor:
        row = self.rows[name].detach()
        row = row.to(self.low) if self.low and low else row
        rows = [torch.empty_like(row) for _ in range(dist.get_world_size())]
        dist.all_gather(rows, row)
        shape = self.shapes[name]
        return torch.cat(rows)[: shape.numel()].view(shape)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        whole: dict[int, str] = {}
        for name, row in self.rows.items():
            tensor = Fetch.apply(row, self, name)
            whole[tensor.untyped_storage().data_ptr()] = name
            self.module.__dict__[name] = tensor

        def pack(saved: Tensor) -> Any:
            name = whole.get(saved.untyped_storage().data_ptr())
            if name is None:
                return saved
            return name, saved.shape, saved.stride(), saved.storage_offset()

        def unpack(packed: Any) -> Tensor:
            if isinstance(packed, Tensor):
                return packed
            name, *place = packed
            return self.fetch(name).as_strided(*place)

        with saved_tensors_hooks(pack, unpack):
            found = self.plain(*args, **kwargs)
        for name in self.rows:
            del self.module.__dict__[name]
        return found


class ShardedDataParallel(nn.Module):
    def __init__(
        self, module: nn.Module, low_precision: torch.dtype | None = None
    ) -> None:
        super().__init__()
        everything = list(module.named_parameters(remove_duplicate=False))
        if len(everything) > len({id(param) for _, param in everything}):
            raise ValueError("shared parameters")
        for one in module.modules():
            if len({p.requires_grad for p in one.parameters(False)}) > 1:
                raise ValueError("half frozen")
        self.low = low_precision
        self.order = [name for name, _ in everything]
        found = [(n, m) for n, m in module.named_modules() if m._parameters]
        self.layers = {n: Layer(m, low_precision) for n, m in found}
        self.rows = nn.ParameterList(
            row for one in self.layers.values() for row in one.rows.values()
        )
        self.inside = module

    def forward(self, x: Tensor) -> Any:
        if self.low is not None and x.is_floating_point():
            x = x.to(self.low)
        return self.inside(x)

    def wait_for_gradients(self) -> None:
        """Autograd has put them there."""

    def full_parameters(self) -> dict[str, Tensor]:
        found = {}
        for path in self.order:
            layer, _, name = path.rpartition(".")
            found[path] = self.layers[layer].fetch(name, low=False)
        return found
