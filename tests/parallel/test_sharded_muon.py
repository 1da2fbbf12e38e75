"""Muon on shards, with an owner for each matrix."""

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.optim import _muon
from torch.testing._internal.distributed.fake_pg import FakeStore

from lockstep.instruments.traffic import Traffic
from lockstep.parallel.sharded_muon import OwnedMuon, orthogonal
from lockstep.trainer.process import joined
from tests import ranks

RANKS, MATRICES, ROWS, COLUMNS, RATE, STEPS = 2, 3, 32, 16, 0.1, 2


def in_a_group(work: Any, *args: Any) -> Any:
    with joined(30, ranks.store()):
        return work(*args)


def matrices(step: int = 0) -> list[Tensor]:
    """Weights at step 0, gradients after it."""
    chance = torch.Generator().manual_seed(step)
    return [
        torch.randn(ROWS, COLUMNS, generator=chance) for _ in range(MATRICES)
    ]


def rows(whole: Tensor) -> Tensor:
    """This rank's."""
    return whole.chunk(dist.get_world_size())[dist.get_rank()].clone()


def stepped(params: list[nn.Parameter], optimizer: Any, part: Any) -> None:
    for step in range(1, STEPS + 1):
        for param, gradient in zip(params, matrices(step), strict=True):
            param.grad = part(gradient)
        optimizer.step()


def expected() -> list[Tensor]:
    """What torch's Muon makes of whole matrices. Its rate for tall ones is
    larger by the root of rows over columns; ours is given so."""
    params = [nn.Parameter(one) for one in matrices()]
    optimizer = torch.optim.Muon(params, RATE, weight_decay=0.0)
    stepped(params, optimizer, lambda gradient: gradient)
    return [param.detach() for param in params]


def owned() -> tuple[float, float, int]:
    """How far this rank's rows are from those of whole matrices, the bytes
    sent over those of one all-reduce, and the collectives, of a step."""
    params = [nn.Parameter(rows(one)) for one in matrices()]
    rate = RATE * (ROWS / COLUMNS) ** 0.5
    with Traffic() as traffic:
        stepped(params, OwnedMuon(params, rate), rows)
    apart = max(
        float((mine - rows(whole)).abs().max())
        for mine, whole in zip(params, expected(), strict=True)
    )
    size = MATRICES * ROWS * COLUMNS * 4
    reduced = 2 * (RANKS - 1) / RANKS * size * STEPS
    return apart, traffic.sent / reduced, len(traffic.calls)


def test_owners_step_as_muon_on_whole_matrices() -> None:
    """Two ranks with half of the rows of each matrix, two steps: the weights
    are those of torch's Muon on whole matrices. An optimizer step sends less
    than the all-reduce of the gradients would, in two collectives for every
    two matrices."""
    for apart, sent, calls in ranks.run_ranks(RANKS, in_a_group, owned):
        assert apart < 1e-6
        assert sent < 0.7
        assert calls == 2 * STEPS * 2


def apart_from_whole(kind: str) -> float:
    """How far weights are from those of whole matrices, over how far these
    have moved, where torch's Muon steps on shards."""
    params: list[nn.Parameter]
    if kind == "local":
        params = [nn.Parameter(rows(one)) for one in matrices()]
        optimizer = torch.optim.Muon(params, RATE, weight_decay=0.0)
        stepped(params, optimizer, rows)
        found = [param.detach() for param in params]
    else:
        net: list[Any] = [
            nn.Linear(COLUMNS, ROWS, bias=False) for _ in range(MATRICES)
        ]
        with torch.no_grad():
            for layer, whole in zip(net, matrices(), strict=True):
                layer.weight.copy_(whole)
        mesh = init_device_mesh("cpu", (RANKS,))
        for layer in net:
            fully_shard(layer, mesh=mesh)
        params = [layer.weight for layer in net]
        optimizer = torch.optim.Muon(params, RATE, weight_decay=0.0)
        first: Any = params[0]
        stepped(
            params,
            optimizer,
            lambda gradient: distribute_tensor(
                gradient, mesh, first.placements, src_data_rank=None
            ),
        )
        sharded: list[Any] = params
        found = [param.to_local().detach() for param in sharded]
    moved, off = 0.0, 0.0
    for mine, whole, start in zip(found, expected(), matrices(), strict=True):
        moved += float((rows(whole) - rows(start)).square().sum())
        off += float((mine - rows(whole)).square().sum())
    return (off / moved) ** 0.5


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        ("local", 0.2, 2.0),
        ("dtensor", 0.0, 0.05),
    ],
)
def test_a_shard_made_orthogonal_by_itself_is_another_update(
    kind: str, least: float, most: float
) -> None:
    """PyTorch's Muon on a rank's own rows raises nothing, and its steps differ
    from steps on whole matrices by a fifth of their length or more. On FSDP2's
    DTensors it takes whole matrices into account, and differs by less than a
    twentieth, which is bf16's rounding."""
    for found in ranks.run_ranks(RANKS, in_a_group, apart_from_whole, kind):
        assert least <= found < most


def test_torchs_muon_sends_11_to_26_collectives_for_a_matrix() -> None:
    """On 64 ranks torch's rounds send 15 collectives for a DTensor of 8,192 by
    28,672, 11 if it is tall, and 26 for a square one: one for the norm, and the
    others in all five rounds."""
    shapes = [(8192, 28672), (28672, 8192), (8192, 8192)]
    coefficients = _muon.DEFAULT_A, _muon.DEFAULT_B, _muon.DEFAULT_C
    sent = []
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=64)
    try:
        mesh = init_device_mesh("cpu", (64,))
        with FakeTensorMode():
            for m, k in shapes:
                mine = torch.empty(m // 64, k)
                whole = DTensor.from_local(mine, mesh, [Shard(0)])
                with CommDebugMode() as counted:
                    _muon._zeropower_via_newtonschulz(
                        whole, coefficients, 5, 1e-7
                    )
                sent.append(counted.get_total_counts())
    finally:
        dist.destroy_process_group()
    assert sent == [15, 11, 26]


def test_an_orthogonal_update_moves_all_directions_alike() -> None:
    """The singular values of a matrix with a condition number above 30 lie
    between 0.6 and 1.3 afterwards."""
    matrix = matrices()[0] * torch.logspace(0, -1, COLUMNS)
    before = torch.linalg.svdvals(matrix)
    after = torch.linalg.svdvals(orthogonal(matrix).float())
    assert before[0] / before[-1] > 15
    assert 0.6 < after.min() < after.max() < 1.3
