"""Number formats of few bits: what each can hold, and what becomes of a number.

A float is a sign, an exponent e of so many bits and a mantissa m of so many
bits, and stands for ± (1 + m / 2^bits) × 2^e. So between two powers of two the
numbers are equally far apart, and from one power to the next the distance
doubles. Everything here is exact: a Python float has 53 bits, and a step
between neighbors is a power of two.
"""

from math import frexp, inf


class Format:
    """One format.

    Args:
        name: as torch, or who invented it, writes it.
        exponent: bits of the exponent.
        mantissa: bits of the mantissa, without the leading 1, which is not
            stored.
        largest: the largest finite number, if the format uses codes for numbers
            that IEEE 754 keeps for infinity and NaN. Such a format has no
            infinity: what is too large becomes its largest number.
    """

    def __init__(
        self, name: str, exponent: int, mantissa: int, largest: float = 0.0
    ) -> None:
        self.name, self.exponent, self.mantissa = name, exponent, mantissa
        self.bias = 2 ** (exponent - 1) - 1
        self.lowest = 1 - self.bias  # exponent of the smallest normal number
        self.saturates = largest > 0
        ieee = (2 - 2.0**-mantissa) * 2.0**self.bias
        self.largest = largest or ieee
        self.normal = 2.0**self.lowest  # below it, bits of the mantissa go
        self.smallest = 2.0 ** (self.lowest - mantissa)

    def spacing(self, x: float) -> float:
        """How far apart neighbors are where x lies."""
        power = frexp(abs(x))[1] - 1 if x else self.lowest
        return 2.0 ** (max(power, self.lowest) - self.mantissa)

    def nearest(self, x: float) -> float:
        """What x becomes when it is stored; in the middle, the even one."""
        return self._stored(x, round)

    def random(self, x: float, chance: float) -> float:
        """What x becomes by stochastic rounding: the neighbor above with a
        probability that is the share of the way to it. `chance` is drawn
        evenly from [0, 1)."""
        return self._stored(x, lambda steps: int(steps + chance))

    def _stored(self, x: float, rounded) -> float:  # type: ignore[no-untyped-def]
        if x != x:
            return x
        size = inf
        if abs(x) < inf:
            step = self.spacing(x)
            size = rounded(abs(x) / step) * step
        if size > self.largest:
            size = self.largest if self.saturates else inf
        return -size if x < 0 else size

    def bits(self, x: float) -> str:
        """The code of a number that the format holds: sign, exponent and
        mantissa, a space between them."""
        size, whole = abs(x), 2**self.mantissa
        if size == inf:
            biased, left = 2**self.exponent - 1, 0
        elif size < self.normal:
            biased, left = 0, round(size / self.smallest)
        else:
            power = frexp(size)[1] - 1
            biased = power + self.bias
            left = round((size / 2.0**power - 1) * whole)
        sign = "1" if x < 0 else "0"
        return (
            f"{sign} {_binary(biased, self.exponent)}"
            f" {_binary(left, self.mantissa)}"
        )


def _binary(number: int, width: int) -> str:
    found = ""
    for _ in range(width):
        found = str(number % 2) + found
        number //= 2
    return found


FP32 = Format("fp32", 8, 23)
BF16 = Format("bf16", 8, 7)
FP16 = Format("fp16", 5, 10)
E5M2 = Format("e5m2", 5, 2)
E4M3 = Format("e4m3", 4, 3, 448.0)
E2M1 = Format("e2m1", 2, 1, 6.0)
FORMATS = FP32, BF16, FP16, E5M2, E4M3, E2M1


def tensor_scale(amax: float, held: Format) -> float:
    """What to divide by so that amax becomes the format's largest number."""
    return amax / held.largest


def mx_scale(amax: float, held: Format = E4M3) -> float:
    """The same as a power of two, rounded up so that nothing saturates, as
    Transformer Engine does (2506.08027); 8 bits of exponent (e8m0) hold it."""
    part, power = frexp(amax / held.largest)
    return 2.0 ** max(power - 1 if part == 0.5 else power, -127)


def nv_scale(amax: float, tensor_amax: float) -> float:
    """NVFP4's scale of a block: e4m3 times one fp32 number for the tensor
    (2509.25149, appendix B). The block's e2m1 is multiplied by both."""
    whole = tensor_amax / (E2M1.largest * E4M3.largest)
    return E4M3.nearest(amax / E2M1.largest / whole) * whole


def scaled(x: float, scale: float, held: Format) -> float:
    """What x becomes when it is divided by a scale, stored, and multiplied."""
    return held.nearest(x / scale) * scale
