"""Lab 05: sequence and context parallelism.

One sequence is too long for one rank: each has a part of its tokens. Compute
exactly the attention that one process would, and its gradients.

Tensors are (batch, heads, local sequence, head_dim), of one shape and dtype on
all ranks, in q, k and v alike. `positions`, (local sequence,), are integers:
where this rank's tokens stand in the whole sequence. They ascend on each rank,
and any split of the sequence is allowed: contiguous, zig-zag, every n-th token.

Scores are scaled by head_dim ** -0.5. With `causal`, a query sees the keys at
its own position and before. `group` is None for all ranks, or a process group.
Ranks call each function together; gradients reach q, k and v by autograd.
"""

import torch.distributed as dist
from torch import Tensor

Group = dist.ProcessGroup | None


def zigzag_positions(length: int, rank: int, ranks: int) -> Tensor:
    """Which tokens of a sequence of `length` this rank has, such that under a
    causal mask all ranks have the same work.

    Of 2 × `ranks` equal chunks a rank has the `rank`-th from the start and the
    `rank`-th from the end.

    Returns:
        (length / ranks,), int64, ascending.

    Raises:
        ValueError: `length` cannot be cut so.
    """
    raise NotImplementedError  # TODO: an early and a late chunk


def ring_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    group: Group = None,
    causal: bool = True,
) -> Tensor:
    """Attention of this rank's queries to the keys of all ranks, by blocks.

    No rank holds the keys, values or scores of all ranks, in the forward pass
    or for the backward pass. Other blocks travel while one is computed with.
    A rank does not compute scores that its queries cannot see: of a block,
    neither queries before its first key, nor keys after the last query.
    Sums are kept, and gradients travel, in float32 at least.

    Returns:
        (batch, heads, local sequence, head_dim), in the dtype of `q`.
    """
    raise NotImplementedError  # TODO: forward by blocks, backward by blocks


def ulysses_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    group: Group = None,
    causal: bool = True,
) -> Tensor:
    """The same by exchanging a split of the sequence for one of heads.

    Keys, values, queries and outputs each cross the network once forward, and
    their gradients once backward.

    Returns:
        (batch, heads, local sequence, head_dim), in the dtype of `q`.

    Raises:
        ValueError: the ranks do not divide the heads; the message has both.
    """
    raise NotImplementedError  # TODO: whole sequences of some heads, and back
