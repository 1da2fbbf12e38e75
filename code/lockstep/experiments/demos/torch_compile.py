"""What torch.compile captures: graphs, breaks, recompiles, and DDP's buckets.

    python -m lockstep.experiments.demos.torch_compile

Nothing is generated here. A backend of our own notes each graph that it is
given, and each time that one runs, and runs it as it is; so this shows what is
captured and when, and never how fast generated code would be.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch._dynamo
import torch.distributed as dist
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from lockstep.instruments.forked import in_a_group

WIDTH, BLOCKS = 256, 6
BUCKET_MB = 1  # two of the blocks, each of two weights of 256 KiB


# --8<-- [start:log]
class Log:
    """A backend that compiles nothing: it notes what it is given, and when it
    runs, and runs the graph as it was captured."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []
        self.events: list[str] = []

    def backend(self, graph: Any, inputs: Any) -> Callable[..., Any]:
        """Of Dynamo: the forward graph, before autograd sees it."""
        self.graphs.append(graph)
        return graph.forward

    def noted(self, event: str) -> Callable[..., Any]:
        """A compiler for AOTAutograd whose graphs note each run."""

        def compiler(graph: Any, inputs: Any) -> Any:
            def run(*args: Any) -> Any:
                self.events.append(event)
                return graph.forward(*args)

            return make_boxed_func(torch._dynamo.disable(run))

        return compiler

    def both(self, graph: Any, inputs: Any) -> Any:
        """A backend with a graph for the forward and one for the backward
        pass, which AOTAutograd traces."""
        self.graphs.append(graph)
        return aot_autograd(
            fw_compiler=self.noted("forward"),
            bw_compiler=self.noted("backward"),
        )(graph, inputs)


# --8<-- [end:log]
# --8<-- [start:breaks]
def whole(x: Tensor) -> Tensor:
    """Nothing asks the CPU: one graph."""
    y = x.sin() * 2
    return torch.where(y.sum() > 0, y + 1, y - 1)


def broken(x: Tensor) -> Tensor:
    """Which way to go is known only when the sum has been computed."""
    y = x.sin() * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


def read(x: Tensor) -> Tensor:
    """A number is read in the middle of the forward pass."""
    y = x.sin() * 2
    return (y + 1) / y.abs().max().item()


# --8<-- [end:breaks]


@contextmanager
def fresh(**config: Any) -> Iterator[Log]:
    """Nothing compiled before, with these settings of Dynamo."""
    torch._dynamo.reset()
    logger = logging.getLogger("torch._dynamo")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with torch._dynamo.config.patch(**config):
            yield Log()
    finally:
        logger.setLevel(level)
        torch._dynamo.reset()


def captured(function: Callable[[Tensor], Tensor], *inputs: Tensor) -> int:
    """Graphs that calls with these inputs capture."""
    with fresh() as log:
        quick = torch.compile(function, backend=log.backend)
        for x in inputs:
            quick(x)
        return len(log.graphs)


# --8<-- [start:lengths]
def graphs_of_lengths(
    lengths: list[int], dynamic: bool | None = None, mark: bool = False
) -> list[int]:
    """Graphs captured so far, after each batch of such a length."""
    torch.manual_seed(0)
    layer, found = nn.Linear(WIDTH, WIDTH), []
    with fresh() as log:
        quick = torch.compile(layer, backend=log.backend, dynamic=dynamic)
        for length in lengths:
            x = torch.randn(length, WIDTH)
            if mark:
                torch._dynamo.mark_dynamic(x, 0)
            quick(x)
            found.append(len(log.graphs))
    return found


# --8<-- [end:lengths]
# --8<-- [start:block]
class Block(nn.Module):
    """Two matrices and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH, bias=False)
        self.down = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(x)))


class Stack(nn.Module):
    """Equal blocks, each with weights of its own."""

    def __init__(self, blocks: int = BLOCKS) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def compile_each(model: Stack, backend: Any, **how: Any) -> None:
    """Compile each block for itself, in place: names stay as they are."""
    for block in model.blocks:
        block.compile(backend=backend, **how)


# --8<-- [end:block]
def stack(blocks: int = BLOCKS) -> Stack:
    """Alike on every rank."""
    torch.manual_seed(0)
    return Stack(blocks)


class Captured(NamedTuple):
    """Graphs, and operations in all of them together."""

    graphs: int
    operations: int


def operations(graphs: list[torch.fx.GraphModule]) -> int:
    """Calls in the graphs."""
    return sum(
        node.op.startswith("call")
        for graph in graphs
        for node in graph.graph.nodes
    )


def regional(blocks: int, each: bool) -> Captured:
    """What a stack captures, compiled block by block or as a whole."""
    model = stack(blocks)
    with fresh() as log:
        if each:
            compile_each(model, log.backend, fullgraph=True)
        else:
            model.compile(backend=log.backend, fullgraph=True)
        model(torch.ones(4, WIDTH, requires_grad=True))  # as an embedding's
        return Captured(len(log.graphs), operations(log.graphs))


# --8<-- [start:ddp]
def ddp_events(
    bucket_mb: float, split: bool, where: str = "wrapper"
) -> tuple[int, list[str]]:
    """Graphs of a compiled DDP model, and the order in which its second
    backward pass runs graphs and hands buckets to the network.

    Args:
        bucket_mb: the size of DDP's buckets, in MiB.
        split: whether DDPOptimizer may break the graph.
        where: what is compiled: the wrapper, the model within, or each block.
    """
    mode = "ddp_optimizer" if split else "no_optimization"
    with fresh(optimize_ddp=mode) as log:
        inner = stack()
        model = DistributedDataParallel(inner, bucket_cap_mb=bucket_mb)
        model.register_comm_hook(log, noting)
        if where == "blocks":
            compile_each(inner, log.both)
        else:
            chosen = model if where == "wrapper" else inner
            chosen.compile(backend=log.both)
        x = torch.randn(4, WIDTH, requires_grad=True)
        for _ in range(2):  # DDP orders its buckets anew after the first
            log.events.clear()
            model(x).square().mean().backward()
        graphs = len(log.graphs)
        events = [event for event in log.events if event != "forward"]
    return graphs, events


def noting(log: Log, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """DDP's hook: note that a bucket is full, then average it."""
    log.events.append("bucket")
    work = dist.all_reduce(
        bucket.buffer().div_(dist.get_world_size()), async_op=True
    )
    assert work is not None
    return work.get_future().then(lambda done: done.value()[0])


# --8<-- [end:ddp]
# --8<-- [start:fsdp]
def fsdp_graphs(each: bool) -> tuple[int, list[float]]:
    """Graphs of a stack under FSDP2, whose blocks are compiled before they are
    sharded, or which is compiled as a whole afterwards; and what it returns."""
    model = stack()
    with fresh() as log:
        if each:
            compile_each(model, log.backend)
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
        if not each:
            model.compile(backend=log.backend)
        y = model(torch.ones(4, WIDTH, requires_grad=True))
        y.mean().backward()
        return len(log.graphs), y[0].tolist()


# --8<-- [end:fsdp]
def refused() -> str:
    """What Dynamo says when a sharded stack is to be one graph."""
    model = stack()
    for block in model.blocks:
        fully_shard(block)
    with fresh() as log:
        model.compile(backend=log.backend, fullgraph=True)
        try:
            model(torch.ones(4, WIDTH, requires_grad=True))
        except torch._dynamo.exc.Unsupported as error:
            return str(error)
    return "one graph"


def checkpointed(inside: bool) -> Captured:
    """A block under activation checkpointing: compiled together with it, or
    a compiled block that is recomputed by eager code."""
    block = stack(1).blocks[0]

    def wrapped(x: Tensor) -> Tensor:
        return checkpoint(block, x, use_reentrant=False)

    x = torch.ones(4, WIDTH, requires_grad=True)
    with fresh() as log:
        if inside:
            torch.compile(wrapped, backend=log.both, fullgraph=True)(
                x
            ).sum().backward()
        else:
            block.compile(backend=log.both)
            wrapped(x).sum().backward()
        return Captured(len(log.graphs), log.events.count("forward"))


# --8<-- [start:uneven]
def uneven() -> list[int]:
    """Graphs that this rank has after each step, where only rank 1's batches
    change their length, at the third step."""
    rank = dist.get_rank()
    return graphs_of_lengths([8, 8, 8 + rank, 8 + 2 * rank])


def late(compiling: float, limit: float) -> str:
    """What this rank's all-reduce says, where only rank 1 compiles again, for
    so many seconds, and the group waits for `limit` seconds."""
    group = dist.new_group(timeout=timedelta(seconds=limit))
    with fresh() as log:

        def slow(graph: Any, inputs: Any) -> Any:
            if log.graphs:  # the first graph is compiled by all
                time.sleep(compiling)
            return log.backend(graph, inputs)

        quick = torch.compile(whole, backend=slow)
        for length in (8, 8 + dist.get_rank()):
            y = quick(torch.ones(length)).sum()
            try:
                dist.all_reduce(y, group=group)
            except RuntimeError as error:
                return str(error)
    return "done"


# --8<-- [end:uneven]
def main() -> None:
    """Print the counts that the page shows."""
    ones = torch.ones(4)
    print("graphs: no branch", captured(whole, ones), end=", ")
    print("branch on data", captured(broken, ones, -ones), end=", ")
    print("item()", captured(read, ones))
    lengths = list(range(8, 20))
    for dynamic in (None, False, True):
        counts = graphs_of_lengths(lengths, dynamic)
        print(f"12 lengths, dynamic={dynamic}:", *counts)
    for each in (False, True):
        for blocks in (2, BLOCKS):
            graphs, calls = regional(blocks, each)
            how = "each block" if each else "whole model"
            print(f"{how}, {blocks} blocks: {graphs} graph, {calls} operations")
    for split, cap in ((True, BUCKET_MB), (True, 25), (False, BUCKET_MB)):
        graphs, events = in_a_group(2, ddp_events, cap, split)[0]
        how = "on" if split else "off"
        print(f"DDPOptimizer {how}, buckets of {cap} MiB:", *events)
    _, events = in_a_group(2, ddp_events, BUCKET_MB, False, "blocks")[0]
    print("each block compiled:", *events)
    for each in (True, False):
        found = in_a_group(2, fsdp_graphs, each)[0][0]
        how = "each block, then sharded" if each else "sharded, then the whole"
        print(f"FSDP2, compiled {how}: {found}")
    print("checkpoint within the graph:", *checkpointed(True))
    print("checkpoint around the graph:", *checkpointed(False))
    for rank, counts in enumerate(in_a_group(2, uneven)):
        print(f"rank {rank}, graphs after each step:", *counts)


if __name__ == "__main__":
    main()
