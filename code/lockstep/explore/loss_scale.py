"""A loss scale over time: it grows until something overflows, and what it does
to gradients of all sizes meanwhile.

The sizes of a step's gradients are taken to be spread over powers of two as a
bell, of which the largest gradient lies five widths above the middle. In a bad
batch all of them are larger. Scales are written as powers of two.
"""

from math import erf, log2

from lockstep.planner.figures import percent

from .scene import Areas, Lanes, Scene
from .settings import Choice, Slider

TITLE = "A loss scale over time"
STEPS = 10000
LARGEST = 5  # widths above the middle: the largest of a few million
EVERY = 500  # steps, of which the last has a bad batch
BROKEN = 3000  # the step from which on a loss is NaN
NAN = 99  # a bad batch of this size is NaN
INFINITE = log2(65520)  # what fp16 rounds to infinity, from here on
NORMAL, ZERO = -14, -25  # below these fp16 loses bits, and everything
LOWEST, HIGHEST = -149, 127  # of fp32, in which the scale is held
SEEN = STEPS // 250  # steps that a mark is wide


def power(exponent: int) -> str:
    """A power of two."""
    return f"2^{exponent}" if exponent >= LOWEST else "0"


def share(part: float) -> str:
    """A share, in percent."""
    if part >= 0.01 or part == 0:
        return percent(part, 0)
    return f"{100 * part:.1g} %" if part >= 1e-4 else "under 0.01 %"


SETTINGS = [
    Slider(
        "middle",
        "Gradients in the middle",
        [-34, -32, -30, -28, -26, -24, -22, -20, -16, -12, -8],
        -28,
        power,
    ),
    Slider(
        "width", "Width of the bell", [1, 2, 3, 4, 5], 4, lambda w: f"×2^{w}"
    ),
    Choice(
        "bad",
        "Bad batches",
        [
            (6, "one in 500, 64 times larger"),
            (12, "one in 500, 4,096 times larger"),
            (0, "none"),
            (NAN, "NaN from step 3,000 on"),
        ],
    ),
    Slider("first", "First scale", [0, 8, 16, 24, 32, 40], 16, power),
    Slider(
        "interval",
        "Good steps until it doubles",
        [100, 200, 500, 1000, 2000, 5000, 10000],
        2000,
        lambda steps: f"{steps:,}",
    ),
    Choice(
        "backoff",
        "At an overflow",
        [(1, "half of it"), (2, "a quarter"), (4, "a sixteenth")],
    ),
]
SCENES = [
    ("torch", "As torch does it", ""),
    ("none", "No scaling", "bad:0,first:0,interval:10000"),
    ("high", "Begun too high", "first:40"),
    ("sooner", "Doubled sooner", "interval:100"),
    ("nan", "A NaN that stays", "bad:99"),
]


def overflows(values: dict, scale: int, step: int, bad: bool) -> bool:
    """Whether a step's largest gradient, scaled, is infinite in fp16."""
    if values["bad"] == NAN:
        if step >= BROKEN:
            return True
        bad = False
    largest = values["middle"] + LARGEST * values["width"]
    return largest + (values["bad"] if bad else 0) + scale >= INFINITE


def run(values: dict, steps: int = STEPS) -> list:
    """Stretches of one scale, as a GradScaler has them: first step, step after
    the last, scale, and how many steps at its end were skipped."""
    scale, good, start, step, found = values["first"], 0, 0, 0, []
    while step < steps:
        bad = step - step % EVERY + EVERY - 1  # the next, or this one
        broken = BROKEN if values["bad"] == NAN else steps
        grows = step + values["interval"] - good  # after the step before
        if scale < LOWEST and step >= broken:  # nothing can be halved any more
            found.append((start, steps, scale, steps - start))
            return found
        if overflows(values, scale, step, step == bad):
            found.append((start, step + 1, scale, 1))
            scale, good, start = scale - values["backoff"], 0, step + 1
            step += 1
        elif overflows(values, scale, bad, True) and bad < min(grows, broken):
            good, step = good + bad - step, bad
        elif broken < grows and step < broken:
            good, step = good + broken - step, broken
        elif grows <= steps:
            if scale < HIGHEST:
                found.append((start, grows, scale, 0))
                scale, start = scale + 1, grows
            good, step = 0, grows
        else:
            step = steps
    if start < steps:
        found.append((start, steps, scale, 0))
    return found


def shares(values: dict, scale: int) -> tuple:
    """Of a usual step's gradients: the share that becomes 0, that loses bits,
    and that keeps them."""
    zero = _below(values, ZERO - scale)
    normal = 1 - _below(values, NORMAL - scale)
    return zero, max(1 - zero - normal, 0.0), normal


def _below(values: dict, exponent: int) -> float:
    away = (exponent - values["middle"]) / values["width"]
    return (1 + erf(away / 2**0.5)) / 2


def draw(values: dict) -> Scene:
    """The scale, what becomes of gradients, and which updates are skipped."""
    found = run(values)
    moments = [start for start, _, _, _ in found] + [STEPS]
    scales = [scale for _, _, scale, _ in found]
    parts = [shares(values, scale) for scale in scales]
    # Where the scale is 0 nothing is left of a gradient.
    parts = [
        part if scale >= LOWEST else (1.0, 0.0, 0.0)
        for part, scale in zip(parts, scales)
    ]
    panels = [
        Areas(
            "Loss scale: exponent of 2",
            moments,
            [("loss_scale", [max(scale, 0) for scale in scales])],
            str,
        ),
        Areas(
            "Gradients in fp16: share of all",
            moments,
            [
                ("normal", [part[2] for part in parts]),
                ("coarse", [part[1] for part in parts]),
                ("vanished", [part[0] for part in parts]),
            ],
            share,
        ),
        Lanes("Updates", [("", updates(found))]),
    ]
    skipped = sum(one for _, _, _, one in found)
    numbers = [
        ("scale at the end", power(scales[-1])),
        ("updates skipped", f"{skipped:,} of {STEPS:,}"),
        ("become 0 at first", share(parts[0][0])),
        ("become 0 at the end", share(parts[-1][0])),
        ("lose bits at the end", share(parts[-1][1])),
    ]
    told = (
        f"The scale begins at {power(scales[0])}, is {power(max(scales))} at"
        f" most and {power(scales[-1])} at the end. {skipped:,} of"
        f" {STEPS:,} updates are skipped. Of the gradients {share(parts[0][0])}"
        f" become 0 at first and {share(parts[-1][0])} at the end."
    )
    return Scene(panels, STEPS, lambda step: f"{round(step):,}", numbers, told)


def updates(found: list) -> list:
    """Bars of steps that updated the weights, and of those that were skipped;
    a skipped step is drawn wide enough to be seen."""
    bars: list = []
    at = 0
    for _, end, _, skipped in found:
        first, last = end - skipped, min(max(end, end - skipped + SEEN), STEPS)
        if not skipped or last <= at:
            continue
        if bars and first <= at:
            start, _, kind, words = bars.pop()
            bars.append((start, last, kind, words))
        else:
            if first > at:
                bars.append((at, first, "update", ""))
            bars.append((first, last, "skipped", ""))
        at = last
    if at < STEPS:
        bars.append((at, STEPS, "update", ""))
    return bars
