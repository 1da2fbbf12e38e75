"""What FSDP2 gathers, sends and holds, by how a model is wrapped and stepped.

    python -m lockstep.experiments.demos.fsdp2_traffic

Counted on four gloo ranks: every collective that torch starts, and every tensor
that lives.
"""

from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    set_model_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from lockstep.instruments.forked import in_a_group
from lockstep.instruments.memory import Memory
from lockstep.instruments.traffic import Call
from lockstep.parallel.collectives import all_gather, reduce_scatter

RANKS, LAYERS, WIDTH, MICRO_BATCHES = 4, 8, 64, 4
VOCABULARY = 96
STEPS = 5  # the least of their peaks counts: gloo's threads may let go late
RATE = 10.0  # of the step by hand: its layers start with small weights


# --8<-- [start:by_hand]
def sharded_step(parts: list[Tensor], x: Tensor, y: Tensor) -> None:
    """One step of gradient descent for a stack of linear layers, of which this
    rank keeps a few rows each. A weight is whole only while its layer works.

    Args:
        parts: this rank's rows of each layer's weight, updated in place.
        x: this rank's inputs, (rows, width).
        y: what the stack should make of them, (rows, width).
    """
    inputs = []
    for part in parts:  # forward
        inputs.append(x)
        weight = gathered(part)
        x = x @ weight.T
        del weight  # free it: the next layer's takes its place
    gradient = 2 * (x - y) / x.numel()  # of the mean squared error
    for part, x in zip(reversed(parts), reversed(inputs), strict=True):
        weight = gathered(part)  # again
        of_weight = gradient.T @ x  # all of it, by this rank's data alone
        gradient = gradient @ weight
        del weight
        part -= RATE * averaged(of_weight)  # the optimizer: on the shard
        del of_weight


def gathered(part: Tensor) -> Tensor:
    """The whole weight, of every rank's rows."""
    whole = part.new_empty(dist.get_world_size() * len(part), part.shape[1])
    all_gather(whole, part)
    return whole


def averaged(gradient: Tensor) -> Tensor:
    """This rank's rows of the mean of all ranks' gradients."""
    ranks = dist.get_world_size()
    mine = gradient.new_empty(len(gradient) // ranks, gradient.shape[1])
    reduce_scatter(mine, gradient)
    return mine / ranks


# --8<-- [end:by_hand]
def stack() -> nn.Sequential:
    """Equal layers, alike on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))
    )


class Transformer(nn.Module):
    """The parts of a language model that sharding sees, without attention."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = stack()  # which sets the seed
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.norm = nn.RMSNorm(WIDTH)
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of tokens, (batch, length, vocabulary)."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = x + block(x)
        logits: Tensor = self.output(self.norm(x))
        return logits


# --8<-- [start:wrap]
def root_alone(model: nn.Sequential, mesh: DeviceMesh) -> None:
    """One unit: everything is gathered at once."""
    fully_shard(model, mesh=mesh)


def each_layer(
    model: nn.Sequential, mesh: DeviceMesh, reshard: bool | int = True
) -> None:
    """A unit for each layer, and a root for what is left."""
    for layer in model:
        fully_shard(layer, mesh=mesh, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh)


# --8<-- [end:wrap]
# --8<-- [start:train]
def shard(model: Transformer, mesh: DeviceMesh) -> torch.optim.AdamW:
    """Shard a model in place; return its optimizer."""
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16,  # gather and compute
        reduce_dtype=torch.float32,  # average gradients
    )
    for unit in [model.embedding, *model.blocks]:
        fully_shard(unit, mesh=mesh, mp_policy=policy)
    fully_shard(
        [model.norm, model.output],
        mesh=mesh,
        mp_policy=policy,
        reshard_after_forward=False,  # the backward pass begins with them
    )
    fully_shard(model, mesh=mesh, mp_policy=policy)  # the root comes last
    # From here on, model.parameters() are fp32 shards.
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def train_step(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    tokens: Tensor,
    targets: Tensor,
) -> Tensor:
    """Train on this rank's own sequences; return their loss."""
    # Without a variable, no logits stay in memory during the backward pass.
    loss = cross_entropy(model(tokens).float().flatten(0, 1), targets.flatten())
    loss.backward()
    clip_grad_norm_(model.parameters(), 1.0)  # the norm over all shards
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


# --8<-- [end:train]
# --8<-- [start:accumulate]
def accumulated(
    model: FSDPModule, batches: list[Tensor], wait: bool, keep: bool
) -> None:
    """The gradients of several micro-batches, summed.

    Args:
        model: sharded layer by layer.
        batches: one tensor of inputs for each micro-batch.
        wait: reduce gradients only in the last backward pass. Until then every
            rank holds whole gradients.
        keep: leave the weights gathered from the first forward pass to the last
            backward pass. ``model`` keeps the first setting afterwards.
    """
    if keep:
        model.set_reshard_after_forward(False)
    for number, x in enumerate(batches, 1):
        last = number == len(batches)
        model.set_requires_gradient_sync(last or not wait)
        model.set_reshard_after_backward(last or not keep)
        loss = model(x).square().mean() / len(batches)  # type: ignore[operator]
        loss.backward()


# --8<-- [end:accumulate]
# --8<-- [start:hybrid]
def hybrid(model: nn.Sequential, nodes: int, gpus: int) -> None:
    """Shards within a node, copies across nodes."""
    names = "replicate", "shard"
    mesh = init_device_mesh("cpu", (nodes, gpus), mesh_dim_names=names)
    each_layer(model, mesh)


# --8<-- [end:hybrid]
# --8<-- [start:meta]
def from_rank_0(whole: dict[str, Any]) -> nn.Module:
    """A sharded model with the weights that rank 0 has. Another rank receives
    one tensor at a time, and keeps its shard of it."""
    with torch.device("meta"):
        model = stack()  # shapes without memory
    each_layer(model, init_device_mesh("cpu", (dist.get_world_size(),)))
    model.to_empty(device="cpu")  # memory for this rank's shards, not set yet
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, whole, options=options)
    return model


# --8<-- [end:meta]
class Seen(NamedTuple):
    """What one rank did in a step."""

    gathers: int
    largest: float  # gather, over the bytes of all weights
    reduces: int  # reduce-scatters
    sent: float  # over what DDP's all-reduce sends in a step
    peak: float  # held beside the shards, over the bytes of all weights


WRAPS = {
    "root alone": root_alone,
    "each layer": each_layer,
    "each layer, kept": partial(each_layer, reshard=False),
    "each layer, by twos": partial(each_layer, reshard=2),
}
# By name: how it is wrapped, and how a step of so many micro-batches goes.
CASES = {name: (name, False, False, 1) for name in WRAPS} | {
    "4 micro-batches": ("each layer", False, False, MICRO_BATCHES),
    "  reduced at the end": ("each layer", True, False, MICRO_BATCHES),
    "  and weights kept": ("each layer", True, True, MICRO_BATCHES),
}


def seen() -> dict[str, Seen]:
    """Every case, on this rank."""
    return {name: step_of(*case) for name, case in CASES.items()}


def step_of(wrap: str, wait: bool, keep: bool, micro_batches: int) -> Seen:
    """What a step does when the model is wrapped and stepped in such a way."""
    model = stack()
    wrapped: Any = WRAPS[wrap]
    wrapped(model, init_device_mesh("cpu", (dist.get_world_size(),)))
    assert isinstance(model, FSDPModule)
    batches = [torch.ones(1, WIDTH)] * micro_batches
    accumulated(model, batches, wait, keep)  # the first step sets up
    peaks = []
    for _ in range(STEPS):
        model.zero_grad()
        with Memory() as memory:
            accumulated(model, batches, wait, keep)
        peaks.append(memory.peak)
    whole = 4 * LAYERS * WIDTH**2
    gathers = [call.bytes for call in memory.calls if call.op == "all_gather"]
    all_reduce = Call("all_reduce", whole, dist.get_world_size())
    return Seen(
        len(gathers),
        max(gathers) / whole,
        sum(call.op == "reduce_scatter" for call in memory.calls),
        memory.sent / all_reduce.sent,
        min(peaks) / whole,
    )


def main() -> None:
    """A line for each case."""
    print(f"{'':22}gathers  largest  reduces   sent   peak")
    for name, one in in_a_group(RANKS, seen)[0].items():
        counts = f"{one.gathers:7} {one.largest:8.3f} {one.reduces:8}"
        print(f"{name:22}{counts} {one.sent:6.2f} {one.peak:6.1f}")


if __name__ == "__main__":
    main()
