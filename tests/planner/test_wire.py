"""Bytes that gloo really sends, by the kernel's count, and the planner's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from lockstep.planner.communication import communication
from lockstep.planner.models import shape
from lockstep.probes import wire
from lockstep.trainer.process import joined
from tests import ranks
from tests.planner.blocks import Block

RANKS = 4
# Frames, and what the ranks tell each other about sizes.
SLACK = {"rel": 2e-3, "abs": 8192}


def in_a_group(work: Callable[..., Any], *args: Any) -> Any:
    with joined(30, ranks.store()):
        return work(*args)


def test_what_a_collective_sends() -> None:
    """gloo reduces and scatters by an all-reduce, and broadcasts down a tree,
    whose root sends once for every doubling."""
    found = ranks.run_ranks(RANKS, in_a_group, wire.of_all)
    for op in ("all_reduce", "all_gather", "all_to_all"):
        for rank in found:
            assert rank[op] == pytest.approx(wire.planned(op), **SLACK)
    for rank in found:
        twice = 2 * wire.planned("reduce_scatter")
        assert rank["reduce_scatter"] == pytest.approx(twice, **SLACK)
    whole = wire.planned("broadcast")
    tree = [2 * whole, whole, 0, 0]
    assert [r["broadcast"] for r in found] == pytest.approx(tree, **SLACK)


S = shape({"layers": 1, "hidden": 256, "heads": 8, "vocab": 16, "ffn": 1024})
SEQUENCE, BATCH = 256, 2


def block() -> nn.Module:
    torch.manual_seed(0)
    return Block(S | {"layer_norm": 1})


def second_step(module: nn.Module) -> int:
    """Bytes that a step sends; the first one also builds buckets."""

    def step() -> None:
        x = torch.ones(BATCH, SEQUENCE, S["hidden"])
        module(x).sum().backward()

    step()
    return wire.sent(step)


def replicated() -> int:
    return second_step(DistributedDataParallel(block()))


def sharded() -> int:
    whole = nn.Sequential(block())
    fully_shard(whole[0])  # what is no root is gathered again for backward
    fully_shard(whole)
    return second_step(whole)


def parted() -> int:
    """Column- and row-parallel: Shoeybi et al. 2019, section 3."""
    mesh = init_device_mesh("cpu", (RANKS,))
    plan: dict[str, ParallelStyle] = {
        # Its three layers' gradients are summed before ranks are.
        "attention": PrepareModuleInput(
            input_layouts=Replicate(), desired_input_layouts=Replicate()
        )
    }
    plan |= {f"attention.{name}": ColwiseParallel() for name in "qkv"}
    plan |= {"attention.o": RowwiseParallel(), "mlp.up": ColwiseParallel()}
    plan |= {"mlp.down": RowwiseParallel()}
    whole = block()
    return second_step(parallelize_module(whole, mesh, plan))


def planned(part: str, **given: Any) -> float:
    params = sum(p.numel() for p in block().parameters())
    fp32 = {f"bytes_{name}": 4 for name in ("parameter", "gradient")}
    given |= {"params": params, "sequence": SEQUENCE, "micro_batch": BATCH}
    found = communication(S | fp32 | {"bytes_activation": 4} | given)
    return float(found[f"{part}_bytes"].value)


def test_ddp_sends_what_is_planned() -> None:
    for found in ranks.run_ranks(RANKS, in_a_group, replicated):
        assert found == pytest.approx(planned("data", dp=RANKS), **SLACK)


def test_fsdp2_sends_what_is_planned_and_gloos_second_half() -> None:
    """Its reduce-scatter costs gloo an all-reduce, a third more in all."""
    plan = planned("data", dp=RANKS, zero_stage=3)
    for found in ranks.run_ranks(RANKS, in_a_group, sharded):
        assert found == pytest.approx(plan * 4 / 3, **SLACK)


def test_tensor_parallelism_sends_what_is_planned() -> None:
    plan = planned("tensor", tp=RANKS)
    for found in ranks.run_ranks(RANKS, in_a_group, parted):
        assert found == pytest.approx(plan, **SLACK)
