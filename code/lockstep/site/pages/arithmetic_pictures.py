"""The picture of the chapter on arithmetic: the rooflines of one H100."""

from __future__ import annotations

from lockstep.explore.svg import long, place
from lockstep.planner.hardware import HARDWARE
from lockstep.site.pages.charts import Axis, Canvas, Chart

H100 = HARDWARE["h100"]
PEAK = H100["peak_flops"]
LINKS = {  # what data arrives over, and the planner's name for its rate
    "GPU memory": "memory_bandwidth",
    "NVLink": "node_bandwidth",
    "one NIC": "network_bandwidth",
}
RATES = {
    f"{name}, {H100[rate] / 1e9:,.0f} GB/s": H100[rate]
    for name, rate in LINKS.items()
}
# What is marked: its name, the link that it waits for, and its FLOPs per byte.
MARKS = ("norm", 0, 1.25), ("64 tokens", 0, 64), ("8,192 tokens", 2, 8192)
X = Axis(
    "FLOPs for each byte that arrives",
    [10**n for n in range(6)],
    "{:,}".format,
    log=True,
)
Y = Axis(
    "TFLOP/s, at most",
    [10.0**n for n in range(-2, 4)],
    "{:,g}".format,
    log=True,
)
HIGH = 200


def speed(rate: float, intensity: float) -> float:
    """Return the FLOP/s that a link's bytes per second allow."""
    return min(PEAK, intensity * rate)


def corner(rate: float) -> str:
    """Return the FLOPs per byte at which a link's roofline is flat."""
    return f"{float(f'{PEAK / rate:.3g}'):,.0f}"


def roofline() -> Chart:
    """Draw what an H100 can reach, by FLOPs per byte, for three links."""
    return Chart(
        "What one H100 can reach at most, by the FLOPs that it does for each"
        " byte that arrives. The corners' numbers are peak / bandwidth; 64 and"
        " 8,192 tokens go through a matmul.",
        "Three lines over two logarithmic axes rise with the same slope to a"
        f" flat roof at {PEAK / 1e12:,.0f} TFLOP/s. "
        + " ".join(
            f"{name}: the line meets the roof at {corner(rate)} FLOPs per byte."
            for name, rate in RATES.items()
        )
        + " On the slope lie a norm at 1.25 FLOPs per byte and a matmul of 64"
        " tokens, which wait for memory, and a matmul of 8,192 tokens whose"
        " weights arrive over one NIC.",
        draw,
        [
            ["data arrives over", "flat from", "norm", "64", "8,192 FLOPs/B"],
            *(
                [
                    name,
                    corner(rate),
                    *(f"{speed(rate, x) / 1e12:.3g}" for _, _, x in MARKS),
                ]
                for name, rate in RATES.items()
            ),
        ],
    )


def draw(canvas: Canvas) -> None:
    """Draw the three rooflines, their corners, and what lies on them."""
    canvas.legend(
        [*RATES],
        lambda on, i, at, middle: on.line(i, [(at, middle), (at + 22, middle)]),
    )
    canvas.text(2, canvas.y + 12, Y.label)
    top = canvas.y + 32
    bottom = top + HIGH
    left = 10 + max(long(Y.say(tick)) for tick in Y.ticks)
    right = canvas.width - 12

    def at(intensity: float, flops: float) -> tuple[float, float]:
        """Return a point's place."""
        up = Y.at(flops / 1e12, bottom, top)
        return X.at(intensity, left, right), up

    for tick in Y.ticks:
        beside = Y.at(tick, bottom, top)
        canvas.path(f"M{place(left)} {place(beside)}H{right}", "chart-grid")
        canvas.text(left - 5, beside + 4.5, Y.say(tick), "end")
    canvas.across(X, left, right, top, bottom)
    for i, rate in enumerate(RATES.values()):
        turn = at(PEAK / rate, PEAK)
        end = at(X.ticks[-1], PEAK) if i == 0 else turn
        canvas.line(i, [at(1, rate), turn, end])
        canvas.text(turn[0], turn[1] - 8, corner(rate), "middle", kind="halo")
    for words, link, intensity in MARKS:
        rate = [*RATES.values()][link]
        x, y = at(intensity, speed(rate, intensity))
        canvas.mark(link, x, y)
        if x + 8 + long(words) > right:
            words = words.removesuffix(" tokens")
        canvas.text(x + 8, y + 15, words, kind="halo")
