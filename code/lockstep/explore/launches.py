"""A chain of elementwise operations, run in three ways: what the CPU launches,
what the GPU computes, and how long the GPU waits.

The CPU launches one kernel after the other and never waits for the GPU; a
kernel begins when it has been launched and the one before it has ended. Each
kernel is memory-bound: it takes as long as its bytes do.
"""

from lockstep.planner.figures import short

from .scene import Lanes, Scene
from .settings import Slider

TITLE = "Launches and kernels"
BANDWIDTH = 3.35e12  # bytes a second of an H100's memory


def size(value: float) -> str:
    """Bytes, in megabytes."""
    return short(round(value / 1e6, 1)) + " MB"


def micro(seconds: float) -> str:
    """A time, in microseconds."""
    return short(round(1e6 * seconds, 1)) + " µs"


SETTINGS = [
    Slider("operations", "Operations in the chain", [1, 2, 4, 6, 8], 6, str),
    Slider(
        "bytes",
        "Bytes of the tensor",
        [10**5, 10**6, 4 * 10**6, 8 * 10**6, 16 * 10**6, 32 * 10**6]
        + [67108864, 134217728],
        10**6,
        size,
    ),
    Slider(
        "launch", "A launch takes", [2, 5, 10, 20], 5, lambda time: f"{time} µs"
    ),
]
SCENES = [
    ("bound", "Launch-bound", ""),
    ("large", "Memory-bound", "bytes:67108864"),
    ("slow", "A slow host", "bytes:16000000,launch:20"),
]
WAYS = "one by one", "CUDA graph", "fused"


def moved(values: dict, way: str) -> float:
    """Bytes that are read and written in all: by each operation its input and
    its output, by a fused kernel the first input and the last output."""
    kernels = 1 if way == "fused" else values["operations"]
    return 2 * values["bytes"] * kernels


def run(values: dict, way: str) -> tuple:
    """Launches and kernels of one way, each as a list of (start, end)."""
    kernels = 1 if way == "fused" else values["operations"]
    takes = 2 * values["bytes"] / BANDWIDTH
    launch = values["launch"] * 1e-6
    launches = [
        (i * launch, (i + 1) * launch)
        for i in range(1 if way == "CUDA graph" else kernels)
    ]
    done, end = [], 0.0
    for i in range(kernels):
        ready = launches[min(i, len(launches) - 1)][1]
        start = max(ready, end)
        end = start + takes
        done.append((start, end))
    return launches, done


def idle(values: dict, way: str) -> float:
    """The share of the time to the last kernel's end that the GPU waits."""
    _, kernels = run(values, way)
    return 1 - sum(end - start for start, end in kernels) / kernels[-1][1]


def draw(values: dict) -> Scene:
    """Two rows for each way: the CPU's launches, and the GPU."""
    panels, ends = [], []
    for way in WAYS:
        launches, kernels = run(values, way)
        sent = [
            (start, end, "launch", str(i + 1))
            for i, (start, end) in enumerate(launches)
        ]
        bars, last = [], 0.0
        for i, (start, end) in enumerate(kernels):
            if start - last > 1e-12:
                bars.append((last, start, "waiting", ""))
            bars.append((start, end, "compute", str(i + 1)))
            last = end
        ends.append(max(last, launches[-1][1]))
        panels.append(Lanes(way, [("CPU", sent), ("GPU", bars)]))
    takes = [run(values, way)[1][-1][1] for way in WAYS]
    numbers = [
        ("bytes moved, one by one", size(moved(values, "one by one"))),
        ("bytes moved, fused", size(moved(values, "fused"))),
        ("one by one", micro(takes[0])),
        ("CUDA graph", micro(takes[1])),
        ("fused", micro(takes[2])),
        ("GPU waits, one by one", f"{idle(values, 'one by one'):.0%}"),
    ]
    bound = takes[1] < 0.9 * takes[0]
    told = (
        f"One by one the chain takes {micro(takes[0])}, and the GPU waits for"
        f" {idle(values, 'one by one'):.0%} of it. As a CUDA graph it takes"
        f" {micro(takes[1])}, fused {micro(takes[2])}."
    )
    told += (
        " The launches are the limit, so both help."
        if bound
        else " Memory is the limit, so only fusion helps."
        if values["operations"] > 1
        else " With one operation there is nothing to save."
    )
    return Scene(panels, max(ends), micro, numbers, told)
