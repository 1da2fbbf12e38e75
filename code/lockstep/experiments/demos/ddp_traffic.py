"""What data parallelism sends and holds, and how much of it leaves only when
the backward pass has ended.

    python -m lockstep.experiments.demos.ddp_traffic

Counted on four gloo ranks: every collective that torch starts, and every tensor
that lives.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from lockstep.instruments.forked import in_a_group
from lockstep.instruments.memory import Memory
from lockstep.instruments.traffic import Call

from .fsdp2_traffic import LAYERS, MICRO_BATCHES, RANKS, WIDTH, stack

LAYER = 4 * WIDTH**2  # bytes
# Marks among the collectives: a backward pass's first and last gradient.
FIRST, LAST = "the first gradient is ready", "the last gradient is ready"


# --8<-- [start:naive]
def one_by_one(grads: list[Tensor]) -> None:
    """After the backward pass: make each gradient the mean over the ranks."""
    for grad in grads:
        dist.all_reduce(grad)
        grad /= dist.get_world_size()


def all_at_once(grads: list[Tensor]) -> None:
    """The same in one message."""
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    sizes = [grad.numel() for grad in grads]
    for grad, mean in zip(grads, flat.split(sizes), strict=True):
        grad.copy_(mean.view_as(grad))


# --8<-- [end:naive]
# --8<-- [start:overlap]
def overlapped(buckets: list[list[Tensor]]) -> Callable[[], None]:
    """Average each bucket as soon as the backward pass completes it.

    Args:
        buckets: parameters in the order in which their gradients come.

    Returns:
        the function to call before the optimizer step.
    """
    started: list[Any] = []

    def watch(bucket: list[Any]) -> None:
        missing = {*bucket}

        def arrived(param: Tensor) -> None:
            missing.remove(param)
            if not missing:
                flat = torch.cat([p.grad.flatten() for p in bucket])
                flat /= dist.get_world_size()
                work = dist.all_reduce(flat, async_op=True)
                started.append((work, flat, bucket))
                missing.update(bucket)

        for param in bucket:
            param.register_post_accumulate_grad_hook(arrived)

    def wait() -> None:
        for work, flat, bucket in started:
            work.wait()
            means = flat.split([p.numel() for p in bucket])
            for param, mean in zip(bucket, means, strict=True):
                param.grad = mean.view_as(param)
        started.clear()

    for bucket in buckets:
        watch(bucket)
    return wait


# --8<-- [end:overlap]
# --8<-- [start:accumulate]
def accumulated(model: DistributedDataParallel, batches: list[Tensor]) -> None:
    """The mean gradient of several micro-batches, sent once."""
    for number, x in enumerate(batches, 1):
        last = number == len(batches)
        with nullcontext() if last else model.no_sync():
            loss = model(x).square().mean() / len(batches)
            loss.backward()


# --8<-- [end:accumulate]
def sent_each_time(
    model: DistributedDataParallel, batches: list[Tensor]
) -> None:
    """The same without `no_sync`."""
    for x in batches:
        (model(x).square().mean() / len(batches)).backward()


def forward_outside(
    model: DistributedDataParallel, batches: list[Tensor]
) -> None:
    """A mistake: `no_sync` around the backward pass alone."""
    for number, x in enumerate(batches, 1):
        loss = model(x).square().mean() / len(batches)
        last = number == len(batches)
        with nullcontext() if last else model.no_sync():
            loss.backward()


class Seen(NamedTuple):
    """What one rank did in a step."""

    calls: int  # all-reduces
    late: int  # of them, after a pass's last gradient: nothing hides them
    sent: float  # over an all-reduce of all gradients
    held: float  # when it has ended, over the bytes of all weights


def by_hand(average: Callable[[list[Tensor]], None]) -> Seen:
    """A step that averages after the backward pass."""
    with Memory() as memory:
        net = marked(stack(), memory)
        for _ in range(2):
            forget(net, memory)
            net(torch.ones(1, WIDTH)).square().mean().backward()
            average(gradients(net))
    return counted(memory)


def by_ddp(
    step: Callable[[DistributedDataParallel, list[Tensor]], None] = accumulated,
    micro_batches: int = 1,
    hook: Any = None,
    **options: Any,
) -> Seen:
    """A step of DDP's. Unless `options` say otherwise, a bucket has two
    layers."""
    two = {"bucket_cap_mb": 2 * LAYER / 2**20}
    with Memory() as memory:
        net = marked(stack(), memory)
        model = DistributedDataParallel(net, **(two | options))
        if hook:
            model.register_comm_hook(None, hook)
        for _ in range(3):  # the first sets up, the second lays buckets anew
            forget(net, memory)
            step(model, [torch.ones(1, WIDTH)] * micro_batches)
    return counted(memory)


def by_hooks() -> Seen:
    """A step that averages during the backward pass, two layers a bucket."""
    with Memory() as memory:
        net = marked(stack(), memory)
        backwards = [*net.parameters()][::-1]
        pairs = zip(backwards[::2], backwards[1::2], strict=True)
        wait = overlapped([[*pair] for pair in pairs])
        for _ in range(2):
            forget(net, memory)
            net(torch.ones(1, WIDTH)).square().mean().backward()
            wait()
    return counted(memory)


def gradients(net: nn.Module) -> list[Tensor]:
    """Of all its parameters, after a backward pass."""
    return [param.grad for param in net.parameters() if param.grad is not None]


def marked(net: nn.Sequential, memory: Memory) -> nn.Sequential:
    """The backward pass comes to the last layer first."""
    first, *_, last = net.parameters()
    for param, mark in (last, FIRST), (first, LAST):
        param.register_post_accumulate_grad_hook(
            lambda _, mark=mark: memory.events.append(mark)
        )
    return net


def forget(net: nn.Module, memory: Memory) -> None:
    """Count from here."""
    net.zero_grad()
    memory.events.clear()


def counted(memory: Memory) -> Seen:
    """Of the step that was last."""
    world, whole = dist.get_world_size(), LAYERS * LAYER
    late, over = 0, False  # whether the backward pass has made its gradients
    for event in memory.events:
        over = event == LAST or (over and event != FIRST)
        late += over and event != LAST
    return Seen(
        len(memory.calls),
        late,
        memory.sent / Call("all_reduce", whole, world).sent,
        memory.settled(2 * whole, 0.1) / whole,
    )


CASES: dict[str, tuple[Callable[..., Seen], tuple[Any, ...], dict]] = {
    "one by one, at the end": (by_hand, (one_by_one,), {}),
    "all at once, at the end": (by_hand, (all_at_once,), {}),
    "by hooks, two a bucket": (by_hooks, (), {}),
    "DDP, two layers a bucket": (by_ddp, (), {}),
    "  one bucket": (by_ddp, (), {"bucket_cap_mb": 25}),
    "  gradients are views": (by_ddp, (), {"gradient_as_bucket_view": True}),
    "  find unused parameters": (by_ddp, (), {"find_unused_parameters": True}),
    "  compressed to fp16": (
        *(by_ddp, ()),
        {"hook": default_hooks.fp16_compress_hook},
    ),
    "4 micro-batches": (by_ddp, (sent_each_time, MICRO_BATCHES), {}),
    "  with no_sync": (by_ddp, (accumulated, MICRO_BATCHES), {}),
    "  forward outside it": (by_ddp, (forward_outside, MICRO_BATCHES), {}),
}


def seen() -> dict[str, Seen]:
    """Every case, on this rank."""
    return {
        name: work(*args, **options)
        for name, (work, args, options) in CASES.items()
    }


def main() -> None:
    """A line for each case."""
    print(f"{'':25}all-reduces   late   sent   held")
    for name, one in in_a_group(RANKS, seen)[0].items():
        counts = f"{one.calls:11} {one.late:6}"
        print(f"{name:25}{counts} {one.sent:6.2f} {one.held:6.1f}")


if __name__ == "__main__":
    main()
