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
RATES = {  # in whole GB/s, so that a reader can redo the picture
    f"{name}, {H100[rate] / 1e9:,.0f} GB/s": round(H100[rate] / 1e9) * 1e9
    for name, rate in LINKS.items()
}
# What is marked: its name in lines, the side that has room for it, the link
# that it waits for, and its FLOPs per byte.
MARKS = (
    (("norm",), "start", 0, 1.25),
    (("64 tokens",), "end", 0, 64),
    (("8,192", "tokens"), "start", 2, 8192),
)
# Shares of the peak: a matmul of 8,192 rows on an H200 (lockstep's own
# record, shown in performance/one-gpu.md), and Llama 3 405B.
SHARES = {"79 %: a matmul": 0.79, "40 %: a run": 0.4}
X = Axis(
    "FLOPs for each byte that arrives",
    [10**n for n in range(6)],
    "{:,}".format,
    log=True,
)
Y = Axis(
    "TFLOP/s, at most",
    [10.0**n for n in range(4)],
    "{:,g}".format,
    log=True,
)
HIGH = 270


def speed(rate: float, intensity: float) -> float:
    """Return the FLOP/s that a link's bytes per second allow."""
    return min(PEAK, intensity * rate)


def corner(rate: float) -> str:
    """Return the FLOPs per byte at which a link's roofline is flat."""
    turn = PEAK / rate
    return f"{float(f'{turn:.2g}') if turn > 1000 else turn:,.0f}"


def roofline() -> Chart:
    """Draw what an H100 can reach, by FLOPs per byte, for three links."""
    return Chart(
        "An H100's speed limit at each arithmetic intensity. The corners'"
        " numbers are peak / bandwidth; 64 and 8,192 tokens go through a"
        " matmul. Dashed: the share of the peak that a large matmul reached on"
        " an H200, and that large training runs report.",
        "Three lines over two logarithmic axes rise with the same slope to a"
        f" flat roof, the peak of {PEAK / 1e12:,.0f} TFLOP/s. "
        + " ".join(
            f"{name}: the line meets the roof at {corner(rate)} FLOPs per byte."
            for name, rate in RATES.items()
        )
        + " Below the roof, dashed lines lie at 79 % of the peak for a large"
        " matmul and at 40 % for a whole run."
        " On the slope lie a norm at 1.25 FLOPs per byte and a matmul of 64"
        " tokens, which wait for memory, and a matmul of 8,192 tokens whose"
        " weights arrive over one NIC.",
        draw,
        [
            ["data arrives over", "flat from", "norm", "64", "8,192 FLOPs/B"],
            *(
                [
                    name,
                    corner(rate),
                    *(f"{speed(rate, x) / 1e12:.3g}" for *_, x in MARKS),
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
    top = canvas.y + 36
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
    roof = at(1, PEAK)[1]
    canvas.text(left + 4, roof - 6, f"{PEAK / 1e12:,.0f}: the peak")
    for words, share in SHARES.items():
        beside = at(1, share * PEAK)[1]
        canvas.path(f"M{place(left)} {place(beside)}H{right}", "chart-rule")
        canvas.text(left + 4, beside + 14, words, kind="halo")
    sides = "middle", "end", "start"  # of the corners, so that all have room
    for i, (rate, side) in enumerate(zip(RATES.values(), sides, strict=True)):
        turn = at(PEAK / rate, PEAK)
        end = at(X.ticks[-1], PEAK) if i == 0 else turn
        first = max(1.0, Y.ticks[0] * 1e12 / rate)  # the plot's edge
        canvas.line(i, [at(first, first * rate), turn, end])
        beside = turn[0] + {"middle": 0, "end": 10, "start": -10}[side]
        canvas.text(beside, roof - 6, corner(rate), side)
    for lines, side, link, intensity in MARKS:
        rate = [*RATES.values()][link]
        x, y = at(intensity, speed(rate, intensity))
        canvas.mark(link, x, y)
        beside = x + (8 if side == "start" else -8)
        for n, words in enumerate(lines):
            down = y + 5 + (n * 14 + 12 if len(lines) > 1 else 0)
            canvas.text(beside, down, words, side, kind="halo")
