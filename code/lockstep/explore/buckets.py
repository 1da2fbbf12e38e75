"""DDP's buckets: gradients are all-reduced in groups while the backward pass
goes on, and what is left when it ends is waited for. Very small buckets pay
latency often; one huge bucket has nothing to hide behind.

Buckets are filled as torch's DDP fills them once it has seen a backward pass:
in the order in which gradients are ready, from the last layer to the first. If
nobody sets `bucket_cap_mb`, the first one is small, so that the network has
work early. A bucket's all-reduce starts when its last gradient is ready and the
one before it has ended, and takes what the planner says of a ring.
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
    Slider(
        "cap",
        "bucket_cap_mb (default 25)",
        [1, 5, 10, 25, 50, 100, 1000, 10000],
        DEFAULT,
        lambda cap: f"{cap:,} MiB",
    ),
    Slider("layers", "Layers", [4, 8, 16, 32], 16, str),
    Slider(
        "size",
        "Gradients of a layer",
        [1, 4, 8, 16, 32, 64],
        8,
        lambda size: f"{size} MiB",
    ),
    Slider(
        "backward",
        "Backward pass of a layer",
        [1, 2, 4, 8, 16],
        2,
        lambda time: f"{time} ms",
    ),
    Slider(
        "bandwidth",
        "Bandwidth",
        [1, 2, 5, 10, 25, 50, 200],
        10,
        lambda rate: f"{rate} GB/s",
    ),
    Slider(
        "latency",
        "Latency of a hop",
        [5, 20, 100, 500],
        100,
        lambda time: f"{time} µs",
    ),
    Slider("ranks", "Ranks", [2, 8, 64], 8, str),
]
SCENES = [
    ("default", "25 MiB", ""),
    ("tiny", "A bucket for each layer", "cap:1"),
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
    """Start and end of each bucket's all-reduce, in seconds, and the indices of
    the gradients in it."""
    layer, size = values["backward"] * 1e-3, values["size"] * MIB
    found, free = [], 0.0
    for bucket in filled([size] * values["layers"], values["cap"]):
        start = max(free, (bucket[-1] + 1) * layer)
        free = start + takes(len(bucket) * size, values)
        found.append((start, free, bucket))
    return found


def named(bucket: list, layers: int) -> str:
    """The layers whose gradients a bucket holds, as the GPU's bars have them:
    the last layer is ready first."""
    first, last = layers - bucket[0], layers - bucket[-1]
    return str(first) if first == last else f"{first}–{last}"


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
        (start, stop, "reduce", named(bucket, layers))
        for start, stop, bucket in calls
    ]
    computed.append((end, last, "waiting", ""))
    busy = sum(stop - start for start, stop, _ in calls)
    exposed = last - end
    numbers = [
        ("all-reduces", str(len(calls))),
        ("they take, in all", milliseconds(busy)),
        ("backward pass", milliseconds(end)),
        ("exposed after it", milliseconds(exposed)),
        ("backward pass and wait", milliseconds(last)),
    ]
    if len(calls) == 1:
        told = (
            f"The gradients of all {layers} layers go in one all-reduce, which"
            f" starts when the backward pass of {milliseconds(end)} has ended."
            " Nothing of it hides, and the GPU waits for"
            f" {milliseconds(exposed)}."
        )
    else:
        hidden = milliseconds(busy - exposed)
        told = (
            f"The gradients of {layers} layers go in {len(calls)} all-reduces,"
            " from the last layer to the first, which take"
            f" {milliseconds(busy)}. Of that {hidden} hide behind the backward"
            f" pass of {milliseconds(end)}, and the GPU waits for"
            f" {milliseconds(exposed)}."
        )
    rows = [("GPU", computed), ("network", network)]
    panels = [Lanes("What a rank does, by layer", rows)]
    return Scene(panels, last, milliseconds, numbers, told)
