"""Lab 05 once more, in another style: torch's own kernel for a block and
functional collectives; positions travel with the keys; chunks, not slices."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as functional
from torch.nn.functional import scaled_dot_product_attention

ATEN = torch.ops.aten
FLASH = ATEN._scaled_dot_product_flash_attention_for_cpu
FLASH_BACKWARD = ATEN._scaled_dot_product_flash_attention_for_cpu_backward


def zigzag_positions(length: int, rank: int, ranks: int) -> Tensor:
    chunk, rest = divmod(length, 2 * ranks)
    if rest:
        raise ValueError(f"length {length} leaves {rest} on {ranks} ranks")
    early = torch.arange(rank * chunk, (rank + 1) * chunk)
    return torch.cat((early, length - 1 - early.flip(0)))


def turned(x: Tensor, group: Any) -> Tensor:
    """On its way to the next rank; what comes is waited for when it is used."""
    ranks = dist.get_world_size(group)
    to = [(rank + 1) % ranks for rank in range(ranks)]
    return functional.permute_tensor(x.flatten(), to, group).view_as(x)


class Ring(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, mine: Tensor, group: Any
    ) -> Tensor:
        out, lse = torch.zeros_like(q).float(), None
        kv, theirs = torch.stack((k, v)), mine
        for left in reversed(range(dist.get_world_size(group))):
            if left:
                coming = turned(kv, group), turned(theirs, group)
            rows, keys = mine >= theirs.min(), theirs <= mine.max()
            if keys.any():
                mask = bias(mine[rows], theirs[keys])
                block = kv[..., keys, :].float()
                part, own = FLASH(
                    q[..., rows, :].float(), *block, attn_mask=mask
                )
                full = torch.zeros_like(out)
                full[..., rows, :] = part
                sums = out.new_full(out.shape[:-1], -torch.inf)
                sums[..., rows] = own
                if lse is None:
                    out, lse = full, sums
                else:
                    share = torch.sigmoid(sums - lse)[..., None]
                    out = torch.lerp(out, full, share)
                    lse = torch.logaddexp(lse, sums)
            if left:
                kv, theirs = coming
        ctx.save_for_backward(q, k, v, mine, out, lse)
        ctx.group = group
        return out.to(q.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        q, k, v, mine, out, lse = ctx.saved_tensors
        ranks = dist.get_world_size(ctx.group)
        dq, dkv = torch.zeros_like(out), torch.zeros((2, *out.shape))
        kv, theirs = torch.stack((k, v)), mine
        for step in range(ranks):
            if step < ranks - 1:
                coming = turned(kv, ctx.group), turned(theirs, ctx.group)
            rows, keys = mine >= theirs.min(), theirs <= mine.max()
            here = torch.zeros((2, *out.shape))
            if keys.any():
                of_q, of_k, of_v = FLASH_BACKWARD(
                    grad[..., rows, :].float(),
                    q[..., rows, :].float(),
                    *kv[..., keys, :].float(),
                    out[..., rows, :],
                    lse[..., rows].contiguous(),
                    0.0,
                    False,
                    attn_mask=bias(mine[rows], theirs[keys]),
                )
                dq[..., rows, :] += of_q
                here[..., keys, :] = torch.stack((of_k, of_v))
            dkv = turned(dkv + here, ctx.group)
            if step < ranks - 1:
                kv, theirs = coming
        dk, dv = (dkv + 0).to(k.dtype)
        return dq.to(q.dtype), dk, dv, None, None


def bias(mine: Tensor, theirs: Tensor) -> Tensor:
    later = mine[:, None] < theirs
    return torch.zeros(later.shape).masked_fill(later, -torch.inf)


def ring_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    group: Any = None,
    causal: bool = True,
) -> Tensor:
    mine = positions if causal else positions * 0
    return Ring.apply(q, k, v, mine, group or dist.group.WORLD)


def ulysses_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    group: Any = None,
    causal: bool = True,
) -> Tensor:
    group = group or dist.group.WORLD
    ranks = dist.get_world_size(group)
    if q.shape[1] % ranks:
        raise ValueError(f"{q.shape[1]} heads, {ranks} ranks")
    places = [torch.zeros_like(positions) for _ in range(ranks)]
    dist.all_gather(places, positions, group)
    at = torch.cat(places)
    q, k, v = (
        torch.cat(swapped(x.tensor_split(ranks, 1), group), 2)
        for x in (q, k, v)
    )
    mask = bias(at, at).to(q.dtype) if causal else None
    out = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return torch.cat(swapped(out.tensor_split(ranks, 2), group), 1)


def swapped(parts: tuple[Tensor, ...], group: Any) -> tuple[Tensor, ...]:
    """A part for each rank, and one from each."""
    sent = torch.stack(parts)
    equal = [1] * len(parts)
    act = functional.all_to_all_single_autograd
    return act(sent, equal, equal, group).unbind()
