"""What a grader counts as the memory of a rank."""

import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from lockstep.instruments.memory import Memory
from tests.ranks import run_ranks, store

RANKS = 2


def of_a_dtensor() -> int:
    """Bytes that live once this rank has a part of 32 bytes."""
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", store=store(), rank=rank, world_size=RANKS)
    part = distribute_tensor(
        torch.ones(8), init_device_mesh("cpu", (RANKS,)), [Shard(0)]
    )
    with Memory() as memory:
        double = part * 2
        found = memory.live
    dist.barrier()
    return found if double.shape == (8,) else -1


def test_of_a_dtensor_a_rank_holds_its_own_part() -> None:
    assert run_ranks(RANKS, of_a_dtensor) == [16, 16]


def test_a_tensor_counts_while_it_lives() -> None:
    with Memory() as memory:
        kept = torch.ones(8)
        lost = torch.ones(4)
        assert memory.live == 32 + 16
        del lost
        assert memory.live == kept.nbytes == 32
    assert memory.peak == 48
