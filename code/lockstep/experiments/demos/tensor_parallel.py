"""Tensor parallelism with torch: a plan that names a layer's modules."""

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


# --8<-- [start:plan]
def divide(
    layer: nn.Module, mesh: DeviceMesh, sequence_parallel: bool
) -> nn.Module:
    """Split a transformer layer over the ranks of `mesh`, in place.

    Args:
        layer: with norms `first` and `second`, `attention` with q, k, v and o,
            and `mlp` with up and down. It takes (batch, sequence, hidden), and
            with `sequence_parallel` only this rank's tokens.
    """
    between = Shard(1) if sequence_parallel else Replicate()
    start = PrepareModuleInput(
        input_layouts=between, desired_input_layouts=Replicate()
    )
    columns, rows = ColwiseParallel(), RowwiseParallel(output_layouts=between)
    plan: dict[str, ParallelStyle] = {
        "attention": start,
        **{f"attention.{name}": columns for name in "qkv"},
        "attention.o": rows,
        "mlp": start,
        "mlp.up": columns,
        "mlp.down": rows,
    }
    if sequence_parallel:
        plan |= {"first": SequenceParallel(), "second": SequenceParallel()}
    return parallelize_module(layer, mesh, plan)


# --8<-- [end:plan]
