"""A number in eight formats: its bits, its neighbors, and what a thousand of it
add up to when the sum is held in the format.

Three of the formats have a scale, which comes from the largest number nearby:
of the tensor, or of the 32 or 16 neighbors that share a scale.
"""

from math import frexp, inf

from lockstep.planner.figures import short
from lockstep.planner.floats import (
    BF16,
    E2M1,
    E4M3,
    E5M2,
    FP16,
    FP32,
    Format,
    mx_scale,
    nv_scale,
    tensor_scale,
)

from .scene import Lanes, Scene
from .settings import Choice, Slider

TITLE = "A number in few bits"
TIMES = 1000
FINEST = 128  # so many numbers of a format are drawn one by one
PLAIN = FP32, BF16, FP16, E5M2, E4M3
NUMBERS = (
    [1e-9, 1e-8, 5e-8, 1e-7, 1e-6, 1e-5, 1e-4, 0.001, 0.002, 0.01, 0.05, 0.1]
    + [0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 0.9, 1, 1.001, 1.004, 1.01, 1.1, 1.3]
    + [1.5, 1.7, 2, 2.5, 3, 5, 6, 7, 10, 17, 19, 50, 100, 255, 256, 257, 300]
    + [448, 470, 500, 1000, 2049, 10000, 57344, 65504, 65520, 70000, 1000000]
)
SETTINGS = [
    Choice(
        "look",
        "Look at",
        [
            ("bits", "its bits"),
            ("steps", "its neighbors"),
            ("sum", "the sum of 1,000 of it"),
            ("chance", "the sum, rounded by chance"),
        ],
    ),
    Slider("number", "Your number", NUMBERS, 0.3, short),
    Slider(
        "times",
        "Largest number that shares its scale",
        [1, 2, 3, 5, 10, 12, 25, 100, 1000, 10000, 30000, 100000, 500000],
        5,
        lambda times: f"{times:,} × yours",
    ),
]
SCENES = [
    ("bits", "0.3", ""),
    ("steps", "Its neighbors", "look:steps"),
    ("sum", "A thousand of it", "look:sum"),
    ("chance", "Rounded by chance", "look:chance"),
    ("outlier", "Beside an outlier", "look:steps,times:100000"),
]


def say(value: float, digits: int = 4) -> str:
    """A number in so many digits. The two Pythons differ where the rest is
    exactly a half, so a little is added."""
    return f"{value * (1 + 1e-12):.{digits}g}"


class Row:
    """A format and its scale.

    Args:
        label: what the row is called.
        held: the format of the number, divided by the scale.
        shared: the code of a scale that a block shares.
    """

    def __init__(
        self, label: str, held: Format, scale: float = 1.0, shared: str = ""
    ) -> None:
        self.label, self.held, self.scale = label, held, scale
        self.shared = shared

    def stored(self, x: float) -> float:
        """What is stored of x: it, divided by the scale and rounded."""
        return self.held.nearest(x / self.scale)

    def nearest(self, x: float) -> float:
        """What x becomes."""
        return self.stored(x) * self.scale


def rows(number: float, times: int) -> list:
    """Every format; the largest number of the block, and of the tensor, is so
    many times yours."""
    amax = number * times
    power = mx_scale(amax)
    return [Row(one.name, one) for one in PLAIN] + [
        Row("scaled", E4M3, tensor_scale(amax, E4M3)),
        Row("MXFP8", E4M3, power, _byte(frexp(power)[1] + 126)),
        Row("NVFP4", E2M1, nv_scale(amax, amax), _byte(0b01111110)),
    ]


def _byte(code: int) -> str:
    found = ""
    for _ in range(8):
        found, code = str(code % 2) + found, code // 2
    return found


def off(number: float, stored: float) -> str:
    """A stored number, and how far it is from what it should be."""
    if stored == inf:
        return "infinity"
    share = 100 * (stored - number) / number
    if abs(share) < 1e-9:
        return short(stored) + ", exact"
    if abs(share) < 0.001:
        return short(stored) + ", < 0.001 % off"
    if stored == 0:
        return "0"
    text = say(abs(share), 2 if abs(share) >= 10 else 1)
    return f"{say(stored, 6)}, {'+' if share > 0 else '−'}{text} %"


def bits(every: list, number: float) -> list:
    """A row of bits for each format but fp32, which would take 32."""
    found = []
    for row in every[1:]:
        bars, at = [], 0
        parts = row.held.bits(row.stored(number)).split()
        for kind, part in zip(("sign", "exponent", "mantissa"), parts):
            for bit in part:
                bars.append((at, at + 1, kind, bit))
                at += 1
        for bit in row.shared:
            bars.append((at, at + 1, "block_scale", bit))
            at += 1
        found.append((row.label, bars))
    return found


def neighbors(row: Row, number: float) -> list:
    """From the power of two below a number to the next one: cut where rounding
    goes over from one number of the format to another."""
    low = 2.0 ** (frexp(number)[1] - 1)
    held, scale, mine = row.held, row.scale, row.stored(number)
    many = low / scale / held.spacing(low / scale)
    if many > FINEST:
        return [(0, low, "fine", f"{int(many):,} numbers")]
    value, start, bars = row.stored(low), low, []
    while start < 2 * low:
        above, end = inf, 2 * low
        if value < inf:
            step = held.spacing(value)
            if value + step <= held.largest:
                above = value + step
            if above < inf or not held.saturates:
                end = min((value + step / 2) * scale, 2 * low)
        if end > start:
            kind = "yours" if value == mine else "same"
            words = "infinity" if value == inf else say(value * scale)
            bars.append((start - low, end - low, kind, words))
        start, value = max(start, end), above
    return bars


def added(held: Format, number: float, by_chance: bool) -> float:
    """1,000 of a number, added one after the other, each sum rounded."""
    addend, total, seed = held.nearest(number), 0.0, 1
    for _ in range(TIMES):
        before = total
        if by_chance:
            seed = seed * 171 % 30269
            total = held.random(total + addend, seed / 30269)
        else:
            total = held.nearest(total + addend)
            if total == before:  # and so it stays
                break
    return total


def draw(values: dict) -> Scene:
    """The chosen look at the number, and what it becomes in each format."""
    number, look = values["number"], values["look"]
    every = rows(number, values["times"])
    numbers = [(row.label, off(number, row.nearest(number))) for row in every]
    if look == "bits":
        panel = Lanes("Bits, from the sign on", bits(every, number))
        said = f"{short(number)} becomes " + ", ".join(
            f"{say(row.nearest(number), 6)} in {row.label}" for row in every[1:]
        )
        return Scene([panel], 16, _whole, numbers, said + ".")
    if look == "steps":
        low = 2.0 ** (frexp(number)[1] - 1)
        lanes = [(row.label, neighbors(row, number)) for row in every]
        counts = [f"{len(bars)} in {label}" for label, bars in lanes[3:]]
        panel = Lanes("What is rounded alike", lanes)
        said = (
            f"Between {short(low)} and {short(2 * low)}, numbers are rounded"
            f" to {', '.join(counts)}."
        )
        return Scene([panel], low, lambda at: say(low + at), numbers, said)
    return summed(number, look == "chance", numbers)


def _whole(place: float) -> str:
    return str(round(place))


def summed(number: float, by_chance: bool, numbers: list) -> Scene:
    """A thousand of it, in the formats that hold sums without a scale."""
    exact = TIMES * number
    ends = [(one.name, added(one, number, by_chance)) for one in PLAIN]
    end = max([exact] + [total for _, total in ends if total < inf])
    lanes, said = [], []
    for name, total in ends:
        words = "infinity" if total == inf else say(total)
        said.append(f"{words} in {name}")
        bars: list = []
        if 0 < total < inf:
            bars.append((0, total, "arrived", words))
        if not 0 < total < inf:
            bars.append((0, end, "missing", words))
        elif total < exact * 0.9999:
            bars.append((total, exact, "missing", ""))
        lanes.append(("in " + name, bars))
    how = "each sum rounded by chance" if by_chance else "each sum rounded"
    panel = Lanes(f"1,000 of it added up, {how}", lanes)
    told = f"1,000 × {short(number)} is {say(exact, 6)}. Added up, {how}, it is"
    told += f" {', '.join(said)}."
    return Scene([panel], end, say, numbers, told)
