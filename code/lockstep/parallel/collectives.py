"""Collectives from point-to-point messages, with torch's own signatures.

Sizes may differ between ranks, as long as a sender and its receiver agree.
"""

import torch
import torch.distributed as dist
from torch import Tensor

Group = dist.ProcessGroup | None
# torch's own into one tensor: the names of 2.13, or those before it.
all_gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
reduce_scatter = getattr(
    dist, "reduce_scatter_single", dist.reduce_scatter_tensor
)


def place(group: Group = None) -> tuple[int, int]:
    """Return this rank's number in the group, and the group's size."""
    return dist.get_rank(group), dist.get_world_size(group)


# --8<-- [start:exchange]
def exchange(
    out: Tensor, to: int, into: Tensor, source: int, group: Group
) -> None:
    """Send `out` and receive `into` at once; ranks are numbered in the group.
    One after the other, all would wait in `send` until somebody receives. With
    NCCL they would wait after `isend`, too: only a batch runs at once."""
    messages = [
        dist.P2POp(dist.isend, out, group=group, group_peer=to),
        dist.P2POp(dist.irecv, into, group=group, group_peer=source),
    ]
    for work in dist.batch_isend_irecv(messages):
        work.wait()


# --8<-- [end:exchange]
# --8<-- [start:reduce_scatter]
def ring_reduce_scatter(
    output: Tensor, inputs: list[Tensor], group: Group = None
) -> None:
    """Sum all ranks' `inputs[rank]` into `output`, like `dist.reduce_scatter`.

    Args:
        output: this rank's part of the sum, in the shape of `inputs[rank]`.
        inputs: a tensor for each rank. Shapes may differ from part to part,
            and a part may be empty. The inputs aren't modified.
    """
    # Each sum starts at the rank after its owner and ends at its owner.
    rank, ranks = place(group)
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    traveling = inputs[before].clone()
    for step in range(2, ranks + 1):
        mine = inputs[(rank - step) % ranks]
        arrived = torch.empty_like(mine)
        exchange(traveling, after, arrived, before, group)
        traveling = arrived.add_(mine)
    output.copy_(traveling)


# --8<-- [end:reduce_scatter]
# --8<-- [start:all_gather]
def ring_all_gather(
    outputs: list[Tensor], tensor: Tensor, group: Group = None
) -> None:
    """Copy rank r's `tensor` into `outputs[r]`, like `dist.all_gather`.

    Args:
        outputs: a tensor for each rank, in the shape of what that rank gives.
        tensor: what this rank gives.
    """
    # Each rank passes on what it got last.
    rank, ranks = place(group)
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    outputs[rank].copy_(tensor)
    for step in range(ranks - 1):
        have, next_ = (rank - step) % ranks, (rank - step - 1) % ranks
        exchange(outputs[have], after, outputs[next_], before, group)


# --8<-- [end:all_gather]
# --8<-- [start:all_reduce]
def ring_all_reduce(tensor: Tensor, group: Group = None) -> None:
    """Replace `tensor` by its sum over ranks, like `dist.all_reduce`.

    Args:
        tensor: of any shape and dtype that can be added. The number of ranks
            need not divide its length.
    """
    rank, ranks = place(group)
    flat = tensor.contiguous().view(-1)
    parts = list(flat.tensor_split(ranks))
    mine = torch.empty_like(parts[rank])
    ring_reduce_scatter(mine, parts, group)
    ring_all_gather(parts, mine, group)
    tensor.copy_(flat.view_as(tensor))


# --8<-- [end:all_reduce]
# --8<-- [start:broadcast]
def tree_broadcast(tensor: Tensor, src: int, group: Group = None) -> None:
    """Copy `tensor` from rank `src` to all ranks, like `dist.broadcast`.

    Args:
        tensor: what rank `src` has; what the others get, in place.
        src: a global rank, as torch has it, whatever the group.
    """
    # In each round whoever has it sends it on, so their number doubles.
    rank, ranks = place(group)
    root = src if group is None else dist.get_group_rank(group, src)
    number = (rank - root) % ranks  # as if the root were rank 0
    have = 1
    while have < ranks:
        if number < have and number + have < ranks:
            to = (rank + have) % ranks
            dist.send(tensor, group=group, group_dst=to)
        elif have <= number < 2 * have:
            source = (rank - have) % ranks
            dist.recv(tensor, group=group, group_src=source)
        have *= 2


# --8<-- [end:broadcast]
# --8<-- [start:all_to_all]
def all_to_all(
    outputs: list[Tensor], inputs: list[Tensor], group: Group = None
) -> None:
    """Copy rank r's `inputs[rank]` into `outputs[r]`, like `dist.all_to_all`.

    Args:
        outputs: a tensor for each rank, in the shape of what it gives us.
        inputs: a tensor for each rank: what we give. Shapes may differ.
    """
    # In each step every rank sends to another, so none is flooded.
    rank, ranks = place(group)
    outputs[rank].copy_(inputs[rank])
    for step in range(1, ranks):
        to, source = (rank + step) % ranks, (rank - step) % ranks
        exchange(inputs[to], to, outputs[source], source, group)


# --8<-- [end:all_to_all]
