"""Bytes that gloo really sends, by the kernel's count, and the planner's."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from lockstep.experiments.demos import bytes_on_wire
from lockstep.planner.communication import communication
from lockstep.planner.models import shape
from lockstep.trainer.process import joined
from tests import ranks
from tests.planner import steps
from tests.planner.blocks import Block

RANKS = 4
# Frames, and what the ranks tell each other about sizes.
SLACK = {"rel": 2e-3, "abs": 8192}
ROUNDING = {"rtol": 1e-3, "atol": 1e-3}  # of sums in another order


def in_a_group(work: Callable[..., Any], *args: Any) -> Any:
    with joined(30, ranks.store()):
        return work(*args)


def test_what_a_collective_sends() -> None:
    """The backend gloo reduces and scatters by an all-reduce, and broadcasts
    down a tree, whose root sends once for every doubling."""
    found = ranks.run_ranks(RANKS, in_a_group, bytes_on_wire.of_all)
    for op in ("all_reduce", "all_gather", "all_to_all"):
        for rank in found:
            assert rank[op] == pytest.approx(bytes_on_wire.planned(op), **SLACK)
    for rank in found:
        twice = 2 * bytes_on_wire.planned("reduce_scatter")
        assert rank["reduce_scatter"] == pytest.approx(twice, **SLACK)
    whole = bytes_on_wire.planned("broadcast")
    tree = [2 * whole, whole, 0, 0]
    assert [r["broadcast"] for r in found] == pytest.approx(tree, **SLACK)


S = shape(
    {"layers": 1, "hidden": 256, "heads": 8, "kv_heads": 4, "vocab": 16}
    | {"ffn": 1024}
)
SEQUENCE, BATCH, MICROBATCHES = 256, 2, 4


def block() -> nn.Module:
    torch.manual_seed(0)
    return Block(S | {"layer_norm": 1})


def numbers(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def planned(part: str, **given: Any) -> float:
    fp32 = {f"bytes_{x}": 4 for x in ("parameter", "gradient", "activation")}
    fp32 |= {"params": numbers(block())}
    given = {"sequence": SEQUENCE, "micro_batch": BATCH} | given
    return float(communication(S | fp32 | given)[f"{part}_bytes"].value)


def tokens() -> Tensor:
    """The same on every rank."""
    torch.manual_seed(1)
    return torch.randn(BATCH, SEQUENCE, S["hidden"])


def second(step: Callable[[], object]) -> int:
    """Bytes that a step sends; the first one also builds buckets."""
    step()
    return bytes_on_wire.sent(step)


def second_step(module: nn.Module) -> int:
    x = tokens()
    return second(lambda: module(x).sum().backward())


# Data


def replicated() -> int:
    return second_step(DistributedDataParallel(block()))


def test_ddp_sends_what_is_planned() -> None:
    """A step of DDP writes what the planner says to the network, by the
    kernel's count."""
    for found in ranks.run_ranks(RANKS, in_a_group, replicated):
        assert found == pytest.approx(planned("data", dp=RANKS), **SLACK)


def sharded(stage: int, shard: int) -> int:
    """FSDP2, as each stage of ZeRO has it, with `shard` ranks to a copy."""
    copies = (RANKS // shard, shard)
    mesh = init_device_mesh("cpu", copies, mesh_dim_names=("copy", "shard"))
    whole = nn.Sequential(block())
    for module in (whole[0], whole):  # the root keeps what it has gathered
        fully_shard(module, mesh=mesh, reshard_after_forward=stage == 3)
    x = tokens()

    def step() -> None:
        for left in reversed(range(MICROBATCHES)):
            whole.set_requires_gradient_sync(stage > 1 or not left)
            whole.set_requires_all_reduce(not left)
            whole.set_reshard_after_backward(stage == 3 or not left)
            whole(x).sum().backward()

    return second(step)


@pytest.mark.parametrize(
    ("stage", "shard"), [(1, RANKS), (2, RANKS), (3, RANKS), (3, 2)]
)
def test_fsdp2_sends_what_is_planned_of_each_stage(
    stage: int, shard: int
) -> None:
    """FSDP2 set up as each stage of ZeRO writes what the planner says, by the
    kernel's count, plus what gloo adds: its reduce-scatter is an all-reduce."""
    given = {"zero_stage": stage, "microbatches": MICROBATCHES}
    plan = planned("data", dp=RANKS, shard=shard, **given)
    scatters = 1 if stage == 1 else MICROBATCHES
    plan += scatters * planned("data", dp=shard) / 2
    for found in ranks.run_ranks(RANKS, in_a_group, sharded, stage, shard):
        assert found == pytest.approx(plan, **SLACK)


def split_optimizer() -> int:
    model = DistributedDataParallel(block())
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.SGD, lr=0.1
    )
    x = tokens()

    def step() -> None:
        model(x).sum().backward()
        optimizer.step()

    return second(step)


def test_torchs_zero_redundancy_optimizer_sends_half_as_much_again() -> None:
    """It reduces gradients whole, as DDP does, and then shares what it has
    made of them. Ranks own whole tensors, so their sum is compared."""
    found = sum(ranks.run_ranks(RANKS, in_a_group, split_optimizer))
    plan = RANKS * planned("data", dp=RANKS, zero_stage=1)
    assert found == pytest.approx(3 / 2 * plan, **SLACK)


# The model


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
    return second_step(parallelize_module(block(), mesh, plan))


def test_tensor_parallelism_sends_what_is_planned() -> None:
    """A tensor-parallel block writes what the planner says to the network, by
    the kernel's count."""
    plan = planned("tensor", tp=RANKS)
    for found in ranks.run_ranks(RANKS, in_a_group, parted):
        assert found == pytest.approx(plan, **SLACK)


def staged(schedule: Any, virtual: int) -> int:
    """One block for each stage; a rank's loss is the sum of what came out."""
    rank, last = dist.get_rank(), RANKS * virtual - 1
    cpu = torch.device("cpu")
    parts = [
        PipelineStage(block(), i, last + 1, cpu)
        for i in range(rank, last + 1, RANKS)
    ]
    run = schedule(
        parts if virtual > 1 else parts[0],
        MICROBATCHES,
        loss_fn=lambda y, _: y.sum(),
    )
    whole = torch.cat([tokens()] * MICROBATCHES)
    given = (whole,) if rank == 0 else ()
    target = {"target": whole} if rank == RANKS - 1 else {}
    return second(lambda: run.step(*given, **target))


@pytest.mark.parametrize(
    ("schedule", "virtual"),
    [(ScheduleGPipe, 1), (Schedule1F1B, 1), (ScheduleInterleaved1F1B, 2)],
)
def test_a_pipeline_sends_what_is_planned(schedule: Any, virtual: int) -> None:
    """Each stage of a pipeline sends what the planner says; the first stage
    sends nothing back, and the last nothing forward."""
    given = {"pp": RANKS, "layers": RANKS * virtual}
    given |= {"virtual_stages": virtual, "microbatches": MICROBATCHES}
    plan = planned("pipeline", **given)
    end = plan * (1 - 1 / (2 * virtual))
    found = ranks.run_ranks(RANKS, in_a_group, staged, schedule, virtual)
    assert found == pytest.approx([end, plan, plan, end], **SLACK)


# Tokens


def in_context(kind: str) -> int:
    """A step of which each rank has a part of the sequence, and in which it
    computes what one rank would."""
    alone, model = block(), DistributedDataParallel(block())
    whole = alone(tokens())
    whole.sum().backward()
    mine, expected = (
        of_all.chunk(RANKS, 1)[dist.get_rank()] for of_all in (tokens(), whole)
    )
    with patch.object(F, "scaled_dot_product_attention", getattr(steps, kind)):
        found = second(lambda: model(mine).sum().backward())
        torch.testing.assert_close(model(mine), expected, **ROUNDING)
    for ours, theirs in zip(
        model.parameters(), alone.parameters(), strict=True
    ):
        both = ours.grad * RANKS  # DDP has made means of two steps' sums
        torch.testing.assert_close(both, 2 * theirs.grad, **ROUNDING)
    return found


def test_ulysses_sends_what_is_planned() -> None:
    """And the gradients, each of its ranks those of its tokens."""
    plan = planned("sent", cp=RANKS, context="ulysses")
    for found in ranks.run_ranks(RANKS, in_a_group, in_context, "ulysses"):
        assert found == pytest.approx(plan, **SLACK)


def test_ring_attention_sends_what_is_planned() -> None:
    """Keys and values make a hop less than there are ranks, forward and
    backward; their gradients go all the way round."""
    plan = planned("sent", cp=RANKS)
    for found in ranks.run_ranks(RANKS, in_a_group, in_context, "ring"):
        assert found == pytest.approx(plan, **SLACK)


CHOSEN = 2


def expert() -> int:
    """A block whose MLP is one of as many as there are ranks, all alike."""
    alone, model = block(), block()
    model.mlp = steps.OneEach(model.mlp, CHOSEN)
    ours = [f"mlp.{name}" for name, _ in model.mlp.named_parameters()]
    ignore = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model
    ignore(model, ours)
    x = tokens()
    found = second_step(DistributedDataParallel(model))
    torch.testing.assert_close(model(x), alone(x), **ROUNDING)
    return found


def test_experts_send_what_is_planned() -> None:
    """And their own gradients are at home: only the others' are reduced."""
    given = {"ep": RANKS, "experts": RANKS, "experts_per_token": CHOSEN}
    others = numbers(block()) - numbers(block().mlp)
    plan = planned("sent", dp=RANKS, params=others, **given)
    for found in ranks.run_ranks(RANKS, in_a_group, expert):
        assert found == pytest.approx(plan, **SLACK)
