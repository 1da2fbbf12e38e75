"""What a grader sees of an answer's communication, by whatever call."""

import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.nn import functional as differentiable
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from lockstep.instruments.traffic import Call, Traffic
from tests.ranks import run_ranks, store

RANKS = 2


def numbers(n: int) -> Tensor:
    return torch.ones(n)


def parts() -> list[Tensor]:
    return [numbers(4), numbers(4)]


def in_a_hook() -> None:
    weight = numbers(8).requires_grad_()
    weight.register_post_accumulate_grad_hook(
        lambda weight: dist.all_reduce(weight.grad)
    )
    (2 * weight).sum().backward()


def messages() -> None:
    other = 1 - dist.get_rank()
    under_way = [
        dist.isend(numbers(8), other),
        dist.irecv(numbers(8), other),
    ]
    for work in under_way:
        work.wait()


def coalesced() -> None:
    with dist._coalescing_manager():
        dist.all_reduce(numbers(8))


# 32 bytes in all by each, whichever of torch's functions is called.
WAYS: dict[str, tuple[str, Callable[[], Any]]] = {
    "all_reduce": ("all_reduce", lambda: dist.all_reduce(numbers(8))),
    "a method": (
        "all_reduce",
        lambda: dist.group.WORLD.allreduce([numbers(8)]).wait(),
    ),
    "functional": (
        "all_reduce",
        lambda: functional.all_reduce(numbers(8), "sum", dist.group.WORLD) + 1,
    ),
    "functional gather": (
        "all_gather",
        lambda: (
            functional.all_gather_tensor(numbers(4), 0, dist.group.WORLD) + 1
        ),
    ),
    "in autograd": (
        "all_reduce",
        lambda: differentiable.all_reduce(numbers(8)),
    ),
    "in a hook": ("all_reduce", in_a_hook),
    "all_gather": ("all_gather", lambda: dist.all_gather(parts(), numbers(4))),
    "into one": (
        "all_gather",
        lambda: dist.all_gather_into_tensor(numbers(8), numbers(4)),
    ),
    "reduce_scatter": (
        "reduce_scatter",
        lambda: dist.reduce_scatter(numbers(4), parts()),
    ),
    "all_to_all_single": (
        "all_to_all",
        lambda: dist.all_to_all_single(numbers(8), numbers(8)),
    ),
    "broadcast": ("broadcast", lambda: dist.broadcast(numbers(8), 1)),
}


def seen() -> dict[str, list[Call]]:
    warnings.simplefilter("ignore", FutureWarning)  # names of torch before 2.13
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", store=store(), rank=rank, world_size=RANKS)
    acts = OWN | {way: act for way, (_, act) in WAYS.items()}
    acts |= {way: act for way, (act, _) in TORCHS.items()}
    found = {}
    for way, act in acts.items():
        with Traffic() as traffic:
            act()
            dist.barrier()
        found[way] = traffic.calls
    return found


def of_ddp() -> None:
    replica = DistributedDataParallel(nn.Linear(8, 1, bias=False))
    replica(numbers(8)).sum().backward()


def of_fsdp() -> None:
    module = nn.Linear(4, 2, bias=False)
    fully_shard(module)(numbers(4)).sum().backward()


def of_zero() -> None:
    weights = [nn.Parameter(numbers(8)) for _ in range(2)]
    optimizer = ZeroRedundancyOptimizer(weights, torch.optim.SGD, lr=1)
    for weight in weights:
        weight.grad = numbers(8)
    optimizer.step()


def of_dtensor() -> None:
    mesh = init_device_mesh("cpu", (RANKS,))
    distribute_tensor(numbers(8), mesh, [Shard(0)]).full_tensor()


# Which of torch's modules calls the collectives, if the reader's code does not.
TORCHS: dict[str, tuple[Callable[[], Any], str]] = {
    "ddp": (of_ddp, "torch.autograd.graph"),  # from C++, within the engine
    "fsdp": (of_fsdp, "torch.distributed.fsdp."),
    "zero": (of_zero, "torch.distributed.optim."),
    "dtensor": (of_dtensor, "torch.distributed.tensor."),
}


def gradient_of_a_collective() -> None:
    differentiable.all_reduce(numbers(8).requires_grad_()).sum().backward()


def gradient_of_a_functional_one() -> None:
    own = numbers(4).requires_grad_()
    every = functional.all_gather_tensor_autograd(own, 0, dist.group.WORLD)
    every.sum().backward()


OWN: dict[str, Callable[[], Any]] = {
    "messages": messages,
    "gradient": gradient_of_a_collective,
    "functional gradient": gradient_of_a_functional_one,
    "coalesced": coalesced,
}


Ranks = list[dict[str, list[Call]]]  # by rank, the calls of each way


@pytest.fixture(scope="module")
def by_rank() -> Ranks:
    return run_ranks(RANKS, seen)


@pytest.mark.parametrize("way", WAYS)
def test_a_collective_is_seen_once_with_its_bytes(
    way: str, by_rank: Ranks
) -> None:
    op, _ = WAYS[way]
    for found in by_rank:
        assert found[way] == [Call(op, 32, RANKS)]


def test_a_message_has_its_peer(by_rank: Ranks) -> None:
    for rank, found in enumerate(by_rank):
        assert found["messages"] == [
            Call("send", 32, RANKS, 1 - rank),
            Call("recv", 32, RANKS, 1 - rank),
        ]
        assert [call.sent for call in found["messages"]] == [32, 0]


@pytest.mark.parametrize("way", [*WAYS, *OWN])
def test_a_call_of_ones_own_is_known_as_such(way: str, by_rank: Ranks) -> None:
    for found in by_rank:
        calls = found[way]
        assert calls
        assert not any(call.by_torch for call in calls)
        assert calls[0].by == __name__


@pytest.mark.parametrize("way", TORCHS)
def test_what_torch_calls_by_itself_is_known_as_such(
    way: str, by_rank: Ranks
) -> None:
    for found in by_rank:
        calls = found[way]
        assert any(call.by_torch for call in calls)
        assert any(call.by.startswith(TORCHS[way][1]) for call in calls)


def test_bytes_sent_are_the_planners() -> None:
    assert Call("all_reduce", 32, 4).sent == 2 * 3 / 4 * 32
    assert Call("all_gather", 32, 4).sent == 3 / 4 * 32
    assert Call("all_reduce", 32, 1).sent == 0
    assert Call("scatter", 32, 4).sent == 3 / 4 * 32
