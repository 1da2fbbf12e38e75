"""Backward passes in two halves, and what torch's pipelines hold, send and sum.

    python -m lockstep.experiments.demos.torch_pipelines

Counted on four gloo ranks: every message and collective that torch starts, and
every tensor that autograd saves.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakSet

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import (
    PipelineScheduleSingle,
    get_schedule_class,
)
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from lockstep.instruments.forked import in_a_group
from lockstep.instruments.traffic import Traffic
from lockstep.planner.clock import Played
from lockstep.planner.schedules import Schedule

RANKS, MICRO_BATCHES, WIDTH = 4, 8, 16
Group = dist.ProcessGroup | None


# --8<-- [start:split]
class SplitStack:
    """Linear layers whose backward pass comes in two halves.

    Args:
        weights: of each layer, (outputs, inputs).
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self.weights = weights
        self.gradients = [torch.zeros_like(weight) for weight in weights]
        self.inputs: dict[int, list[Tensor]] = {}  # by micro-batch
        self.owed: dict[int, list[tuple[Tensor, Tensor]]] = {}

    def forward(self, number: int, x: Tensor) -> Tensor:
        """One micro-batch through all layers; each layer's input is kept."""
        inputs = self.inputs[number] = []
        for weight in self.weights:
            inputs.append(x)
            x = x @ weight.T
        return x

    def backward_input(self, number: int, gradient: Tensor) -> Tensor:
        """From the gradient of the output to that of the input, for which the
        stage before waits. What weights need for theirs is kept."""
        owed = self.owed[number] = []
        for weight in reversed(self.weights):
            owed.append((gradient, self.inputs[number].pop()))
            gradient = gradient @ weight
        return gradient

    def backward_weights(self, number: int) -> None:
        """At any time after that: nobody else waits for it."""
        owed = self.owed.pop(number)
        totals = reversed(self.gradients)
        for total, (gradient, x) in zip(totals, owed, strict=True):
            total += gradient.T @ x


# --8<-- [end:split]
# --8<-- [start:carry_out]
def carry_out(
    stack: SplitStack,
    steps: Iterable[list[tuple[str, int, int]]],
    inputs: Sequence[Tensor],
    loss_gradient: Callable[[int, Tensor], Tensor],
    channels: Mapping[str, dist.ProcessGroup],
) -> None:
    """This rank's steps of a schedule that splits its backward passes.

    Args:
        stack: the layers of this rank's stage, as wide as all others.
        steps: as `planner.schedules` writes them, with kinds F, I and W.
        inputs: one tensor for each micro-batch, wherever it enters.
        loss_gradient: of a micro-batch, with respect to the last output.
        channels: for kinds F and I a group of all ranks each. In one group
            NCCL would hold a receive back until the send before it ends.
    """
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    under_way: list[tuple[Any, Tensor]] = []
    outputs: dict[int, Tensor] = {}

    def send(kind: str, tensor: Tensor, to: int) -> None:
        work = dist.isend(tensor, to, channels[kind])
        under_way.append((work, tensor))

    def receive(kind: str, source: int) -> Tensor:
        tensor = torch.empty_like(inputs[0])
        dist.recv(tensor, source, channels[kind])
        return tensor

    for ((kind, number, _),) in steps:
        if kind == "F":
            x = inputs[number] if rank == 0 else receive(kind, rank - 1)
            outputs[number] = stack.forward(number, x)
            if rank < last:
                send(kind, outputs.pop(number), rank + 1)
        elif kind == "I":
            if rank == last:
                gradient = loss_gradient(number, outputs.pop(number))
            else:
                gradient = receive(kind, rank + 1)
            gradient = stack.backward_input(number, gradient)
            if rank > 0:
                send(kind, gradient, rank - 1)
        else:
            stack.backward_weights(number)
    for work, _ in under_way:
        work.wait()


# --8<-- [end:carry_out]
def dealt(name: str, parts: int, rank: int, ranks: int) -> list[int]:
    """Which parts of the model a rank holds, of `parts` for each rank."""
    if name in ("ZBVZeroBubble", "DualPipeV"):  # down the ranks, and up again
        return [rank, 2 * ranks - 1 - rank]
    return list(range(rank, parts * ranks, ranks))


# --8<-- [start:torch]
class Pipeline:
    """One of torch's schedules over this rank's parts of a model.

    Args:
        name: "GPipe", "1F1B", "Interleaved1F1B", "InterleavedZeroBubble",
            "ZBVZeroBubble", "DualPipeV".
        mine: This rank's parts; keys are their positions in the model.
        total: The number of parts of the whole model.
        group: The ranks of this pipeline, in order.
        options: Further options of the schedule, such as `scale_grads`.
    """

    def __init__(
        self,
        name: str,
        mine: dict[int, nn.Module],
        total: int,
        micro_batches: int,
        loss_fn: Callable[..., Tensor],
        group: Group = None,
        **options: Any,
    ) -> None:
        cpu = torch.device("cpu")
        self.stages = [
            PipelineStage(part, place, total, cpu, group=group)
            for place, part in mine.items()
        ]
        kind: Any = get_schedule_class(name)
        single = issubclass(kind, PipelineScheduleSingle)
        stages = self.stages[0] if single else self.stages
        self.schedule = kind(stages, micro_batches, loss_fn=loss_fn, **options)
        self.first, self.last = 0 in mine, total - 1 in mine

    def step(self, x: Tensor, target: Tensor) -> list[Tensor]:
        """Run the forward and backward passes of a whole batch, which torch
        cuts along its first dimension. Only the first part's rank needs the
        input. Only the last part's rank needs the target, and it returns the
        losses of all micro-batches; other ranks return an empty list.
        """
        losses: list[Tensor] = []
        self.schedule.step(
            *([x] if self.first else []),
            target=target if self.last else None,
            losses=losses if self.last else None,
            return_outputs=False,  # or the last part keeps all micro-batches'
        )
        return losses


# --8<-- [end:torch]
def summed(output: Tensor, target: Tensor) -> Tensor:
    """The loss of a micro-batch, summed over the tokens that count."""
    errors = (output - target).square().mean(-1)
    return errors[target.abs().sum(-1) > 0].sum()  # padding is zeros


def per_token(
    pipeline: Pipeline, x: Tensor, target: Tensor, tokens: int
) -> None:
    """Gradients of the mean over all tokens that count, whatever micro-batch
    they are in. The pipeline sums: its loss is `summed`, and `scale_grads` is
    off.

    Args:
        tokens: that count, in the whole batch; every rank knows the number.
    """
    pipeline.step(x, target)
    for stage in pipeline.stages:
        for parameter in stage.submod.parameters():
            assert parameter.grad is not None
            parameter.grad /= tokens


# --8<-- [start:clip]
def clip_over_stages(
    parameters: Sequence[nn.Parameter], most: float, group: Group = None
) -> Tensor:
    """Scale gradients so that the whole model's norm is at most `most`.

    Args:
        parameters: The parameters of this rank's stage, with gradients.
        group: The ranks of the pipeline.

    Returns:
        The whole model's norm before clipping, the same on every rank.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    own = torch.nn.utils.get_total_norm(gradients)
    if isinstance(own, DTensor):  # under FSDP or tensor parallelism
        own = own.full_tensor()
    squared = own**2
    dist.all_reduce(squared, group=group)
    norm = squared.sqrt()
    torch.nn.utils.clip_grads_with_norm_(parameters, most, norm)
    return norm


# --8<-- [end:clip]
def model(parts: int) -> list[nn.Sequential]:
    """Equal parts of two layers each, alike on every rank."""
    torch.manual_seed(0)
    return [
        nn.Sequential(
            nn.Linear(WIDTH, WIDTH),
            nn.Tanh(),
            nn.Linear(WIDTH, WIDTH),
            nn.Tanh(),
        )
        for _ in range(parts)
    ]


def batch(replicas: int = 1, rows: int = 2 * MICRO_BATCHES) -> Tensor:
    """Inputs and targets of each replica, (2, replicas, rows, width)."""
    chance = torch.Generator().manual_seed(1)
    return torch.rand(2, replicas, rows, WIDTH, generator=chance)


# What a rank holds and sends


class Saved:
    """A tensor that autograd keeps, and in which forward it was saved."""

    def __init__(self, forward: int, tensor: Tensor) -> None:
        self.forward, self.tensor = forward, tensor


class Watch:
    """It counts the forwards of which autograd still has anything."""

    def __init__(self) -> None:
        self.alive: WeakSet[Saved] = WeakSet()
        self.forwards = self.most = 0

    @contextmanager
    def forward(self) -> Any:
        """A forward of one part."""
        self.forwards += 1
        number = self.forwards

        def keep(tensor: Tensor) -> Saved:
            # Detached: an output would hold the very node that holds it.
            self.alive.add(one := Saved(number, tensor.detach()))
            return one

        with saved_tensors_hooks(keep, lambda one: one.tensor):
            yield
        now = len({one.forward for one in self.alive})
        self.most = max(self.most, now)


class Watched(nn.Module):
    """A part whose saved tensors are watched."""

    def __init__(self, part: nn.Module, watch: Watch) -> None:
        super().__init__()
        self.part, self.watch = part, watch

    def forward(self, x: Tensor) -> Tensor:
        """The part's."""
        with self.watch.forward():
            return self.part(x)


class Seen(NamedTuple):
    """What one rank did in a step."""

    held: float  # micro-batches of which autograd kept activations at most
    messages: int  # that it sent


# By torch's name and parts per rank: the planner's name.
SCHEDULES = {
    ("GPipe", 1): "gpipe",
    ("1F1B", 1): "1f1b",
    ("Interleaved1F1B", 2): "interleaved",
    ("InterleavedZeroBubble", 1): "zb-h1",
    ("ZBVZeroBubble", 2): "zbv",
    ("DualPipeV", 2): "dualpipev",
}


def seen() -> dict[tuple[str, int], Seen]:
    """Every schedule, on this rank."""
    return {case: step_of(*case) for case in SCHEDULES}


def step_of(name: str, parts: int) -> Seen:
    """What a step of that schedule does; the first sets up."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    watch, every = Watch(), model(parts * ranks)
    mine: dict[int, nn.Module] = {
        place: Watched(every[place], watch)
        for place in dealt(name, parts, rank, ranks)
    }
    loss = nn.functional.mse_loss
    pipeline = Pipeline(name, mine, len(every), MICRO_BATCHES, loss)
    (x,), (target,) = batch()
    pipeline.step(x, target)
    watch.most = 0
    with Traffic() as traffic:
        pipeline.step(x, target)
    sent = [call for call in traffic.calls if call.op == "send"]
    return Seen(watch.most / parts, len(sent))


# Data parallelism on top


def ddp(part: nn.Sequential, group: DeviceMesh) -> nn.Module:
    """A replica of a stage."""
    return DistributedDataParallel(part, process_group=group.get_group())


def fsdp(part: nn.Sequential, group: DeviceMesh, free: bool) -> nn.Module:
    """A sharded stage, whose weights may be freed after each forward."""
    for layer in part:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=group, reshard_after_forward=free)
    fully_shard(part, mesh=group, reshard_after_forward=free)
    return part


class Composed(NamedTuple):
    """What the last stage of two did in a step, each stage on two ranks."""

    gathers: int
    reduces: int  # all-reduces and reduce-scatters
    gradients: str


WRAPS: dict[str, Callable[..., nn.Module]] = {
    "DDP": ddp,
    "FSDP, freed": partial(fsdp, free=True),
    "FSDP, kept": partial(fsdp, free=False),
}


def composed() -> dict[tuple[str, str], Composed]:
    """Every wrap under two schedules, on this rank."""
    names = "1F1B", "InterleavedZeroBubble"
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
    return {
        (wrap, name): with_replicas(WRAPS[wrap], name, mesh)
        for wrap in WRAPS
        for name in names
    }


def with_replicas(
    wrap: Callable[..., nn.Module], name: str, mesh: DeviceMesh
) -> Composed:
    """Two stages on two ranks each, compared with the whole model and batch."""
    loss = nn.functional.mse_loss
    place, replica = mesh.get_local_rank("pp"), mesh.get_local_rank("dp")
    x, target = batch(2)
    whole, part = model(2), wrap(model(2)[place], mesh["dp"])
    loss(nn.Sequential(*whole)(x), target).backward()
    group = mesh.get_group("pp")
    mine = {place: part}
    pipeline = Pipeline(name, mine, 2, MICRO_BATCHES, loss, group)
    pipeline.step(x[replica], target[replica])
    part.zero_grad()
    with Traffic() as traffic:
        pipeline.step(x[replica], target[replica])
    ops = [call.op for call in traffic.calls]
    reduces = ops.count("all_reduce") + ops.count("reduce_scatter")
    said = compared(part, whole[place])
    return Composed(ops.count("all_gather"), reduces, said)


def compared(part: nn.Module, alone: nn.Module) -> str:
    """Gradients of a stage beside those of the whole model's same layers."""
    pairs = zip(part.parameters(), alone.parameters(), strict=True)
    for mine, right in pairs:
        if mine.grad is None:
            return "missing"
        gradient: Any = mine.grad
        if hasattr(gradient, "full_tensor"):
            gradient = gradient.full_tensor()
        if not torch.allclose(gradient, right.grad, atol=1e-6):  # type: ignore[arg-type]
            return "its own replica's"
    return "right"


def main() -> None:
    """A line for each schedule, and one for each wrap and schedule."""
    ranks = in_a_group(RANKS, seen)
    print(f"{'':22}parts  bubble  held by ranks 0 to 3  sent by 0 and 1")
    for (name, parts), planned in SCHEDULES.items():
        found = [one[name, parts] for one in ranks]
        schedule = Schedule(planned, RANKS, MICRO_BATCHES, parts)
        bubble = f"{Played(schedule).overhead():7.1%}"
        held = " ".join(f"{one.held:4g}" for one in found)
        sent = f"{found[0].messages:9} {found[1].messages:5}"
        print(f"{name:22}{parts:5} {bubble}  {held:20} {sent}")
    print()
    print(f"{'':36}gathers  reduces  gradients")
    for (wrap, name), one in in_a_group(4, composed)[2].items():
        counts = f"{one.gathers:7} {one.reduces:8}"
        print(f"{wrap:13}{name:23}{counts}  {one.gradients}")


if __name__ == "__main__":
    main()
