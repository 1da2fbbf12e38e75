"""DDP's buckets: gradients are all-reduced in groups while the backward pass
goes on, and what is left when it ends is waited for.

Buckets are filled as torch's DDP fills them once it has seen a backward pass:
in the order in which gradients are ready. If nobody sets `bucket_cap_mb`, the
first one is small, so that the network has work early.
"""

from lockstep.planner.collectives import collective
from lockstep.planner.figures import plain, short

from .scene import Lanes, Scene
from .settings import Slider

TITLE = "DDP's buckets"
MIB = 1 << 20  # torch counts bucket_cap_mb in these
DEFAULT = 25  # MiB, of all buckets but the first
FIRST = MIB  # torch.distributed._DEFAULT_FIRST_BUCKET_BYTES


def milliseconds(seconds: float) -> str:
    """A time, in thousandths of a second."""
    value = 1e3 * seconds
    return short(round(value, 1 if value < 100 else 0)) + " ms"


SETTINGS = [
    Slider("layers", "Layers", [4, 8, 16, 32], 16, str),
    Slider(
        "size",
        "Gradients of a layer",
        [1, 4, 10, 25, 50, 100],
        10,
        lambda size: f"{size} MiB",
    ),
    Slider(
        "cap",
        "bucket_cap_mb",
        [1, 5, 10, 25, 50, 100, 1000, 10000],
        25,
        lambda cap: "25 MiB (default)" if cap == DEFAULT else f"{cap:,} MiB",
    ),
    Slider(
        "backward",
        "Backward pass of a layer",
        [1, 2, 4, 8, 16],
        4,
        lambda time: f"{time} ms",
    ),
    Slider(
        "bandwidth",
        "Bandwidth",
        [1, 2, 5, 10, 25, 50, 200],
        5,
        lambda rate: f"{rate} GB/s",
    ),
    Slider(
        "latency",
        "Latency of a hop",
        [5, 20, 100, 500],
        20,
        lambda time: f"{time} µs",
    ),
    Slider("ranks", "Ranks", [2, 8, 64], 8, str),
]
SCENES = [
    ("default", "25 MiB", ""),
    ("tiny", "A bucket for each layer", "cap:1,latency:500"),
    ("one", "One bucket", "cap:10000"),
    ("slow", "A slow network", "bandwidth:2"),
]


def filled(sizes: list, cap: int) -> list:
    """The buckets, each with the indices of the gradients in it.

    Args:
        sizes: bytes of each gradient, in the order in which they are ready.
        cap: MiB at which a bucket is full.
    """
    found, bucket, held = [], [], 0
    limit = FIRST if cap == DEFAULT else cap * MIB
    for index, size in enumerate(sizes):
        bucket.append(index)
        held += size
        if held >= limit:
            found.append(bucket)
            bucket, held, limit = [], 0, cap * MIB
    return found + [bucket] if bucket else found


def takes(size: float, values: dict) -> float:
    """Seconds of an all-reduce of so many bytes."""
    given = {"op": "all_reduce", "bytes": size, "ranks": values["ranks"]}
    given.update(
        algorithm="ring",
        bandwidth=values["bandwidth"] * 1e9,
        latency=values["latency"] * 1e-6,
    )
    return plain(collective(given)["seconds"])


def sent(values: dict) -> list:
    """Start and end of each bucket's all-reduce, in seconds."""
    layer, size = values["backward"] * 1e-3, values["size"] * MIB
    found, free = [], 0.0
    for bucket in filled([size] * values["layers"], values["cap"]):
        start = max(free, (bucket[-1] + 1) * layer)
        free = start + takes(len(bucket) * size, values)
        found.append((start, free))
    return found


def draw(values: dict) -> Scene:
    """The backward pass, and the all-reduces beside it."""
    layers, layer = values["layers"], values["backward"] * 1e-3
    computed = [
        (i * layer, (i + 1) * layer, "backward", str(layers - i))
        for i in range(layers)
    ]
    end = layers * layer
    calls = sent(values)
    last = calls[-1][1]
    network = [
        (start, stop, "reduce", str(i + 1))
        for i, (start, stop) in enumerate(calls)
    ]
    computed.append((end, last, "waiting", ""))
    busy = sum(stop - start for start, stop in calls)
    exposed = last - end
    numbers = [
        ("all-reduces", str(len(calls))),
        ("backward pass", milliseconds(end)),
        ("all-reduces take", milliseconds(busy)),
        ("exposed", milliseconds(exposed)),
        ("together", milliseconds(last)),
    ]
    told = (
        f"{len(calls)} all-reduces take {milliseconds(busy)}. Of that"
        f" {milliseconds(busy - exposed)} hide behind the backward pass of"
        f" {milliseconds(end)}, and the GPU waits for {milliseconds(exposed)}."
    )
    rows = [("GPU", computed), ("network", network)]
    panels = [Lanes("What a rank does", rows)]
    return Scene(panels, last, milliseconds, numbers, told)
