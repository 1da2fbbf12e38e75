"""What the chapter on torch.compile says, counted by a backend of our own."""

from typing import Any

import pytest
import torch
import torch._inductor.config as inductor
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from lockstep.experiments.demos import torch_compile
from lockstep.experiments.demos.torch_compile import (
    BLOCKS,
    BUCKET_MB,
    WIDTH,
    broken,
    captured,
    checkpointed,
    ddp_events,
    fresh,
    fsdp_graphs,
    graphs_of_lengths,
    late,
    noting,
    read,
    refused,
    regional,
    stack,
    uneven,
    whole,
)
from lockstep.trainer.process import joined
from tests import ranks

ONES = torch.ones(4)
LENGTHS = list(range(8, 20))


def grouped(work: Any, *args: Any) -> Any:
    """`work(*args)` in a group of all ranks."""
    with joined(30, ranks.store()):
        return work(*args)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_selection_computes_what_a_branch_does(sign: int) -> None:
    """Without a compiler, too: for sums of either sign, `torch.where` selects
    what the branch returns, and a number that is read scales it alike."""
    x = sign * torch.tensor([0.5, 1.0])
    y = 2 * x.sin()
    assert torch.equal(torch_compile.whole(x), torch_compile.broken(x))
    assert torch.equal(torch_compile.whole(x), y + sign)
    assert torch.allclose(torch_compile.read(x), (y + 1) / y.abs().max())


def test_a_branch_on_data_breaks_the_graph() -> None:
    """A function that branches on a sum captures three graphs once both
    branches have been taken, one that reads a number by `.item()` captures
    two, and one that asks `torch.where` captures one."""
    assert captured(broken, ONES, -ONES) == 3
    assert captured(read, ONES) == 2
    assert captured(whole, ONES, -ONES) == 1


def test_a_length_that_changes_becomes_dynamic() -> None:
    """Twelve lengths capture two graphs by default: one for the first length,
    and at the second one for all. With `dynamic=True` they capture one. A
    length of 1 captures another graph."""
    assert graphs_of_lengths(LENGTHS) == [1] + 11 * [2]
    assert graphs_of_lengths([8, 9, 1, 7]) == [1, 2, 3, 3]
    assert graphs_of_lengths([8, 1, 7], dynamic=True) == [1, 2, 2]
    assert graphs_of_lengths(LENGTHS, dynamic=True) == 12 * [1]
    assert graphs_of_lengths(LENGTHS, mark=True) == 12 * [1]


def test_after_eight_graphs_a_function_runs_eagerly() -> None:
    """With `dynamic=False` each length captures a graph until there are eight,
    torch's limit. After that no more are captured."""
    counts = graphs_of_lengths(LENGTHS, dynamic=False)
    assert counts == [*range(1, 9), 8, 8, 8, 8]


def test_a_length_that_has_a_graph_uses_it_after_the_limit() -> None:
    """The first eight of twelve lengths with `dynamic=False` have graphs. They
    still run them once the limit is reached, and the other four run none."""
    layer = torch.nn.Linear(WIDTH, WIDTH)
    with fresh() as log:
        quick = torch.compile(layer, backend=log.both, dynamic=False)
        ran = []
        for length in (*LENGTHS, *LENGTHS):
            log.events.clear()
            quick(torch.ones(length, WIDTH, requires_grad=True))
            ran.append(len(log.events))
    assert ran == 2 * [*8 * [1], *4 * [0]]


class Numbered(torch.nn.Module):
    """A block whose forward pass uses its number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.layer, self.number = torch.nn.Linear(WIDTH, WIDTH), number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * (1 + self.number)


def test_of_numbered_blocks_all_after_the_eighth_run_eagerly() -> None:
    """Twelve compiled blocks use their own number in the forward pass, so each
    is a version of one function, and only eight get a graph."""
    with fresh() as log:
        x = torch.ones(4, WIDTH, requires_grad=True)
        for number in range(12):
            block = Numbered(number)
            block.compile(backend=log.both)
            x = block(x)
        assert len(log.graphs) == len(log.events) == 8


def test_equal_blocks_share_a_graph() -> None:
    """Compiled block by block, two blocks and six capture one graph of the
    same size. Compiled as a whole, the graph grows with the blocks."""
    assert regional(2, True) == regional(BLOCKS, True) == (1, 4)
    assert regional(2, False) == (1, 8)
    assert regional(BLOCKS, False) == (1, 4 * BLOCKS)


def ddp(*case: Any) -> list[str]:
    """Events of a backward pass on rank 0 of two."""
    return ranks.run_ranks(2, grouped, ddp_events, *case)[0][1]  # type: ignore[no-any-return]


@pytest.mark.parametrize("where", ["wrapper", "inner"])
def test_ddp_breaks_the_graph_where_buckets_end(where: str) -> None:
    """On two ranks the backward pass of a compiled DDP model runs three graphs
    with three buckets of 1 MiB, and a bucket leaves after each. So it does
    whether the wrapper or the model within it is compiled."""
    assert ddp(BUCKET_MB, True, where) == 3 * ["backward", "bucket"]


def test_the_first_graph_ends_at_one_mebibyte_whatever_a_bucket_holds() -> None:
    """With buckets of 25 MiB, into which the whole model fits, its backward
    pass runs two graphs, and the only bucket leaves after both."""
    assert ddp(25, True) == ["backward", "backward", "bucket"]


def test_without_ddp_optimizer_all_buckets_leave_at_the_end() -> None:
    """With DDPOptimizer switched off there is one backward graph, and all
    three buckets leave after it: nothing is left to overlap with."""
    assert ddp(BUCKET_MB, False) == ["backward", *3 * ["bucket"]]


def warmed_up() -> list[str]:
    """Events of the second backward pass under DDP, with DDPOptimizer on, of a
    model that was compiled and run before DDP wrapped it."""
    with fresh(optimize_ddp="ddp_optimizer") as log:
        inner = stack()
        inner.compile(backend=log.both)
        x = torch.randn(4, WIDTH, requires_grad=True)
        inner(x).square().mean().backward()
        model = DistributedDataParallel(inner, bucket_cap_mb=BUCKET_MB)
        model.register_comm_hook(log, noting)
        for _ in range(2):
            log.events.clear()
            model(x).square().mean().backward()
        return [event for event in log.events if event != "forward"]


def test_a_warm_up_before_ddp_leaves_the_graph_uncut() -> None:
    """Though DDPOptimizer is on, a model that ran before DDP wrapped it keeps
    its one backward graph, and all buckets leave after it."""
    found = ranks.run_ranks(2, grouped, warmed_up)[0]
    assert found == ["backward", *3 * ["bucket"]]


def test_compiled_blocks_let_buckets_leave_without_ddp_optimizer() -> None:
    """Where each block is compiled by itself, with DDPOptimizer switched off,
    a bucket of two blocks leaves after two backward graphs."""
    found = ddp(BUCKET_MB, False, "blocks")
    assert found == 3 * ["backward", "backward", "bucket"]


def test_blocks_compiled_before_fsdp_share_a_graph() -> None:
    """On two ranks, six blocks that are compiled and then sharded by
    `fully_shard` capture one graph, and return what eager ones do."""
    graphs, y = ranks.run_ranks(2, grouped, fsdp_graphs, True)[0]
    assert graphs == 1
    eager = stack()(torch.ones(4, 256))[0].tolist()
    assert y == pytest.approx(eager, abs=1e-5)


def test_a_sharded_model_is_not_one_graph() -> None:
    """On two ranks, a model whose blocks are sharded by `fully_shard` and that
    is compiled with `fullgraph=True` is refused, for a function in FSDP's hook
    that Dynamo is told to leave alone. Without `fullgraph` one graph is
    captured, a block's."""
    assert "skipped" in ranks.run_ranks(2, grouped, refused)[0]
    assert ranks.run_ranks(2, grouped, fsdp_graphs, False)[0][0] == 1


def test_a_checkpoint_may_lie_within_the_graph_or_around_it() -> None:
    """With the checkpoint compiled as well, the forward graph runs once and
    recomputation is part of the backward graph. With a compiled block under
    an eager checkpoint the forward graph runs twice."""
    assert checkpointed(inside=True) == (1, 1)
    assert checkpointed(inside=False) == (1, 2)


def test_a_rank_with_other_lengths_compiles_alone() -> None:
    """Where only rank 1's length changes at the third step, only rank 1
    captures a second graph then, while rank 0 runs the one that it has."""
    found = ranks.run_ranks(2, grouped, uneven)
    assert found == [[1, 1, 1, 1], [1, 1, 2, 2]]


def test_a_rank_that_compiles_too_long_times_the_others_out() -> None:
    """Where rank 1 compiles for longer than the group waits, rank 0's
    all-reduce times out, and rank 1 later finds that its peer has gone. Where
    the group waits longer, both go on."""
    waiting, compiling = ranks.run_ranks(2, grouped, late, 1.5, 0.5)
    assert "Timed out" in waiting
    assert compiling != "done"
    assert ranks.run_ranks(2, grouped, late, 0.2, 20.0) == 2 * ["done"]


@pytest.mark.weekly  # it compiles two kernels
def test_compiled_bf16_rounds_once() -> None:
    """Compiled by Inductor, a chain of elementwise operations in bf16 equals
    the fp32 result rounded once. A quarter of eager's elements differ from it.
    With emulate_precision_casts the compiled chain has eager's bits."""

    def chain(x: Tensor, s: Tensor, b: Tensor, r: Tensor) -> Tensor:
        return torch.nn.functional.silu(x * s + b) * x + r

    torch.manual_seed(0)
    given = [torch.randn(4096).bfloat16() for _ in range(4)]
    eager = chain(*given)
    once = chain(*(one.float() for one in given)).bfloat16()
    assert torch.equal(torch.compile(chain)(*given), once)
    assert 0.2 < (eager != once).float().mean() < 0.3
    torch.compiler.reset()
    with inductor.patch(emulate_precision_casts=True):
        assert torch.equal(torch.compile(chain)(*given), eager)
