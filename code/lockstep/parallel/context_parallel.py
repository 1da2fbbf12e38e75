"""Attention over a sequence of which each rank has a part.

Tensors are (batch, heads, local sequence, head_dim), of one shape on all ranks.
A rank's `positions`, (local sequence,), say where its tokens stand in the whole
sequence. They ascend, and no more is asked of how the sequence is split.

`ring_attention` is Liu et al. 2023, https://arxiv.org/abs/2310.01889, with the
backward pass of Dao et al. 2022, https://arxiv.org/abs/2205.14135.
`ulysses_attention` is Jacobs et al. 2023, https://arxiv.org/abs/2309.14509. The
zig-zag order is that of Llama 3, https://arxiv.org/abs/2407.21783, 3.3.2.
Both send what `lockstep plan run --cp` says, and besides each token's position
(8 bytes) once to every rank.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from lockstep.parallel.collectives import Group, place

HEADS, SEQUENCE = -3, -2  # of a tensor (…, heads, sequence, head_dim)


# --8<-- [start:zigzag]
def zigzag_positions(length: int, rank: int, ranks: int) -> Tensor:
    """Return one rank's tokens, so that ranks have equal work under a causal
    mask.

    Of 2 × `ranks` equal chunks, a rank has those that are `rank` from either
    end: an early one, which sees little, and a late one, which sees much.

    Returns:
        (length / ranks,), int64, ascending.

    Raises:
        ValueError: `length` cannot be cut so.
    """
    if length % (2 * ranks):
        raise ValueError(f"2 * {ranks} ranks do not divide length {length}")
    chunks = torch.arange(length).chunk(2 * ranks)
    return torch.cat((chunks[rank], chunks[-1 - rank]))


# --8<-- [end:zigzag]
# --8<-- [start:ring]
def pass_on(block: Tensor, group: Group) -> Callable[[], Tensor]:
    """Start to send `block` to the next rank of the ring. What is returned
    waits for what the rank before has sent."""
    rank, ranks = place(group)
    if ranks == 1:
        return lambda: block
    arriving = torch.empty_like(block)
    to, source = (rank + 1) % ranks, (rank - 1) % ranks
    messages = [
        dist.P2POp(dist.isend, block, group=group, group_peer=to),
        dist.P2POp(dist.irecv, arriving, group=group, group_peer=source),
    ]
    under_way = dist.batch_isend_irecv(messages)

    def arrived() -> Tensor:
        for work in under_way:
            work.wait()
        return arriving

    return arrived


def circulate(block: Tensor, group: Group) -> Iterator[tuple[int, Tensor]]:
    """Every rank's block, and whose it is, our own first. The next one is on
    its way while the caller computes with this one."""
    rank, ranks = place(group)
    for step in range(ranks - 1):
        arrived = pass_on(block, group)
        yield (rank - step) % ranks, block
        block = arrived()
    yield (rank + 1) % ranks, block


# --8<-- [end:ring]
# --8<-- [start:visible]
def visible(mine: Tensor, theirs: Tensor) -> tuple[slice, slice] | None:
    """Our queries from the first that sees a key of theirs, and their keys up
    to the last that a query of ours sees; None if there are none."""
    first = int(torch.searchsorted(mine, theirs[0]))
    end = int(torch.searchsorted(theirs, mine[-1], right=True))
    return (slice(first, None), slice(end)) if end else None


def scores(q: Tensor, k: Tensor, mine: Tensor, theirs: Tensor) -> Tensor:
    """How much each query asks for each key: nothing of a later one."""
    later = mine.to(q.device)[:, None] < theirs.to(q.device)
    found = q @ k.mT * q.shape[-1] ** -0.5
    return found.masked_fill(later, float("-inf"))


# --8<-- [end:visible]
def dtype_of_sums(x: Tensor) -> torch.dtype:
    """float32, or wider if `x` is."""
    return torch.promote_types(x.dtype, torch.float32)


class RingAttention(torch.autograd.Function):
    """Keys and values go round, forward and backward; so do their gradients."""

    # --8<-- [start:forward]
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, places: Tensor, group: Group
    ) -> Tensor:
        """`out` is always right for the keys so far, whose weights add up to
        exp(`lse`): a block that comes makes them smaller and adds its own.

        `places` is (ranks, local sequence), on the host.
        """
        wide = dtype_of_sums(q)
        mine = places[dist.get_rank(group)]
        out = torch.zeros_like(q, dtype=wide)
        lse = out.new_full((*q.shape[:-1], 1), float("-inf"))
        for owner, block in circulate(torch.stack((k, v)), group):
            theirs = places[owner]
            if not (seen := visible(mine, theirs)):
                continue
            rows, keys = seen
            their_k, their_v = block[..., keys, :].to(wide)
            my_q, my_out, my_lse = (x[..., rows, :] for x in (q, out, lse))
            s = scores(my_q.to(wide), their_k, mine[rows], theirs[keys])
            total = my_lse.logaddexp(s.logsumexp(-1, keepdim=True))
            my_out.mul_((my_lse - total).exp())
            my_out.add_((s - total).exp() @ their_v)
            my_lse.copy_(total)
        out = out.to(q.dtype)
        ctx.save_for_backward(q, k, v, places, out, lse)
        ctx.group = group
        return out

    # --8<-- [end:forward]
    # --8<-- [start:backward]
    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Weights are computed again, from `lse`. A block's gradients travel a
        step behind it, and a hop more: home."""
        q, k, v, places, out, lse = ctx.saved_tensors
        wide, scale = lse.dtype, q.shape[-1] ** -0.5
        mine = places[dist.get_rank(ctx.group)]
        wide_q, grad = q.to(wide), grad.to(wide)
        dot = (grad * out).sum(-1, keepdim=True)
        dq = torch.zeros_like(grad)
        arrived: Callable[[], Tensor] = partial(torch.zeros, ())
        for owner, block in circulate(torch.stack((k, v)), ctx.group):
            theirs = places[owner]
            dk, dv = dkv = torch.zeros_like(block, dtype=wide)
            if seen := visible(mine, theirs):
                rows, keys = seen
                their_k, their_v = block[..., keys, :].to(wide)
                my_q, my_grad = wide_q[..., rows, :], grad[..., rows, :]
                s = scores(my_q, their_k, mine[rows], theirs[keys])
                p = (s - lse[..., rows, :]).exp()
                ds = p * (my_grad @ their_v.mT - dot[..., rows, :]) * scale
                dq[..., rows, :] += ds @ their_k
                dk[..., keys, :] = ds.mT @ my_q
                dv[..., keys, :] = p.mT @ my_grad
            dkv += arrived()  # of the ranks before us
            arrived = pass_on(dkv, ctx.group)
        dk, dv = arrived().to(q.dtype)
        return dq.to(q.dtype), dk, dv, None, None

    # --8<-- [end:backward]


def gathered(positions: Tensor, group: Group) -> Tensor:
    """(ranks, local sequence): where each rank's tokens stand."""
    places = [torch.empty_like(positions) for _ in range(place(group)[1])]
    dist.all_gather(places, positions.contiguous(), group=group)
    return torch.stack(places)


def ring_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    group: Group = None,
    causal: bool = True,
) -> Tensor:
    """Attention of this rank's queries to all ranks' keys, which go round.

    Whatever the number of ranks, a rank holds two blocks of keys and values at
    a time, and backward two of gradients. Other blocks travel while it computes
    with one. It computes no scores that its queries cannot see: of a block,
    neither queries before its first key, nor keys after the last query. Sums
    are kept, and gradients travel, in float32 at least.

    Returns:
        (batch, heads, local sequence, head_dim), in the dtype of `q`.

    Raises:
        ValueError: the positions do not ascend on some rank.
    """
    if not causal:  # tokens that stand in one place see each other
        positions = torch.zeros_like(positions)
    # The host decides what is skipped: it waits for the device once.
    places = gathered(positions.to(q.device), group).cpu()
    if (places.diff() < 0).any():
        raise ValueError("positions do not ascend on every rank")
    return RingAttention.apply(q, k, v, places, group)


# --8<-- [start:exchange]
class Exchange(torch.autograd.Function):
    """parts[r] to rank r, for every r; the gradients go back the same way."""

    @staticmethod
    def forward(ctx: Any, parts: Tensor, group: Group) -> Tensor:
        """(ranks, …): what each rank had for us."""
        ctx.group = group
        came = torch.empty_like(parts)
        dist.all_to_all_single(came, parts, group=group)
        return came

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Exchange gradients: an exchange is its own transpose."""
        return Exchange.apply(grad.contiguous(), ctx.group), None


def trade(x: Tensor, split: int, joined: int, group: Group) -> Tensor:
    """Our share of dimension `split` of what all ranks have, in the order of
    ranks along dimension `joined`."""
    parts = torch.stack(x.chunk(place(group)[1], split))
    return torch.cat(Exchange.apply(parts, group).unbind(), joined)


# --8<-- [end:exchange]
# --8<-- [start:ulysses]
def ulysses_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    group: Group = None,
    causal: bool = True,
) -> Tensor:
    """Attention of this rank's queries to all ranks' keys, by some heads of the
    whole sequence on each rank in between.

    Keys, values, queries and outputs each cross the network once forward, and
    their gradients once backward.

    Returns:
        (batch, heads, local sequence, head_dim), in the dtype of `q`.

    Raises:
        ValueError: the ranks do not divide the heads; the message has both.
    """
    heads, ranks = q.shape[HEADS], place(group)[1]
    if heads % ranks:
        raise ValueError(f"{ranks} ranks do not divide {heads} heads")
    order = gathered(positions.to(q.device), group).flatten().argsort()
    whole = trade(torch.stack((q, k, v)), HEADS, SEQUENCE, group)
    q, k, v = whole[..., order, :]
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return trade(out[..., order.argsort(), :], SEQUENCE, HEADS, group)


# --8<-- [end:ulysses]
