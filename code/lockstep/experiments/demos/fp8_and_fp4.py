"""FP8 and FP4 with scales, emulated: numbers are stored in few bits and come
back as fp32, so any machine shows what rounding does to them.

What a GPU does besides, the products in few bits themselves, it does exactly;
so the result differs only by the order and the precision of its sums.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
LARGEST = {E4M3: 448.0, E5M2: 57344.0}
LEAST = 1e-30  # a scale: zeros stay zeros
Rounds = Callable[[Tensor], Tensor]
Recipe = dict[str, Rounds]  # how x, w and the gradient g are rounded


# --8<-- [start:tiled]
def tiled(x: Tensor, rows: int, columns: int, held: Any = E4M3) -> Tensor:
    """A matrix as it comes back from FP8, with a scale of its own for each
    tile of so many rows and columns."""
    tiles = x.unflatten(0, (-1, rows)).unflatten(-1, (-1, columns))
    amax = tiles.abs().amax((1, 3), keepdim=True)
    scale = (amax / LARGEST[held]).clamp(min=LEAST)
    stored = (tiles / scale).to(held)  # what a GPU keeps, beside the scales
    return (stored.float() * scale).reshape(x.shape)


def per_tensor(x: Tensor, held: Any = E4M3) -> Tensor:
    """One scale for all of it."""
    return tiled(x, len(x), x.shape[1], held)


# --8<-- [end:tiled]
def per_row_of_128(x: Tensor) -> Tensor:
    """As DeepSeek-V3 scales activations and gradients."""
    return tiled(x, 1, 128)


def per_square_of_128(x: Tensor) -> Tensor:
    """As DeepSeek-V3 scales weights."""
    return tiled(x, 128, 128)


# --8<-- [start:micro]
def mxfp8(x: Tensor, upward: bool = True) -> Tensor:
    """32 neighbors of a row share a scale, a power of two in 8 bits: the next
    that makes the largest fit, or, as the standard has it, the one with which
    the largest has e4m3's largest exponent."""
    blocks = x.unflatten(-1, (-1, 32))
    amax = blocks.abs().amax(-1, keepdim=True)
    amax = amax.clamp(min=2.0**-110)  # else a scale of 0 for zeros
    fits = (amax / 448).log2().ceil()
    power = fits if upward else amax.log2().floor() - 8
    scale = power.exp2().to(torch.float8_e8m0fnu).float()
    stored = (blocks / scale).clamp(-448, 448).to(E4M3)
    return (stored.float() * scale).flatten(-2)


def nvfp4(x: Tensor, rows: int = 1, chance: Any = None) -> Tensor:
    """16 neighbors of a row, or of so many rows, share a scale in e4m3, and
    all of x one in fp32."""
    blocks = x.unflatten(0, (-1, rows)).unflatten(-1, (-1, 16))
    whole = (x.abs().max() / (6 * 448)).clamp(min=LEAST)
    amax = blocks.abs().amax((1, 3), keepdim=True)
    scale = (amax / 6 / whole).to(E4M3).float() * whole
    found = e2m1(blocks / scale.clamp(min=LEAST), chance) * scale
    return found.reshape(x.shape)


def e2m1(x: Tensor, chance: torch.Generator | None = None) -> Tensor:
    """The nearest of ±0, 0.5, 1, 1.5, 2, 3, 4, 6, or by chance one of two."""
    power = torch.frexp(x)[1] - 1
    step = power.clamp(0, 2).float().exp2() / 2
    if chance is None:
        steps = (x / step).round()  # in the middle: the even one
    else:
        steps = (x / step + torch.rand(x.shape, generator=chance)).floor()
    return (steps * step).clamp(-6, 6)


# --8<-- [end:micro]
# --8<-- [start:linear]
class Linear(torch.autograd.Function):
    """y = x wᵀ with both factors of all three products in few bits.

    A block lies along the dimension that a product sums over, so that its scale
    can be taken out of the sum. Each tensor takes part in two products, which
    sum over different dimensions, and is therefore rounded twice.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, of: dict[str, Rounds]
    ) -> Tensor:
        """x is (tokens, in), w is (out, in); sums over `in`."""
        ctx.save_for_backward(x, w)
        ctx.of = of
        return of["x"](x) @ of["w"](w).T

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        """Sums over `out` for x, and over the tokens for w."""
        (x, w), of, (g,) = ctx.saved_tensors, ctx.of, grads
        of_x = of["g"](g) @ of["w"](w.T.contiguous()).T
        of_w = of["g"](g.T.contiguous()) @ of["x"](x.T.contiguous()).T
        return of_x, of_w, None


# --8<-- [end:linear]
# --8<-- [start:delayed]
class Delayed:
    """A scale from what the tensor's largest number was before, so that it is
    known before the tensor is: Transformer Engine's delayed scaling."""

    def __init__(self, length: int = 1024) -> None:
        self.length, self.history = length, list[float]()

    def __call__(self, x: Tensor) -> Tensor:
        """x as it comes back; what the scale is too small for is clipped."""
        amax = max(self.history, default=448.0)
        scale = max(amax / 448, LEAST)
        self.history = [*self.history, float(x.abs().max())][-self.length :]
        return (x / scale).clamp(-448, 448).to(E4M3).float() * scale


# --8<-- [end:delayed]
# --8<-- [start:hadamard]
def hadamard(size: int, chance: torch.Generator) -> Tensor:
    """An orthogonal matrix of ±1/√size, with random signs for its rows: each
    of its outputs is a mixture of all inputs. `size` is a power of two."""
    found = torch.ones(1, 1)
    while len(found) < size:
        found = torch.cat(
            [torch.cat([found, found], 1), torch.cat([found, -found], 1)]
        )
    signs = torch.randint(0, 2, (size, 1), generator=chance) * 2.0 - 1
    return signs * found / size**0.5


# --8<-- [end:hadamard]
# --8<-- [start:gathered]
def gathered_in_fp8(shard: Tensor) -> Tensor:
    """The whole of a weight whose rows the ranks share, sent in one byte for
    each number. All ranks need one scale, so they agree on it first."""
    amax = shard.abs().max()
    dist.all_reduce(amax, dist.ReduceOp.MAX)
    scale = amax / 448
    codes = (shard / scale).to(E4M3).view(torch.uint8)  # bytes, for gloo
    whole = codes.new_empty(dist.get_world_size() * len(codes), codes.shape[1])
    dist.all_gather_into_tensor(whole, codes)
    return whole.view(E4M3).float() * scale


# --8<-- [end:gathered]
