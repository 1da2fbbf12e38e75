"""Attention in tiles and a loss in pieces: the same numbers, and less memory.

    python -m lockstep.experiments.demos.tiled_attention

What a flash kernel and a fused loss do on a GPU, written out in tensors on the
CPU, so that the arithmetic can be read and held against the plain version. The
Python loop is slow; what is shown is what is kept, never the speed.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


# --8<-- [start:softmax]
def online_softmax_sum(scores: Tensor, values: Tensor, tile: int) -> Tensor:
    """softmax(scores) @ values for one row, a tile of it at a time.

    Args:
        scores: (keys,).
        values: (keys, width).
        tile: keys at a time.
    """
    largest = torch.tensor(-math.inf)  # m: of the scores so far
    total = torch.tensor(0.0)  # l: of exp(score - m) so far
    out = torch.zeros(values.shape[1])  # of exp(score - m) * value so far
    for s, v in zip(scores.split(tile), values.split(tile), strict=True):
        now = torch.maximum(largest, s.max())
        shrink = torch.exp(largest - now)  # what was summed had an older m
        weights = torch.exp(s - now)
        total = total * shrink + weights.sum()
        out = out * shrink + weights @ v
        largest = now
    return out / total


# --8<-- [end:softmax]
def plain_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention with all scores at once; each (length, width)."""
    scores = q @ k.T / math.sqrt(q.shape[1])
    past = torch.ones(scores.shape, dtype=torch.bool).tril()
    return scores.masked_fill(~past, -math.inf).softmax(-1) @ v


# --8<-- [start:flash]
class TiledAttention(torch.autograd.Function):
    """Causal attention that never holds more than one tile of scores.

    Dao et al. 2022, algorithms 1 and 4, without dropout. A row of queries
    keeps one number for the backward pass, the logarithm of its total.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, tile: int) -> Tensor:
        outs, logs = [], []
        for first in range(0, len(q), tile):
            rows = q[first : first + tile]
            m = rows.new_full((len(rows), 1), -math.inf)
            total, out = torch.zeros_like(m), torch.zeros_like(rows)
            for at in range(0, first + len(rows), tile):  # none of the future
                s = _scores(rows, k[at : at + tile], first, at)
                now = torch.maximum(m, s.amax(1, keepdim=True))
                shrink, weights = (m - now).exp(), (s - now).exp()
                total = total * shrink + weights.sum(1, keepdim=True)
                out = out * shrink + weights @ v[at : at + tile]
                m = now
            outs.append(out / total)
            logs.append(m + total.log())
        out, log = torch.cat(outs), torch.cat(logs)
        ctx.save_for_backward(q, k, v, out, log)
        ctx.tile = tile
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, log = ctx.saved_tensors
        tile, scale = ctx.tile, 1 / math.sqrt(q.shape[1])
        gq, gk, gv = (torch.zeros_like(x) for x in (q, k, v))
        dot = (g * out).sum(1, keepdim=True)  # softmax's inner product
        for first in range(0, len(q), tile):
            i = slice(first, first + tile)
            for at in range(0, first + len(q[i]), tile):
                j = slice(at, at + tile)
                s = _scores(q[i], k[j], first, at)  # again
                p = (s - log[i]).exp()  # the softmax, at once
                gv[j] += p.T @ g[i]
                gs = p * (g[i] @ v[j].T - dot[i]) * scale
                gq[i] += gs @ k[j]
                gk[j] += gs.T @ q[i]
        return gq, gk, gv, None


def _scores(q: Tensor, k: Tensor, first: int, at: int) -> Tensor:
    """A tile of masked scores, whose corner is (first, at)."""
    scores = q @ k.T / math.sqrt(q.shape[1])
    rows = torch.arange(first, first + len(q))[:, None]
    future = torch.arange(at, at + len(k)) > rows
    return scores.masked_fill(future, -math.inf)


# --8<-- [end:flash]
def plain_loss(x: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy with all logits at once."""
    return cross_entropy(x @ weight.T, targets)


# --8<-- [start:loss]
class LossInPieces(torch.autograd.Function):
    """Mean cross-entropy of `x @ weight.T`, a piece of the tokens at a time.

    The gradient of a piece's logits is taken at once, while they are there,
    so that no logits are kept and none are computed twice.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, targets: Tensor, piece: int
    ) -> Tensor:
        loss = x.new_zeros(())
        of_x, of_weight = torch.empty_like(x), torch.zeros_like(weight)
        for at in range(0, len(x), piece):
            i = slice(at, at + piece)
            logits = x[i] @ weight.T
            log = logits.logsumexp(1, keepdim=True)
            right = logits.gather(1, targets[i, None])
            loss += (log - right).sum()
            logits.sub_(log).exp_()  # the softmax, in the logits' place
            logits.scatter_add_(1, targets[i, None], -torch.ones_like(right))
            of_x[i] = logits @ weight
            of_weight += logits.T @ x[i]
            del logits
        ctx.save_for_backward(of_x / len(x), of_weight / len(x))
        return loss / len(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        of_x, of_weight = ctx.saved_tensors
        return g * of_x, g * of_weight, None, None


# --8<-- [end:loss]
class Largest(TorchDispatchMode):
    """Numbers in the largest tensor that any operation made."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in tree_iter(made):
            if isinstance(one, Tensor):
                self.numbers = max(self.numbers, one.numel())
        return made


def largest(work: Callable[[], Tensor]) -> int:
    """Numbers in the largest tensor of a forward and a backward pass."""
    with Largest() as seen:
        work().sum().backward()
    return seen.numbers


# --8<-- [start:errors]
def errors(
    kernel: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    *inputs: Tensor,
) -> tuple[float, float]:
    """How far a kernel and the plain version, both in bf16, are from the plain
    version in fp64: the largest difference, each over the largest value."""
    exact = reference(*(x.double() for x in inputs))
    low = [x.bfloat16() for x in inputs]
    found = [
        float((f(*low).double() - exact).abs().max() / exact.abs().max())
        for f in (kernel, reference)
    ]
    return found[0], found[1]


# --8<-- [end:errors]
def tensors(*shapes: tuple[int, int]) -> list[Tensor]:
    """Drawn alike each time, with gradients."""
    chance = torch.Generator().manual_seed(0)
    return [
        torch.randn(shape, generator=chance).requires_grad_()
        for shape in shapes
    ]


def tiled(q: Tensor, k: Tensor, v: Tensor, tile: int = 16) -> Tensor:
    """TiledAttention with tiles of a size."""
    return TiledAttention.apply(q, k, v, tile)


def pieces(
    x: Tensor, weight: Tensor, targets: Tensor, piece: int = 32
) -> Tensor:
    """LossInPieces with pieces of a size."""
    return LossInPieces.apply(x, weight, targets, piece)


def main() -> None:
    """Print the largest tensors, and the errors in bf16."""
    for length in (128, 256, 512):
        q, k, v = tensors(*[(length, 16)] * 3)
        print(
            f"{length} tokens: largest tensor",
            largest(partial(plain_attention, q, k, v)),
            "plain,",
            largest(partial(tiled, q, k, v)),
            "in tiles",
        )
    x, weight = tensors((256, 16), (1000, 16))
    targets = torch.arange(256)
    print(
        "logits: largest tensor",
        largest(lambda: plain_loss(x, weight, targets)),
        "plain,",
        largest(lambda: pieces(x, weight, targets)),
        "in pieces",
    )
    with torch.no_grad():
        mine, plain = errors(tiled, plain_attention, *tensors(*[(256, 16)] * 3))
    print(f"bf16 against fp64: tiles {mine:.1e}, plain {plain:.1e}")


if __name__ == "__main__":
    main()
