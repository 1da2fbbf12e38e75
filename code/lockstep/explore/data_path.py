"""One sample's way from the bucket to the GPU: how long each hop works.

All hops work at the same time, each on the samples of another step, so the
slowest one sets the pace. A node has eight GPUs, whose step takes a second
when its samples are there. A sample is as large in memory as in the store.
"""

from lockstep.planner.figures import percent, short

from .scene import Lanes, Scene
from .settings import Choice, Slider

TITLE = "From the bucket to the GPU"
GPUS = 8  # of a node
CONNECTION = 90e6  # bytes/s of one request
NVME, PINNED, PCIE = 10e9, 20e9, 50e9 * GPUS  # bytes/s of a node, assumed


def count(value: float) -> str:
    """A number of things."""
    return f"{value:,}"


def size(value: float) -> str:
    """Bytes with three digits."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= unit:
            return f"{short(round(value / unit, 2))} {name}"
    return f"{value:.0f} B"


def seconds(value: float) -> str:
    """A time of a step, or of a hop."""
    if value >= 1:
        return f"{short(round(value, 2))} s"
    if 0 < value < 1e-4:
        return "under 0.1 ms"
    return f"{short(round(value * 1e3, 1))} ms"


SETTINGS = [
    Slider(
        "sample",
        "A sample",
        [33000, 110000, 500000, 2000000, 10000000],
        110000,
        size,
    ),
    Slider(
        "rate",
        "Samples a GPU trains on per second",
        [1, 10, 100, 1000, 2500],
        2500,
        count,
    ),
    Choice(
        "request",
        "A request fetches",
        [(8000000, "8 MB of a shard"), (0, "one sample")],
    ),
    Slider(
        "flight",
        "Requests in flight, per node",
        [1, 4, 16, 64, 256, 1024],
        64,
        count,
    ),
    Slider(
        "latency",
        "Latency of a request",
        [1, 10, 30, 100, 200],
        100,
        lambda value: f"{value} ms",
    ),
    Slider(
        "nic",
        "Network for data, per node",
        [1.25, 3.125, 12.5, 50],
        12.5,
        lambda value: f"{short(value)} GB/s",
    ),
    Slider(
        "decode",
        "CPU work on a sample",
        [0.1, 1, 5, 20],
        5,
        lambda value: f"{value} ms",
    ),
    Slider("cores", "Cores that load", [8, 32, 64, 96], 64, count),
]
SCENES = [
    ("images", "Images from shards", ""),
    ("text", "Tokens of text", "sample:33000,rate:1,flight:16,decode:0.1"),
    ("single", "Images one by one", "rate:1000,request:0,decode:1"),
]


def hops(values: dict) -> list:
    """Each hop's name, and the samples per second that a node gets through."""
    sample = values["sample"]
    request = values["request"] or sample
    reply = values["latency"] / 1e3 + request / CONNECTION
    return [
        ("Requests", values["flight"] / reply * request / sample),
        ("Network", values["nic"] * 1e9 / sample),
        ("NVMe", NVME / sample),
        ("CPU", values["cores"] / (values["decode"] / 1e3)),
        ("Pinning", PINNED / sample),
        ("PCIe", PCIE / sample),
    ]


def draw(values: dict) -> Scene:
    """How long each hop takes for the samples of one step."""
    needed = values["rate"] * GPUS
    times = [(name, needed / speed) for name, speed in hops(values)]
    longest = max([time for _, time in times])
    limit = "the GPUs"
    if longest > 1:
        limit = next(name for name, time in times if time == longest)
    rows = []
    for hop, time in times:
        kind = "slowest" if hop == limit else "moving"
        rows.append((hop, [(0, time, kind, "")]))
    gpu = [(0, 1, "compute", "")]
    if longest > 1:
        gpu.append((1, longest, "waiting", ""))
    rows.append(("GPUs", gpu))
    end = max(1, longest)
    waits = 1 - 1 / end
    told = (
        f"Time for the {needed:,} samples that a node trains on in a second: "
        + ", ".join(f"{hop} {seconds(time)}" for hop, time in times)
        + f". What limits: {limit}. GPUs wait for"
        + f" {percent(waits, 0)} of the time."
    )
    numbers = [
        ("a node needs", size(needed * values["sample"]) + "/s"),
        ("what limits", limit),
        ("the slowest hop takes", seconds(longest)),
        ("GPUs wait", percent(waits, 0)),
    ]
    panels = [Lanes("Time for a step's samples", rows)]
    return Scene(panels, end, seconds, numbers, told)
