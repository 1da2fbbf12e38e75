"""State that ranks share out: an optimizer's (ZeRO-1), and all of it (ZeRO-3).

Both cut a flat buffer into one equal part for each rank, as FSDP does (Zhao et
al. 2023, section 3.2.1): shares differ by nothing but the padding.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves, tree_map_only

from lockstep.parallel.collectives import all_gather, reduce_scatter


# --8<-- [start:flat]
def flattened(tensors: Iterable[Tensor]) -> Tensor:
    """One vector of them all, and zeros until the ranks divide its length."""
    flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
    return F.pad(flat, (0, -len(flat) % dist.get_world_size()))


def part_of(flat: Tensor) -> Tensor:
    """Return this rank's part, a view."""
    return flat.view(dist.get_world_size(), -1)[dist.get_rank()]


def views(flat: Tensor, shapes: list[torch.Size]) -> list[Tensor]:
    """Return views of the tensors that `flat` holds, one after the other."""
    sizes = [shape.numel() for shape in shapes]
    *pieces, _ = flat.split([*sizes, len(flat) - sum(sizes)])
    return [p.view(shape) for p, shape in zip(pieces, shapes, strict=True)]


# --8<-- [end:flat]
class ShardedOptimizer(Optimizer):
    """ZeRO-1: each rank has the optimizer's state of its part of the parameters
    alone, steps that, and gets the rest (Rajbhandari et al. 2020, 5.1).

    Gradients are whole, and the same on every rank, as DDP leaves them.

    Args:
        params: parameters of one dtype and device, or groups of them with
            settings of their own, as any optimizer of torch's takes them.
        optimizer_cls: makes this rank's optimizer. It treats every number
            alike, as SGD and Adam do, so that a part may end within a tensor.
            An optimizer that needs whole matrices does not fit.
        kwargs: its settings, where a group has none of its own.
    """

    def __init__(
        self,
        params: Any,
        optimizer_cls: Callable[..., Optimizer],
        **kwargs: Any,
    ) -> None:
        self.make = partial(optimizer_cls, **kwargs)
        self.inner: Optimizer | None = None
        self.flats: list[Tensor] = []  # one for each group
        self.parts: list[tuple[Tensor, slice, Tensor]] = []
        super().__init__(params, kwargs)

    # --8<-- [start:group]
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, as torch's does; `Optimizer.__init__` calls it. This
        rank's optimizer gets its part of the group."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        params: list[Tensor] = group["params"]
        shapes = [param.shape for param in params]
        self.flats.append(flat := flattened(params))
        mine = []
        places = views(flat, shapes), shares(flat, shapes)
        for param, view, share in zip(params, *places, strict=True):
            param.data = view
            if len(part := view.view(-1)[share]):
                mine.append(part)
                self.parts.append((param, share, part))
        own = settings(group) | {"params": mine}
        if self.inner is None:
            self.inner = self.make([own])
        else:
            self.inner.add_param_group(own)
        group |= settings(self.inner.param_groups[-1])  # what was not said

    # --8<-- [end:group]
    # --8<-- [start:step]
    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do what `optimizer_cls` would do on one process.

        Afterwards all ranks have all parameters. A parameter without a gradient
        (`grad` is None) stays as it is. Whatever was changed in `param_groups`
        holds, as a scheduler changes `lr`.

        Returns:
            What `closure` returns, if there is one.
        """
        with torch.enable_grad():
            loss = closure() if closure else None
        inner = self.with_settings()
        for param, share, part in self.parts:
            if param.grad is not None:  # else torch skips it, and so do we
                part.grad = param.grad.reshape(-1)[share]
        inner.step()
        inner.zero_grad()  # a view would keep the gradient alive
        for flat in self.flats:
            all_gather(flat, part_of(flat))
        return loss

    # --8<-- [end:step]
    def with_settings(self) -> Optimizer:
        """Return this rank's optimizer with the current settings."""
        assert self.inner is not None
        groups = zip(self.inner.param_groups, self.param_groups, strict=True)
        for mine, group in groups:
            mine |= settings(group)
        return self.inner

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this rank's part: each rank saves its own."""
        return self.with_settings().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what this rank saved at the same number of ranks."""
        assert self.inner is not None
        self.inner.load_state_dict(state_dict)
        groups = zip(self.param_groups, self.inner.param_groups, strict=True)
        for group, mine in groups:
            group |= settings(mine)


def settings(group: dict[str, Any]) -> dict[str, Any]:
    """All of a group but its parameters."""
    params = "params", "param_names"
    return {name: group[name] for name in group if name not in params}


def shares(flat: Tensor, shapes: list[torch.Size]) -> Iterator[slice]:
    """Yield the slice of each tensor in `flat` that belongs to this rank."""
    each = len(part_of(flat))
    low = dist.get_rank() * each
    for shape in shapes:
        size = shape.numel()
        yield slice(*(min(max(end, 0), size) for end in (low, low + each)))
        low -= size


class ShardedDataParallel(nn.Module):
    """ZeRO-3: a module whose parameters are whole only while it uses them, and
    lie in equal parts on all ranks between (Rajbhandari et al. 2020, 5.3).

    Each submodule that holds parameters itself is a unit: it has all of them
    during its own forward and backward pass only, and returns none of them.
    `parameters()` are this rank's parts, in the dtype of the parameters, for an
    optimizer that is made after this.

    Args:
        module: as rank 0 has it; other ranks' parameters do not count. They are
            taken from it. A module may be used several times, and one whose
            parameters are all frozen stays so.
        low_precision: the dtype in which parameters are gathered, and
            floating-point inputs are given to `module`. Parts, their gradients
            and the sum over ranks stay as they are without it.

    Raises:
        ValueError: two modules share a parameter, or those of one module differ
            in dtype, device or requires_grad.
    """

    def __init__(
        self, module: nn.Module, low_precision: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.module, self.low_precision = module, low_precision
        self.units = [Unit(*one, self) for one in list(holders(module))]
        self.parts = nn.ParameterList(unit.part for unit in self.units)
        self.under_way: tuple[Any, ...] = ()
        for buffer in module.buffers():
            dist.broadcast(buffer, 0)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what `module` returns."""

        def cast(x: Tensor) -> Tensor:
            return x.to(self.low_precision) if x.is_floating_point() else x

        if self.low_precision:
            args, kwargs = tree_map_only(Tensor, cast, (args, kwargs))
        return self.module(*args, **kwargs)

    # --8<-- [start:reduce]
    def reduce(self, part: nn.Parameter, gradient: Tensor) -> None:
        """Begin to add the ranks' mean to `part.grad`, while backward goes on.
        One at a time, or all the model's gradients might be whole at once."""
        self.wait_for_gradients()
        gradient = gradient.to(part.dtype)
        mine = torch.empty_like(part)
        work = reduce_scatter(mine, gradient, async_op=True)
        self.under_way = work, part, mine, gradient

    def wait_for_gradients(self) -> None:
        """Wait until each part's `grad` has the mean over ranks, added to what
        it had: call it after each backward pass."""
        if self.under_way:
            work, part, mine, _ = self.under_way
            self.under_way = ()
            work.wait()
            mine /= dist.get_world_size()
            part.grad = mine if part.grad is None else part.grad.add_(mine)

    # --8<-- [end:reduce]
    def full_parameters(self) -> dict[str, Tensor]:
        """All parameters by `module`'s own names, shapes and dtype: every
        rank calls it, and has room for the whole."""
        return {
            name: view
            for unit in self.units
            for name, view in unit.full_parameters()
        }


def holders(
    module: nn.Module,
) -> Iterator[tuple[nn.Module, dict[str, nn.Parameter]]]:
    """Yield the modules that hold parameters themselves, with them by full
    name."""
    names: dict[Tensor, str] = {}
    for path, part in module.named_modules():
        found = part.named_parameters(path, False, remove_duplicate=False)
        held = dict(found)
        for name, param in held.items():
            if (other := names.setdefault(param, name)) != name:
                raise ValueError(f"{other} and {name} are one parameter")
        kinds = {(p.dtype, p.device, p.requires_grad) for p in held.values()}
        if len(kinds) > 1:
            raise ValueError(
                f"{', '.join(held)} differ in dtype, device or requires_grad"
            )
        if held:
            yield part, held


# --8<-- [start:gather]
class Gather(torch.autograd.Function):
    """From the parts to the whole, and from its gradient to theirs."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, unit: "Unit") -> Tensor:
        """Gather the weights that the unit computes with."""
        whole = unit.gathered(unit.dtype)
        ctx.unit, ctx.storage = unit, whole.untyped_storage()
        return whole

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None]:
        """With the last of the unit's gradients there, it needs no weights."""
        ctx.storage.resize_(0)
        ctx.unit.reduce(gradient)
        return None, None  # it arrives later


# --8<-- [end:gather]
class Unit:
    """What one module holds: this rank's part, and the whole in time."""

    def __init__(
        self,
        module: nn.Module,
        held: dict[str, nn.Parameter],
        owner: ShardedDataParallel,
    ) -> None:
        self.names = {name: name.rpartition(".")[2] for name in held}
        self.shapes = [param.shape for param in held.values()]
        trained = all(param.requires_grad for param in held.values())
        dist.broadcast(flat := flattened(held.values()), 0)
        self.part = nn.Parameter(part_of(flat).clone(), trained)
        self.dtype = owner.low_precision or flat.dtype
        self.reduce = partial(owner.reduce, self.part)
        for own in self.names.values():
            delattr(module, own)
        module.register_forward_pre_hook(self.before, with_kwargs=True)
        module.register_forward_hook(self.after, always_call=True)

    def gathered(
        self, dtype: torch.dtype, into: Tensor | None = None
    ) -> Tensor:
        """Gather the whole, in new memory or `into` memory that was freed."""
        mine = self.part.detach().to(dtype)
        if into is None:
            into = mine.new_empty(dist.get_world_size() * len(mine))
        all_gather(into, mine)
        return into

    def full_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Each with its name in the model."""
        whole = self.gathered(self.part.dtype)
        return zip(self.names, views(whole, self.shapes), strict=True)

    # --8<-- [start:hooks]
    def before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Give the module views of the whole."""
        whole = Gather.apply(self.part, self)
        self.whole = whole.data  # the memory, without its place in the graph
        found = zip(self.names.values(), views(whole, self.shapes), strict=True)
        for own, view in found:
            setattr(module, own, view)
        if not self.part.requires_grad:  # no backward of Gather's will free it
            for x in differentiable((args, kwargs)):
                x.register_hook(partial(free, self.whole))

    def after(self, module: nn.Module, args: Any, outputs: Any) -> None:
        """Its memory goes, and comes back with the first gradient."""
        for own in self.names.values():
            delattr(module, own)
        for y in differentiable(outputs):
            y.register_hook(partial(self.fill, self.whole))
        # Checkpointing calls forward within backward, and needs it at once.
        if torch._C._current_graph_task_id() == -1:
            free(self.whole)
        del self.whole

    def fill(self, whole: Tensor, gradient: Tensor) -> None:
        """With what the forward pass has seen."""
        if not (memory := whole.untyped_storage()).nbytes():
            memory.resize_(whole.nbytes)
            self.gathered(self.dtype, whole)

    # --8<-- [end:hooks]


def free(whole: Tensor, gradient: Tensor | None = None) -> None:
    """Its memory alone: what is a view of it keeps its shape."""
    whole.untyped_storage().resize_(0)


def differentiable(tree: Any) -> list[Tensor]:
    """Return the tree's tensors that a gradient will reach."""
    leaves = [x for x in tree_leaves(tree) if isinstance(x, Tensor)]
    return [x for x in leaves if x.requires_grad]
