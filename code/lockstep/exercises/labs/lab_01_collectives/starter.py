"""Lab 01: collectives.

Build five collectives from point-to-point messages: `dist.send`, `dist.recv`,
`dist.isend`, `dist.irecv`. Nothing else of torch.distributed moves data here.

`group` is None for all ranks, or a process group. Tensors are on the CPU and
contiguous, if nothing else is said. Ranks call each function together.
"""

import torch.distributed as dist
from torch import Tensor

Group = dist.ProcessGroup | None


def ring_reduce_scatter(
    output: Tensor, inputs: list[Tensor], group: Group = None
) -> None:
    """As `dist.reduce_scatter(output, inputs)`, along a ring.

    Args:
        output: this rank's part of the sum; it has the shape of `inputs[rank]`.
        inputs: a tensor for each rank. Shapes may differ from part to part,
            and a part may be empty. They stay as they were.
    """
    raise NotImplementedError  # TODO: each partial sum takes n - 1 hops


def ring_all_gather(
    outputs: list[Tensor], tensor: Tensor, group: Group = None
) -> None:
    """As `dist.all_gather(outputs, tensor)`, along a ring.

    Args:
        outputs: a tensor for each rank, in the shape of what that rank gives.
        tensor: what this rank gives.
    """
    raise NotImplementedError  # TODO: each part takes n - 1 hops


def ring_all_reduce(tensor: Tensor, group: Group = None) -> None:
    """As `dist.all_reduce(tensor)`: the sum, in place, along a ring.

    Args:
        tensor: of any shape and dtype that can be added. The number of ranks
            need not divide its length.
    """
    raise NotImplementedError  # TODO: 2 (n - 1) / n of its bytes, no more


def tree_broadcast(tensor: Tensor, src: int, group: Group = None) -> None:
    """As `dist.broadcast(tensor, src)`, down a tree.

    Args:
        tensor: what rank `src` has; what the others get, in place.
        src: a global rank, as torch has it, whatever the group.
    """
    raise NotImplementedError  # TODO: as many rounds as log2 of n, rounded up


def all_to_all(
    outputs: list[Tensor], inputs: list[Tensor], group: Group = None
) -> None:
    """As `dist.all_to_all(outputs, inputs)`.

    Args:
        outputs: a tensor for each rank, in the shape of what it gives us.
        inputs: a tensor for each rank: what we give. Shapes may differ.
    """
    raise NotImplementedError  # TODO: every pair of ranks, and nobody waits
