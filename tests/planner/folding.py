"""What blocks of a folding trunk have beside the pair's triangles, written from
the supplements of Jumper et al. 2021 and Abramson et al. 2024."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lockstep.bio import pair

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Attention(nn.Module):
    """Gated, over the second to last dimension of (rows, n, channels), with a
    bias from pairs if they have channels."""

    def __init__(
        self,
        channels: int,
        heads: int,
        pairs: int,
        attend: Attend,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.heads, self.attend = heads, attend
        self.norm = nn.LayerNorm(channels)
        self.q = nn.Linear(
            channels, channels, not bias
        )  # as AlphaFold 3 has it
        self.k, self.v = (nn.Linear(channels, channels, False) for _ in "kv")
        self.gate, self.o = (nn.Linear(channels, channels, bias) for _ in "go")
        if pairs:
            self.norm_z = nn.LayerNorm(pairs)
            self.b = nn.Linear(pairs, heads, False)

    def forward(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        x = self.norm(x)
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        bias = torch.zeros(1, 1, 1).to(q)
        if z is not None:
            bias = self.b(self.norm_z(z)).movedim(-1, 0)
        found = self.attend(q * q.shape[-1] ** -0.5, k, v, bias)
        return self.o(self.gate(x).sigmoid() * found.transpose(1, 2).flatten(2))


class OuterProductMean(nn.Module):
    """Algorithm 10."""

    def __init__(self, channels: int, outer: int, pairs: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.a, self.b = (nn.Linear(channels, outer) for _ in "ab")
        self.o = nn.Linear(outer * outer, pairs)

    def forward(self, m: Tensor) -> Tensor:
        m = self.norm(m)
        both = torch.einsum("sic,sjd->ijcd", self.a(m), self.b(m))
        return self.o(both.flatten(2) / len(m))


class Evoformer(nn.Module):
    """Algorithm 6, lines 2 to 10."""

    def __init__(self, s: dict[str, Any], attend: Attend = pair.attend) -> None:
        super().__init__()
        m, c, h = s["msa_channels"], s["channels"], s["msa_heads"]
        self.row = Attention(m, h, c, attend)
        self.column = Attention(m, h, 0, attend)
        self.transition = pair.Transition(m)
        self.outer = OuterProductMean(m, s["outer_channels"], c)
        shape = c, s["heads"], s["head_dim"], True, False, attend
        self.pair = pair.PairBlock(*shape)

    def forward(self, m: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        m = m + self.row(m, z)
        m = m + self.column(m.transpose(0, 1)).transpose(0, 1)
        m = m + self.transition(m)
        return m, self.pair(z + self.outer(m))


class Pairformer(nn.Module):
    """Algorithm 17 of AlphaFold 3, lines 2 to 8; its linear layers have no bias
    but for the queries'."""

    def __init__(self, s: dict[str, Any], attend: Attend = pair.attend) -> None:
        super().__init__()
        c, single = s["channels"], s["single_channels"]
        shape = c, s["heads"], s["head_dim"], False, True, attend
        self.pair = pair.PairBlock(*shape)
        self.attention = Attention(
            single, s["single_heads"], c, pair.attend, False
        )
        self.transition = pair.Transition(single, False, True)

    def forward(self, x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        z = self.pair(z)
        x = x + self.attention(x[None], z)[0]
        return x + self.transition(x), z
