"""Our data parallelism beside DDP: the same gradients, bit by bit."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lockstep.instruments.traffic import Call, Traffic
from lockstep.parallel.data_parallel import DataParallel, fill
from lockstep.trainer.process import joined
from tests import ranks

KIB = 2**10
Grads = list[list[float] | None]


class Net(nn.Module):
    """Layers of which a pass uses some; 0 and 4 share a weight, 2 is frozen,
    5 is in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(6))
        self.layers[4].weight = self.layers[0].weight
        self.layers[2].requires_grad_(False)
        self.layers[5].bfloat16()

    def forward(self, x: Tensor, use: tuple[int, ...]) -> Tensor:
        for number in use:
            layer: Any = self.layers[number]
            x = layer(x.to(layer.weight.dtype)).tanh().float()
        return x


ALL = (0, 1, 2, 3, 4, 5)
# What each of two ranks uses, pass by pass; then, how a pass is run.
STEPS: dict[str, list[tuple[tuple[int, ...], tuple[int, ...], bool]]] = {
    "all": [(ALL, ALL, True)],
    "other layers": [((0, 1), (1, 3), True)],
    "accumulated": [(ALL, ALL, False), (ALL, ALL, True)],
    "accumulated, others": [((0, 1, 3), (1,), False), ((1,), (0, 5), True)],
    "two passes": [(ALL, ALL, True), (ALL, ALL, True)],
}


def gradients(name: str, ours: bool) -> list[Grads]:
    """After one round of passes, and after the same once more."""
    with joined(30, ranks.store()) as me:
        net = Net()
        model: Any
        if ours:
            model = DataParallel(net, bucket_mb=2 / KIB)
        else:
            model = DistributedDataParallel(
                net, bucket_cap_mb=2 / KIB, find_unused_parameters=True
            )
        found = []
        for step, keep in enumerate((False, True)):
            model.zero_grad(set_to_none=keep)
            for number, (*uses, sends) in enumerate(STEPS[name]):
                torch.manual_seed(100 * step + 10 * number + me.rank)
                x, use = torch.randn(3, 16), uses[me.rank]
                silent = contextlib.nullcontext() if sends else model.no_sync()
                with silent:
                    model(x, use).square().sum().backward()
            if ours:
                model.wait_for_gradients()
            grads = [p.grad for p in net.parameters()]
            found.append([g if g is None else g.tolist() for g in grads])
        return found


@pytest.mark.parametrize("name", STEPS)
def test_gradients_are_ddps_bit_by_bit(name: str) -> None:
    """On two ranks our wrapper and torch's DDP leave the same gradients, bit by
    bit: when all layers are used, when ranks use different ones, when
    gradients add up over two passes, and in both of two passes that send."""
    # Of two numbers there is one sum, whatever the order.
    found = ranks.run_ranks(2, gradients, name, True)
    assert found[0] == found[1]
    assert found == ranks.run_ranks(2, gradients, name, False)


def test_what_no_rank_used_keeps_no_gradient() -> None:
    first, _ = ranks.run_ranks(2, gradients, "other layers", True)[0]
    net = Net()
    used = {id(p) for i in (0, 1, 3) for p in net.layers[i].parameters()}
    for param, grad in zip(net.parameters(), first, strict=True):
        assert (grad is not None) == (id(param) in used)


def sent() -> tuple[list[Call], list[bool]]:
    """In one pass, from the first gradient on; and who has a gradient between
    the pass and the wait."""
    with joined(30, ranks.store()):
        net = nn.Sequential(*(nn.Linear(32, 32) for _ in range(4)))
        model = DataParallel(net, bucket_mb=8.25 / KIB)
        loss = model(torch.ones(1, 32)).sum()
        with Traffic() as traffic:
            loss.backward()
            between = [p.grad is not None for p in net.parameters()]
            model.wait_for_gradients()
        return traffic.calls, between


def test_a_step_sends_its_gradients_and_a_flag_for_each() -> None:
    """A step of our data-parallel wrapper sends its gradients and one flag for
    each parameter, and no gradient can be read before the wait is over."""
    for calls, between in ranks.run_ranks(3, sent):
        one = 4 * (2 * (32 * 32 + 32) + 4)  # two layers, four flags
        assert calls == [Call("all_reduce", one, 3)] * 2
        assert not any(between)


def start(act: Callable[[nn.Module], Any]) -> list[Any]:
    """What a rank has that filled its module with its own number."""
    with joined(30, ranks.store()) as me:
        net = nn.Sequential(nn.Conv2d(3, 2, 2), nn.BatchNorm2d(2))
        net = net.to(memory_format=torch.channels_last)
        with torch.no_grad():
            for tensor in net.state_dict().values():
                tensor.copy_(torch.arange(tensor.numel()).view_as(tensor))
                tensor += me.rank
        act(net)
        return [tensor.tolist() for tensor in net.state_dict().values()]


def test_replicas_start_with_rank_0s_parameters_and_buffers() -> None:
    alone = ranks.run_ranks(1, start, len)
    found = ranks.run_ranks(3, start, DataParallel)
    assert found == 3 * alone


def test_buckets_are_filled_by_bytes_and_dtype() -> None:
    """In the order of their last parameters."""
    half, full = torch.bfloat16, torch.float32
    sizes = [(2, full), (3, half), (2, full), (1, full), (9, full), (1, half)]
    params = [nn.Parameter(torch.empty(n, dtype=t)) for n, t in sizes]
    found = [bucket.params for bucket in fill(params, 16)]
    numbers = {p: i for i, p in enumerate(params)}
    assert [[numbers[p] for p in bucket] for bucket in found] == [
        [0, 2],
        [3],
        [4],
        [1, 5],
    ]
