"""Eight experts that learn eight mappings, with and without a balance; experts
beside FSDP2; and what a checkpoint keeps of them.

    python -m lockstep.experiments.demos.moe_training

Inputs come from eight clusters, equally often, and each cluster has a linear
map of its own to learn. So experts that share the clusters evenly lose nothing.
"""

from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, zeros

from lockstep.instruments.forked import in_a_group
from lockstep.parallel.expert_parallel import (
    ExpertParallel,
    load_balancing_loss,
)
from lockstep.parallel.routing import choose, dropless, nudge

EXPERTS, WIDTH, TOKENS, STEPS, LAST = 8, 32, 512, 200, 50
RATE, SEEDS = 0.01, (4, 5)
DEAD = 0.05  # of an even share


class Method(NamedTuple):
    """How the load is evened."""

    alpha: float = 0  # of the auxiliary loss
    speed: float = 0  # of the bias


METHODS = {
    "nothing": Method(),
    "auxiliary loss, 0.01": Method(alpha=0.01),
    "auxiliary loss, 0.1": Method(alpha=0.1),
    "bias, 0.01 a step": Method(speed=0.01),
    "bias, 0.1 a step": Method(speed=0.1),
}


class Seen(NamedTuple):
    """Of the last steps, all seeds together."""

    hottest: float  # expert's load over an even share, mean over steps
    dead: int  # experts with less than DEAD of an even share
    loss: float  # mean squared error


class Layer(nn.Module):
    """A router that takes one of eight experts, and the experts."""

    bias: Tensor

    def __init__(self) -> None:
        super().__init__()

        def drawn(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(shape) / WIDTH**0.5)

        self.router = drawn(WIDTH, EXPERTS)
        self.up = drawn(EXPERTS, WIDTH, WIDTH)
        self.down = drawn(EXPERTS, WIDTH, WIDTH)
        self.register_buffer("bias", torch.zeros(EXPERTS))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The output, the router's logits, and who was chosen."""
        logits = x @ self.router
        weights, experts = choose(logits.softmax(1), self.bias, 1)
        output = dropless(x, weights, experts, self.up, self.down)
        return output, logits, experts


def trained(method: Method) -> Seen:
    """What the last steps of a run were like."""
    hottest, dead, losses = 0.0, 0, 0.0
    for seed in SEEDS:
        loads, loss = run(method, seed)
        hottest += float((loads.amax(1) / loads.mean(1)).mean())
        share = loads.sum(0) / loads.sum(0).mean()
        dead += int((share < DEAD).sum())
        losses += loss
    return Seen(hottest / len(SEEDS), dead, losses / len(SEEDS))


def run(method: Method, seed: int) -> tuple[Tensor, float]:
    """Loads, (steps, experts), and the mean loss, of the last steps."""
    torch.manual_seed(seed)
    centers = torch.randn(EXPERTS, WIDTH)
    maps = torch.randn(EXPERTS, WIDTH, WIDTH) / WIDTH**0.5
    layer = Layer()
    optimizer = torch.optim.Adam(layer.parameters(), RATE)
    loads, losses = [], []
    for _ in range(STEPS):
        cluster = torch.randint(EXPERTS, (TOKENS,))
        x = centers[cluster] + 0.5 * torch.randn(TOKENS, WIDTH)
        y = torch.einsum("td,tde->te", x, maps[cluster])
        output, logits, experts = layer(x)
        loss = nn.functional.mse_loss(output, y)
        total = loss
        if method.alpha:
            total = loss + method.alpha * load_balancing_loss(logits, experts)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        load = experts.flatten().bincount(minlength=EXPERTS)
        nudge(layer.bias, load, method.speed, None)
        loads.append(load)
        losses.append(float(loss.detach()))
    last = torch.stack(loads[-LAST:]).double()
    return last, sum(losses[-LAST:]) / LAST


def chance(draws: int = 2000) -> float:
    """The hottest expert's load over an even share, if every token chose by
    lot."""
    torch.manual_seed(0)
    lots = torch.randint(EXPERTS, (draws, TOKENS))
    loads = nn.functional.one_hot(lots, EXPERTS).sum(1)
    return float(loads.amax(1).double().mean() * EXPERTS / TOKENS)


# --8<-- [start:meshes]
def meshes(ep: int) -> tuple[DeviceMesh, DeviceMesh]:
    """All ranks twice: by the experts that they hold, and in one row.

    In the first, `ep` neighbors share one set of experts, and `copies` are the
    ranks that hold the same ones.
    """
    world = dist.get_world_size()
    names = "copies", "ep"
    experts = init_device_mesh("cpu", (world // ep, ep), mesh_dim_names=names)
    return experts, init_device_mesh("cpu", (world,))


def shard(layer: ExpertParallel, copies: DeviceMesh, every: DeviceMesh) -> None:
    """Shard each expert among its copies, and the rest among all ranks."""
    for expert in layer.experts.values():
        unit: Any = fully_shard(expert, mesh=copies)
        unit.set_gradient_divide_factor(every.size())  # not copies.size()
        unit.set_force_sum_reduction_for_comms(True)  # all that gloo can
    fully_shard(layer, mesh=every)


def gradient_norm(layer: nn.Module) -> Tensor:
    """Of the whole gradient: each of its elements lies on one rank alone."""
    own: Any = [parameter.grad for parameter in layer.parameters()]
    square = torch.stack([one.to_local().square().sum() for one in own]).sum()
    dist.all_reduce(square)
    return square.sqrt()


# --8<-- [end:meshes]
# --8<-- [start:checkpoint]
def save(own: Tensor, ep: DeviceMesh, folder: Path) -> None:
    """Save this rank's experts, (of this rank, …), as a part of all."""
    whole = DTensor.from_local(own, ep, [Shard(0)])
    dcp.save({"experts": whole}, checkpoint_id=folder)


def load(shape: torch.Size, ep: DeviceMesh, folder: Path) -> Tensor:
    """This rank's part of (experts, …), on as many ranks as there are now."""
    whole = zeros(shape, device_mesh=ep, placements=[Shard(0)])
    dcp.load({"experts": whole}, checkpoint_id=folder)
    return whole.to_local()


# --8<-- [end:checkpoint]
def study() -> dict[str, Seen]:
    """Every method."""
    return {name: trained(method) for name, method in METHODS.items()}


def main() -> None:
    """A line for each method, and what chance alone does."""
    print(f"{'balanced by':22}hottest  dead  loss")
    for name, one in in_a_group(1, study)[0].items():
        print(f"{name:22}{one.hottest:7.1f} {one.dead:5}  {one.loss:.2f}")
    print(f"{'(tokens by lot)':22}{chance():7.1f}")


if __name__ == "__main__":
    main()
