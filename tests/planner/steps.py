"""What torch has no module of on a CPU: attention in context parallelism, and
experts that each rank has one of."""

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.distributed import _functional_collectives as collectives
from torch.distributed.tensor.experimental._context_parallel import (
    _attention as torchs,
)

ATEN = torch.ops.aten
FLASH = ATEN._scaled_dot_product_flash_attention_for_cpu
FLASH_BACKWARD = ATEN._scaled_dot_product_flash_attention_for_cpu_backward
ATTENTION = F.scaled_dot_product_attention  # before a test replaces it
HEADS, SEQUENCE = 1, 2  # of a tensor (batch, heads, sequence, head's width)


class Ring(torch.autograd.Function):
    """torch's own ring, which has no entry for the CPU's kernel."""

    @staticmethod
    def forward(ctx: FunctionCtx, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        torchs._cp_options.enable_load_balance = False  # parts in their order
        out, sums = torchs._templated_ring_attention(
            dist.group.WORLD, SEQUENCE, FLASH, q, k, v, is_causal=True
        )
        ctx.save_for_backward(q, k, v, out, sums)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        return torchs._templated_ring_attention_backward(
            dist.group.WORLD,
            SEQUENCE,
            FLASH_BACKWARD,
            grad,
            "grad_out",
            *ctx.saved_tensors,
            is_causal=True,
            dropout_p=0.0,
        )


def exchanged(x: Tensor, split: int, joined: int) -> Tensor:
    """Each rank's share of `x` along `split`, sent to it; what came, in the
    order of ranks along `joined`. One all-to-all, and one backward."""
    ranks = dist.get_world_size()
    sent = torch.cat([part.flatten() for part in x.chunk(ranks, split)])
    even = [sent.numel() // ranks] * ranks
    came = collectives.all_to_all_single_autograd(
        sent, even, even, dist.group.WORLD
    )
    shape = list(x.shape)
    shape[split] //= ranks
    return torch.cat([c.view(shape) for c in came.chunk(ranks)], joined)


def ring(q: Tensor, k: Tensor, v: Tensor, **_: Any) -> Tensor:
    """In place of scaled_dot_product_attention, on parts of a sequence."""
    return Ring.apply(q, k, v)


def ulysses(q: Tensor, k: Tensor, v: Tensor, **_: Any) -> Tensor:
    """The same, by some heads of the whole sequence: Jacobs et al. 2023."""
    q, k, v = (exchanged(x, HEADS, SEQUENCE) for x in (q, k, v))
    y = ATTENTION(q, k, v, is_causal=True, enable_gqa=q.shape[1] > k.shape[1])
    return exchanged(y, SEQUENCE, HEADS)


class OneEach(nn.Module):
    """`expert` is one of as many as there are ranks; every token goes to `k`
    of them, as evenly as a router may wish."""

    def __init__(self, expert: nn.Module, k: int) -> None:
        super().__init__()
        self.expert, self.k = expert, k

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        chosen = (
            self.visit(tokens.roll(i, 0)).roll(-i, 0) for i in range(self.k)
        )
        return (sum(chosen, torch.zeros(())) / self.k).view(x.shape)

    def visit(self, tokens: Tensor) -> Tensor:
        """Each token to the expert of its place, modulo ranks, and back."""
        there = exchanged(
            tokens.unflatten(0, (-1, dist.get_world_size())), 1, 0
        )
        return exchanged(self.expert(there), 0, 1).flatten(0, 1)
