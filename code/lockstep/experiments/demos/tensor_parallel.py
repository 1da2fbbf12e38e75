"""Tensor parallelism as torch has it: a plan that names a layer's modules."""

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
    """Divide a transformer layer over the ranks of `mesh`, in place.

    Args:
        layer: with norms `first` and `second`, `attention` with q, k, v and o,
            and `mlp` with up and down. It takes (batch, sequence, hidden); with
            `sequence_parallel`, this rank's tokens alone.
    """
    outside = Shard(1) if sequence_parallel else Replicate()
    begin = PrepareModuleInput(
        input_layouts=outside, desired_input_layouts=Replicate()
    )
    end = RowwiseParallel(output_layouts=outside)
    plan: dict[str, ParallelStyle] = {"attention": begin, "mlp": begin}
    plan |= {f"attention.{name}": ColwiseParallel() for name in "qkv"}
    plan |= {"mlp.up": ColwiseParallel(), "attention.o": end, "mlp.down": end}
    if sequence_parallel:
        plan |= {"first": SequenceParallel(), "second": SequenceParallel()}
    return parallelize_module(layer, mesh, plan)


# --8<-- [end:plan]
