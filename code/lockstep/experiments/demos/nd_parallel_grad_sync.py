"""Which groups of a mesh sum which gradients, and what a wrong group does.

    python -m lockstep.experiments.demos.nd_parallel_grad_sync

One block on eight gloo ranks, divided three ways: samples over dp, tokens over
cp, and the MLP over tp, with sequence parallelism.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from lockstep.instruments.forked import in_a_group
from lockstep.parallel.tensor_parallel import ParallelMLP

RANKS, WIDTH, SAMPLES, TOKENS = 8, 16, 4, 8
STEPS, RATE = 60, 1.0
Axes = tuple[str, ...]


# --8<-- [start:mesh]
def dp_cp_tp() -> DeviceMesh:
    """Two ranks on each axis. Those of `tp`, the last one, are neighbors."""
    return init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "cp", "tp"))


# --8<-- [end:mesh]
class Block(nn.Module):
    """A norm, which every rank holds, and an MLP divided over `tp`. It takes
    and returns (samples, tokens, width), of this rank's tokens."""

    def __init__(self, mesh: DeviceMesh | None, seed: int = 0) -> None:
        super().__init__()
        chance = torch.Generator().manual_seed(seed)
        up, down = (
            nn.Linear(a, b, bias=False)
            for a, b in ((WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))
        )
        for layer in up, down:
            nn.init.normal_(layer.weight, std=0.2, generator=chance)
        self.norm = nn.RMSNorm(WIDTH)
        self.mlp: nn.Module
        if mesh is None:
            self.mlp = nn.Sequential(up, nn.GELU(), down)
        else:
            group = mesh.get_group("tp")
            self.mlp = ParallelMLP(
                up, down, group=group, sequence_parallel=True
            )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(self.norm(x))


# --8<-- [start:reduce]
RIGHT: dict[str, Axes] = {
    "norm.weight": ("dp", "cp", "tp"),  # whole, and sees a part of the tokens
    "mlp.up.weight": ("dp", "cp"),  # this rank's rows: none else has them
    "mlp.down.weight": ("dp", "cp"),  # its columns
}


def reduce_gradients(
    model: nn.Module, mesh: DeviceMesh, over: Mapping[str, Axes]
) -> None:
    """Sum each parameter's gradient over the ranks that hold the same part of
    it and have seen other tokens."""
    for name, parameter in model.named_parameters():
        for axis in over[name]:
            dist.all_reduce(parameter.grad, group=mesh.get_group(axis))


# --8<-- [end:reduce]
# --8<-- [start:norm]
def gradient_norm(
    model: nn.Module, mesh: DeviceMesh, over: Mapping[str, Axes]
) -> Tensor:
    """Of the whole model, once gradients are reduced: a part that only one rank
    of `tp` has is summed over `tp`, and what all of them hold counts once."""
    divided, whole = torch.zeros(()), torch.zeros(())
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        square = parameter.grad.square().sum()
        if "tp" in over[name]:
            whole += square
        else:
            divided += square
    dist.all_reduce(divided, group=mesh.get_group("tp"))
    return (divided + whole).sqrt()


# --8<-- [end:norm]
# By name, the axes over which gradients are summed in place of the right ones.
CASES: dict[str, dict[str, Axes]] = {
    "right": RIGHT,
    "dp alone": dict.fromkeys(RIGHT, ("dp",)) | {"norm.weight": ("dp", "tp")},
    "norm not over tp": RIGHT | {"norm.weight": ("dp", "cp")},
    "all over all": dict.fromkeys(RIGHT, ("dp", "cp", "tp")),
}


def batch(step: int) -> tuple[Tensor, Tensor]:
    """Inputs of all ranks together, and what a fixed block makes of them."""
    chance = torch.Generator().manual_seed(1000 + step)
    x = torch.randn(SAMPLES, TOKENS, WIDTH, generator=chance)
    with torch.no_grad():
        return x, Block(None, seed=7)(x)


# --8<-- [start:mine]
def mine(whole: Tensor, mesh: DeviceMesh) -> Tensor:
    """This rank's part of a batch: samples by dp, tokens by cp, and of those,
    under sequence parallelism, a part by tp."""
    for dim, axis in (0, "dp"), (1, "cp"), (1, "tp"):
        group = mesh[axis]
        whole = whole.chunk(group.size(), dim)[group.get_local_rank()]
    return whole


# --8<-- [end:mine]
def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """This rank's share of the mean over every number of the batch."""
    return (model(x) - y).square().sum() / (SAMPLES * TOKENS * WIDTH)


def own_part(name: str, whole: Tensor, mesh: DeviceMesh) -> Tensor:
    """What this rank holds of a parameter of the undivided block."""
    if name == "norm.weight":
        return whole
    tp = mesh["tp"]
    dim = int("down" in name)
    return whole.chunk(tp.size(), dim)[tp.get_local_rank()]


class Seen(NamedTuple):
    """What one case did."""

    up: float  # error of the gradient, over the right one's norm
    norm: float  # of the norm's
    spread: float  # after training, between copies of what should be equal
    began: float  # the loss before training, of the whole batch
    loss: float  # and after it
    clip: tuple[float, float, float]  # norm: by axes, by this rank, the truth


def first_gradients(
    mesh: DeviceMesh, over: Mapping[str, Axes]
) -> tuple[float, float, tuple[float, float, float]]:
    """Errors of a step's gradients against one process with the whole batch,
    and three norms."""
    whole, model, (x, y) = Block(None), Block(mesh), batch(0)
    loss_of(whole, x, y).backward()
    loss_of(model, mine(x, mesh), mine(y, mesh)).backward()
    reduce_gradients(model, mesh, over)
    names = "norm.weight", "mlp.up.weight", "mlp.down.weight"
    truth = dict(zip(names, whole.parameters(), strict=True))
    errors = {}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        gradient = truth[name].grad
        assert gradient is not None
        right = own_part(name, gradient, mesh)
        errors[name] = float((parameter.grad - right).norm() / right.norm())
    alone, true = (
        nn.utils.get_total_norm(
            [p.grad for p in one.parameters() if p.grad is not None]
        )
        for one in (model, whole)
    )
    norms = gradient_norm(model, mesh, over), alone, true
    a, b, c = (float(one) for one in norms)
    return errors["mlp.up.weight"], errors["norm.weight"], (a, b, c)


def copies(model: nn.Module, mesh: DeviceMesh) -> Iterator[Tensor]:
    """The differences of this rank's parameters from those of the first rank
    that holds the same part."""
    for name, parameter in model.named_parameters():
        first = parameter.detach().clone()
        for axis in RIGHT[name]:
            group = mesh.get_group(axis)
            dist.broadcast(first, group=group, group_src=0)
        yield (parameter.detach() - first).abs().max()


def whole_loss(model: nn.Module, mesh: DeviceMesh) -> float:
    """On a batch that is not trained on, over all ranks."""
    x, y = (mine(one, mesh) for one in batch(STEPS))
    loss = loss_of(model, x, y).detach()
    dist.all_reduce(loss)
    return float(loss)


def trained(
    mesh: DeviceMesh, over: Mapping[str, Axes]
) -> tuple[float, float, float]:
    """Spread of the copies, loss before and after some steps of gradient
    descent."""
    model = Block(mesh)
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    began = whole_loss(model, mesh)
    for step in range(STEPS):
        model.zero_grad()
        x, y = (mine(one, mesh) for one in batch(step))
        loss_of(model, x, y).backward()
        reduce_gradients(model, mesh, over)
        optimizer.step()
    spread = torch.stack(list(copies(model, mesh))).max()
    dist.all_reduce(spread, op=dist.ReduceOp.MAX)
    return float(spread), began, whole_loss(model, mesh)


def seen() -> dict[str, Seen]:
    """Every case, on this rank."""
    mesh, found = dp_cp_tp(), {}
    for name, over in CASES.items():
        up, norm, norms = first_gradients(mesh, over)
        found[name] = Seen(up, norm, *trained(mesh, over), norms)
    return found


def groups() -> dict[str, list[int]]:
    """By axis, the ranks that this rank shares a group with."""
    mesh = dp_cp_tp()
    names = mesh.mesh_dim_names or ()
    return {
        name: dist.get_process_group_ranks(mesh.get_group(name))
        for name in names
    }


def main() -> None:
    """Rank 5's groups, then a line for each case."""
    for name, ranks in in_a_group(RANKS, groups)[5].items():
        print(f"rank 5, {name}: {ranks}")
    print(f"\n{'':18}wrong: up    norm   copies differ   loss")
    found = in_a_group(RANKS, seen)[0]
    for name, one in found.items():
        print(
            f"{name:18}{one.up:9.2f}{one.norm:8.2f}"
            f"{one.spread:16.4f}{one.loss:7.4f}"
        )
    by_axes, alone, truth = found["right"].clip
    print(f"\nnorm of one process {truth:.4f}, by axes {by_axes:.4f},")
    print(f"rank 0's own {alone:.4f}")


if __name__ == "__main__":
    main()
