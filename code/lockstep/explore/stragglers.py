"""Stragglers: how long a step takes that waits for the slowest of many ranks.

Each rank's step takes 1 s on average and varies as a normal distribution does,
independently of the others. The job's step is the longest of them.
"""

import math

from lockstep.planner.figures import short

from .scene import Areas, Scene
from .settings import Slider

TITLE = "The slowest of many ranks"
BINS = 48
FINE = 40  # points in a bin, for the mean

SETTINGS = [
    Slider(
        "ranks",
        "Ranks",
        [1, 2, 8, 64, 256, 1000, 4000, 16000],
        1000,
        lambda value: f"{value:,}",
    ),
    Slider(
        "jitter",
        "Jitter of a rank's step",
        [0.5, 1, 2, 3, 5, 10],
        2,
        lambda value: f"{value} %",
    ),
    Slider(
        "slower",
        "One rank is slower by",
        [0, 2, 5, 10, 20, 50],
        0,
        lambda value: f"{value} %",
    ),
]
SCENES = [
    ("many", "1,000 ranks", ""),
    ("few", "Eight ranks", "ranks:8"),
    ("slow", "One slow rank", "slower:20"),
]


def below(seconds: float, values: dict) -> tuple:
    """How probable it is that one ordinary rank, and that all ranks, have
    finished a step after so many seconds."""
    spread = values["jitter"] / 100
    one = normal((seconds - 1) / spread)
    slow = 1 + values["slower"] / 100
    late = normal((seconds - slow) / (spread * slow))
    return one, one ** (values["ranks"] - 1) * late


def normal(z: float) -> float:
    """The share of a normal distribution below z standard deviations."""
    return 0.5 * (1 + math.erf(z / math.sqrt(2)))


def bounds(values: dict) -> tuple:
    """The shortest and the longest step worth drawing, in seconds."""
    spread, slow = values["jitter"] / 100, 1 + values["slower"] / 100
    return 1 - 4 * spread, max(1 + 6 * spread, slow * (1 + 4 * spread))


def mean(values: dict) -> float:
    """Of the job's step, in seconds: the integral of what is still running."""
    low, high = bounds(values)
    step = (high - low) / (BINS * FINE)
    running = sum(
        1 - below(low + (i + 0.5) * step, values)[1] for i in range(BINS * FINE)
    )
    return low + running * step


def draw(values: dict) -> Scene:
    """How steps are spread, of one rank and of the job, over seconds."""
    low, high = bounds(values)
    width = (high - low) / BINS
    edges = [below(low + i * width, values) for i in range(BINS + 1)]
    ones, alls = (
        [
            # Rounded: the two Pythons' erf differ in the last digit.
            max(0.0, round(100 * (b[which] - a[which]), 2))
            for a, b in zip(edges, edges[1:])
        ]
        for which in (0, 1)
    )
    moments = [i * width for i in range(BINS + 1)]
    job = mean(values)
    numbers = [
        ("a rank's step", "1 s"),
        ("the job's step", f"{job:.3f} s"),
        ("lost by waiting", f"{100 * (1 - 1 / job):.1f} %"),
        ("GPUs' worth of it", short(round(values["ranks"] * (1 - 1 / job)))),
    ]
    told = (
        f"A rank's step takes 1 s on average, and varies by"
        f" {values['jitter']} %. The job waits for the slowest of"
        f" {values['ranks']:,}, and its step takes {job:.3f} s."
    )
    if values["slower"]:
        told += f" One of them is slower by {values['slower']} %."
    percent = lambda value: f"{value:.0f} %"  # noqa: E731
    panels = [
        Areas("Steps of one rank", moments, [("own_step", ones)], percent),
        Areas("Steps of the job", moments, [("job_step", alls)], percent),
    ]
    return Scene(
        panels, high - low, lambda x: f"{low + x:.2f} s", numbers, told
    )
