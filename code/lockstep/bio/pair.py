"""The pair representation: AlphaFold 2's triangle updates, and what they keep.

    python -m lockstep.bio.pair

z is (rows, columns, channels): residue i is a row, j a column. The updates are
algorithms 11 to 15 of the supplement to Jumper et al. 2021,
https://doi.org/10.1038/s41586-021-03819-2, without dropout and masks. Where
ranks share z, a `Layout` says how they get what they lack (`pair_sharding`);
the layers are the same.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lockstep.instruments.peak import Counted, counted
from lockstep.planner.pair import TRUNK, pair

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
again = partial(checkpoint, use_reentrant=False)


class Layout:
    """All of z on this rank."""

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        """(i, k, c) and (j, k, c) to (i, j, c): the sum over all k."""
        return torch.einsum("ikc,jkc->ijc", a, b)

    def whole_rows(self, x: Tensor) -> Tensor:
        """All columns of this rank's rows."""
        return x

    def bias(self, b: Tensor) -> Tensor:
        """(j, k, heads) of this rank's columns j, and all k."""
        return b

    def turned(self, z: Tensor) -> tuple[Tensor, "Layout"]:
        """Return the transpose, and how ranks share it."""
        return z.transpose(0, 1), self


ALONE = Layout()


# --8<-- [start:multiplication]
class TriangleMultiplication(nn.Module):
    """Algorithm 11: edge ij from edges ik and jk, summed over k.

    Algorithm 12 is this one on the transpose, with a and b the other way round.
    """

    def __init__(self, channels: int = 128, bias: bool = True) -> None:
        super().__init__()
        self.norm, self.norm_out = (nn.LayerNorm(channels) for _ in range(2))
        linear = partial(nn.Linear, channels, channels, bias)
        self.a, self.gate_a, self.b, self.gate_b = (linear() for _ in range(4))
        self.gate, self.out = linear(), linear()

    def forward(self, z: Tensor, layout: Layout = ALONE) -> Tensor:
        """Return the update of z, of z's shape."""
        z = self.norm(z)
        a = self.gate_a(z).sigmoid() * self.a(z)
        b = self.gate_b(z).sigmoid() * self.b(z)
        edges = layout.multiply(a, b)
        return self.gate(z).sigmoid() * self.out(self.norm_out(edges))


# --8<-- [end:multiplication]
# --8<-- [start:attend]
def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """(rows, heads, N, head_dim), with one bias (heads, N, N) for all rows."""
    return (q @ k.mT + bias).softmax(-1) @ v


def in_chunks(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, rows: int = 16
) -> Tensor:
    """Attend to so many rows at a time, each computed again for backward."""
    parts = zip(q.split(rows), k.split(rows), v.split(rows), strict=True)
    return torch.cat([again(attend, *part, bias) for part in parts])


# --8<-- [end:attend]
def sdpa(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """torch's own, with the bias as the mask that is added. With an axis for
    rows: the CPU's flash kernel takes no mask of three, learning or not."""
    mask = bias[None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)


def sdpa_detached(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Call the CPU's flash kernel, which adds a mask and has no gradient for
    it. Call it by name, since tensors without memory would get a different
    kernel. The mask is not expanded to all rows: the kernel would copy it,
    which is the cube."""
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    mask = bias.detach()[None]
    return kernel(q, k, v, attn_mask=mask, scale=1.0)[0]


def efficient(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """CUDA's memory-efficient kernel, which has a gradient for the mask, of the
    size that it is expanded to. Only tensors without memory get it here."""
    kernel = torch.ops.aten._scaled_dot_product_efficient_attention
    return kernel(q, k, v, bias.expand(len(q), *bias.shape), True, scale=1.0)[0]


# --8<-- [start:attention]
class TriangleAttention(nn.Module):
    """Algorithm 13: edges of row i attend to each other, and edge jk says how
    much ij heeds ik. Algorithm 14 is this one on the transpose."""

    def __init__(
        self,
        channels: int = 128,
        heads: int = 4,
        head_dim: int = 32,
        bias: bool = True,
        attend: Attend = attend,
    ) -> None:
        super().__init__()
        self.heads, self.head_dim, self.attend = heads, head_dim, attend
        self.norm = nn.LayerNorm(channels)
        wide = heads * head_dim
        linear = partial(nn.Linear, channels, wide, bias=False)
        self.q, self.k, self.v = (linear() for _ in range(3))
        self.bias = nn.Linear(channels, heads, bias=False)
        self.gate = nn.Linear(channels, wide, bias)
        self.out = nn.Linear(wide, channels, bias)

    def forward(self, z: Tensor, layout: Layout = ALONE) -> Tensor:
        """Return the update of z, of z's shape."""
        z = self.norm(z)
        q, k, v = (layer(z) for layer in (self.q, self.k, self.v))
        q, k, v = (
            x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for x in (
                q * self.head_dim**-0.5,
                layout.whole_rows(k),
                layout.whole_rows(v),
            )
        )
        bias = layout.bias(self.bias(z)).movedim(-1, 0)
        found = self.attend(q, k, v, bias).transpose(1, 2).flatten(2)
        return self.out(self.gate(z).sigmoid() * found)


# --8<-- [end:attention]
class Transition(nn.Module):
    """Algorithm 15, or with a gate algorithm 11 of AlphaFold 3."""

    def __init__(
        self, channels: int = 128, bias: bool = True, gated: bool = False
    ) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        wide = 4 * channels
        self.gate = nn.Linear(channels, wide, bias) if gated else None
        self.up = nn.Linear(channels, wide, bias)
        self.down = nn.Linear(wide, channels, bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the update of x, of x's shape."""
        x = self.norm(x)
        if self.gate is None:
            return self.down(F.relu(self.up(x)))
        return self.down(F.silu(self.gate(x)) * self.up(x))


# --8<-- [start:block]
class PairBlock(nn.Module):
    """What Evoformer and Pairformer do to z in a block."""

    def __init__(
        self,
        channels: int = 128,
        heads: int = 4,
        head_dim: int = 32,
        bias: bool = True,
        gated: bool = False,
        attend: Attend = attend,
    ) -> None:
        super().__init__()
        self.outgoing = TriangleMultiplication(channels, bias)
        self.incoming = TriangleMultiplication(channels, bias)
        shape = channels, heads, head_dim, bias, attend
        self.starting = TriangleAttention(*shape)
        self.ending = TriangleAttention(*shape)
        self.transition = Transition(channels, bias, gated)

    def forward(self, z: Tensor, layout: Layout = ALONE) -> Tensor:
        """z after the block; both parts of it that work on columns work on the
        rows of the transpose."""
        for rows, columns in (
            (self.outgoing, self.incoming),
            (self.starting, self.ending),
        ):
            z = z + rows(z, layout)
            turned, other = layout.turned(z)
            z = z + other.turned(columns(turned, other))[0]
        return z + self.transition(z)


# --8<-- [end:block]
# What a reader may try, and what the planner calls it.
WAYS: dict[str, tuple[Attend, str]] = {
    "scores kept": (attend, "scores"),
    "sdpa, bias learns": (sdpa, ""),
    "sdpa, bias detached": (sdpa_detached, "fused"),
    "efficient kernel": (efficient, ""),
    "16 rows, recomputed": (in_chunks, "chunks"),
}


def of_layer(layer: nn.Module, residues: int, channels: int = 128) -> Counted:
    """Count what one update keeps, and its peak, in 16 bits. The layer is on
    the device of tensors without memory, and so is z."""
    layer = layer.to(torch.bfloat16)
    size = residues, residues, channels
    with torch.device("meta"):
        z = torch.zeros(size, dtype=torch.bfloat16, requires_grad=True)
        return counted(layer, lambda: layer(z * 1).sum())


def planned(residues: int, **given: Any) -> dict[str, Any]:
    """Return the planner's figures for one block of AlphaFold 2's shape."""
    asked: dict[str, Any] = TRUNK | {"pair_bias": 1, "recompute": "none"}
    asked |= {"rows": 1, "columns": 1, "bytes_activation": 2}
    return pair(asked | {"attention": "scores", "residues": residues} | given)


def main() -> None:
    """MB of one triangle attention by its way, and of a multiplication."""
    sizes = 256, 512
    print(f"{'one update, MB':22}{'kept':>16}{'peak':>18}")
    print(f"{'residues':22}" + 2 * "".join(f"{n:9}" for n in sizes))
    with torch.device("meta"):
        layers = {
            name: TriangleAttention(attend=way)
            for name, (way, _) in WAYS.items()
        }
        updates: dict[str, nn.Module] = {**layers}
        updates["multiplication"] = TriangleMultiplication()
    for name, layer in updates.items():
        found = [of_layer(layer, n) for n in sizes]
        said = [one.kept for one in found] + [one.peak for one in found]
        print(f"{name:22}" + "".join(f"{one / 1e6:9.0f}" for one in said))
    scores = [float(planned(n)["logits_bytes"]) / 1e6 for n in sizes]
    print(
        f"{'its scores, planned':22}" + "".join(f"{one:9.0f}" for one in scores)
    )


if __name__ == "__main__":
    main()
