"""A decoder of Llama 3's kind, as small as its parts allow; the output
layer's weights are those of the embedding."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import (
    checkpoint,
    create_selective_checkpoint_contexts,
)

from lockstep.experiments.gpu.settings import Shape

# --8<-- [start:recompute]
# What costs most to compute again for each byte that it keeps.
PRODUCTS = [
    torch.ops.aten.mm.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
]
AGAIN = {
    "full": partial(checkpoint, use_reentrant=False),
    "selective": partial(
        checkpoint,
        use_reentrant=False,
        context_fn=partial(create_selective_checkpoint_contexts, PRODUCTS),
    ),
}
# --8<-- [end:recompute]


class Block(nn.Module):
    """Attention and a gated MLP, each after a norm: (b, s, hidden) to same."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        h, self.head = shape.hidden, shape.hidden // shape.heads
        kv = shape.kv_heads * self.head
        self.norm1, self.norm2 = nn.RMSNorm(h), nn.RMSNorm(h)
        self.q = nn.Linear(h, h, bias=False)
        self.k = nn.Linear(h, kv, bias=False)
        self.v = nn.Linear(h, kv, bias=False)
        self.o = nn.Linear(h, h, bias=False)
        self.gate = nn.Linear(h, shape.ffn, bias=False)
        self.up = nn.Linear(h, shape.ffn, bias=False)
        self.down = nn.Linear(shape.ffn, h, bias=False)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        """`turn`: cosine and sine of rotary positions, (s, head)."""
        x = x + self.attend(self.norm1(x), turn)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def attend(self, x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        """Causal, with fewer heads of keys and values than of queries."""
        q, k, v = (
            layer(x).unflatten(-1, (-1, self.head)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(
            rotated(q, turn),
            rotated(k, turn),
            v,
            is_causal=True,
            enable_gqa=True,
        )
        return self.o(y.transpose(1, 2).flatten(2))


def rotated(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary positions (Su et al. 2021), halves against halves."""
    cos, sin = turn
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def angles(s: int, head: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine for s positions, each (s, head)."""
    rate = 500000 ** -(torch.arange(0, head, 2, device=like.device) / head)
    angle = torch.arange(s, device=like.device)[:, None] * rate
    angle = torch.cat((angle, angle), -1)
    return angle.cos().to(like.dtype), angle.sin().to(like.dtype)


class Decoder(nn.Module):
    """Token ids (b, s) to the mean loss of predicting the next one. What the
    backward pass computes again: none, full, or selective, which keeps matrix
    products and attention."""

    def __init__(self, shape: Shape, recompute: str = "none") -> None:
        super().__init__()
        self.shape, self.recompute = shape, recompute
        self.embedding = nn.Embedding(shape.vocab, shape.hidden)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        device = x.device.type
        available = torch.amp.is_autocast_available(device)  # not on meta
        if available and torch.is_autocast_enabled(device):
            x = x.to(torch.get_autocast_dtype(device))
        turn = angles(ids.shape[1], self.shape.hidden // self.shape.heads, x)
        again = AGAIN.get(self.recompute)
        for block in self.blocks:
            x = again(block, x, turn) if again else block(x, turn)
        logits = F.linear(self.norm(x), self.embedding.weight)[:, :-1]
        return F.cross_entropy(
            logits.flatten(0, 1).float(), ids[:, 1:].flatten()
        )
