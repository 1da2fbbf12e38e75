"""What rounding does to a weight, to a sum and to a product of vectors.

python -m lockstep.experiments.demos.rounding {formats, products, updates}
"""

import sys

import torch
from torch import Tensor

from lockstep.planner.floats import FORMATS

BF16, FP32 = torch.bfloat16, torch.float32
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
PAIRS = [(BF16, FP32), (E4M3, FP32), (FP32, BF16), (FP32, E4M3)]
LENGTHS = 16, 256, 4096
RATIOS = 100, 256, 300, 512, 1000


# --8<-- [start:sums]
def added_up(numbers: Tensor, held: torch.dtype) -> Tensor:
    """The sum over the first dimension, one number after another; the sum so
    far is held in a format."""
    total = torch.zeros(numbers.shape[1:], dtype=held)
    for number in numbers:
        total = (total.float() + number).to(held)
    return total.float()


def products(a: Tensor, b: Tensor, factors: torch.dtype, sums: torch.dtype):  # type: ignore[no-untyped-def]
    """Dot products over the first dimension: the factors are rounded to one
    format and multiplied exactly, the sum is held in another."""
    return added_up(a.to(factors).float() * b.to(factors).float(), sums)


# --8<-- [end:sums]
def narrow(numbers: Tensor, bits: int, every: int = 0) -> Tensor:
    """The sum over the first dimension in an accumulator of so many bits; after
    every so many numbers it is moved into one in fp32, and begins anew."""
    total = torch.zeros(numbers.shape[1:])
    sums = torch.zeros_like(total)
    for count, number in enumerate(numbers, 1):
        part, power = torch.frexp(sums + number)
        sums = torch.ldexp((part * 2**bits).round() / 2**bits, power)
        if every and count % every == 0:
            total, sums = total + sums, torch.zeros_like(sums)
    return total + sums


def error(length: int, factors: torch.dtype, sums: torch.dtype) -> float:
    """How far 256 dot products of random vectors are off, over how large they
    are; both as the root of a mean square."""
    chance = torch.Generator().manual_seed(0)
    a, b = (torch.randn(length, 256, generator=chance) for _ in range(2))
    exact = (a.double() * b.double()).sum(0)
    off = products(a, b, factors, sums) - exact
    return float(off.square().mean().sqrt() / exact.square().mean().sqrt())


# --8<-- [start:stochastic]
def stochastic(x: Tensor, chance: torch.Generator) -> Tensor:
    """fp32 to bf16, up or down by chance. bf16 is the upper half of fp32's
    bits, so a random lower half is added and then cut off: the nearer the
    number is to its upper neighbor, the more often the addition carries."""
    half = torch.randint(0, 2**16, x.shape, generator=chance, dtype=torch.int32)
    bits = x.view(torch.int32) + half
    return (bits & ~0xFFFF).view(torch.float32).bfloat16()


# --8<-- [end:stochastic]
def after(steps: int, weight: float, update: float, rounded) -> float:  # type: ignore[no-untyped-def]
    """A weight to which an update was added so often, rounded each time."""
    held = rounded(torch.tensor([weight]))
    for _ in range(steps):
        held = rounded(held.float() + update)
    return float(held)


def show_formats() -> None:
    """What each format can hold."""
    print(f"{'':6}bits (s+e+m)    largest  smallest normal   smallest  after 1")
    for one in FORMATS:
        bits = f"1 + {one.exponent} + {one.mantissa}"
        print(
            f"{one.name:6}{bits:>12}{one.largest:11.5g}{one.normal:17.3g}"
            f"{one.smallest:11.3g}  {1 + one.spacing(1):.8g}"
        )


def show_products() -> None:
    """Errors of dot products, by what is rounded."""
    print("factors in  sums in" + "".join(f"{n:>9,} terms" for n in LENGTHS))
    for factors, sums in PAIRS:
        errors = [error(length, factors, sums) for length in LENGTHS]
        line = "".join(f"{one:14.1%} " for one in errors)
        print(f"{name(factors):12}{name(sums):7}{line.rstrip()}")


def show_updates() -> None:
    """A weight of 1 after 1,000 updates of the same size."""
    chance = torch.Generator().manual_seed(0)
    print("update        fp32    bf16  bf16, stochastic")
    for ratio in RATIOS:
        ends = [
            after(1000, 1.0, 1 / ratio, rounded)
            for rounded in (
                lambda x: x,
                lambda x: x.bfloat16(),
                lambda x: stochastic(x, chance),
            )
        ]
        print(f"1/{ratio:<6}{ends[0]:10.2f}{ends[1]:8.2f}{ends[2]:18.2f}")


def name(held: torch.dtype) -> str:
    """A format, as the pages call it."""
    names = {BF16: "bf16", FP32: "fp32", E4M3: "e4m3", E5M2: "e5m2"}
    return names[held]


SHOWN = {
    "formats": show_formats,
    "products": show_products,
    "updates": show_updates,
}

if __name__ == "__main__":
    SHOWN[sys.argv[1]]()
