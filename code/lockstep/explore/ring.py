"""Ring all-reduce, step by step: which part of the buffer each rank has, of how
many ranks it is the sum, and what has been sent.

A sum of a chunk starts at the rank after its owner and ends at its owner; then
each finished chunk travels around once more.
"""

from lockstep.planner.collectives import collective
from lockstep.planner.figures import plain, short

from .scene import Lanes, Scene
from .settings import Slider

TITLE = "Ring all-reduce, step by step"
MOST = 8  # ranks
NODE = 9  # times as fast as the network is NVLink: 450 GB/s over 50


def size(value: float) -> str:
    """Bytes, in the unit in which one says them."""
    for unit, each in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= each:
            return short(round(value / each, 1)) + " " + unit
    return short(round(value)) + " B"


def duration(seconds: float) -> str:
    """A time, in milliseconds or microseconds."""
    if seconds >= 1e-3:
        return short(round(1e3 * seconds, 1 if seconds < 0.1 else 0)) + " ms"
    return short(round(1e6 * seconds)) + " µs"


SETTINGS = [
    Slider("step", "Step", list(range(2 * MOST - 1)), 0, str),
    Slider("ranks", "Ranks", list(range(2, MOST + 1)), 4, str),
    Slider("bytes", "Buffer", [10**n for n in range(3, 11)], 10**9, size),
    Slider(
        "bandwidth",
        "Bandwidth",
        [1, 5, 12, 25, 50, 100, 450],
        50,
        lambda rate: f"{rate} GB/s",
    ),
    Slider(
        "latency",
        "Latency of a hop",
        [2, 5, 14, 50, 200],
        14,
        lambda time: f"{time} µs",
    ),
]
SCENES = [
    ("start", "The start", ""),
    ("half", "Half-way", "step:3"),
    ("end", "The end", "step:6"),
    ("small", "A small buffer", "step:14,ranks:8,bytes:10000"),
]


def sends(ranks: int, step: int, rank: int) -> tuple:
    """The chunk that a rank sends in a step, the first being 1, and of how many
    ranks it is the sum."""
    if step < ranks:
        return (rank - step) % ranks, step
    return (rank - (step - ranks)) % ranks, ranks


def held(ranks: int, step: int) -> list:
    """For each rank and chunk after so many steps: of how many ranks what it
    has is the sum."""
    found = [[1] * ranks for _ in range(ranks)]
    if step < ranks:
        if step:
            for rank in range(ranks):  # what has just come, and its own on top
                found[rank][(rank - step - 1) % ranks] = step + 1
        return found
    for rank in range(ranks):
        for back in range(step - ranks + 2):
            found[rank][(rank - back) % ranks] = ranks
    return found


def seconds(values: dict, algorithm: str, **more: float) -> float:
    """Of the whole all-reduce, by the planner."""
    given = {
        "op": "all_reduce",
        "bytes": values["bytes"],
        "ranks": values["ranks"],
        "algorithm": algorithm,
        "bandwidth": values["bandwidth"] * 1e9,
        "latency": values["latency"] * 1e-6,
    }
    given.update(more)
    return plain(collective(given)["seconds"])


def hierarchical(values: dict) -> float:
    """With two GPUs in a node, joined by NVLink."""
    return seconds(
        values,
        "hierarchical",
        gpus_per_node=2,
        node_bandwidth=NODE * values["bandwidth"] * 1e9,
        node_latency=values["latency"] * 1e-6 / 4,
    )


def draw(values: dict) -> Scene:
    """A grid of ranks and chunks, and what the steps have cost."""
    ranks = values["ranks"]
    last = 2 * (ranks - 1)
    step = min(values["step"], last)
    rows = []
    for rank, counts in enumerate(held(ranks, step)):
        bars = []
        for chunk, count in enumerate(counts):
            kind = {1: "own", ranks: "whole"}.get(count, "partial")
            bars.append((chunk, chunk + 1, kind, str(count)))
        rows.append(("rank " + str(rank), bars))
    one = seconds(values, "ring") / last
    sent = step * values["bytes"] / ranks
    numbers = [
        ("step", str(step) + " of " + str(last)),
        ("a rank has sent", size(sent) if step else "nothing"),
        ("time so far", duration(step * one) if step else "none"),
        ("ring in all", duration(last * one)),
        ("tree", duration(seconds(values, "tree"))),
    ]
    if ranks % 2 == 0 and ranks > 2:
        numbers.append(("two in a node", duration(hierarchical(values))))
    if step == 0:
        told = f"Each of {ranks} ranks has its own {ranks} chunks."
    elif step < ranks:
        told = (
            f"Reducing: after step {step} each rank has one chunk that is the"
            f" sum of {step + 1} ranks, and sends it on to the next rank."
        )
    else:
        told = (
            f"Gathering: after step {step} each rank has"
            f" {step - ranks + 2} of {ranks} chunks of the finished sum."
        )
    if step == ranks - 1:
        told += " That is the sum of all: the reduce-scatter is over."
    if step == last:
        told += " The all-reduce is over."
    told += f" All of it takes {duration(last * one)} in a ring"
    told += f" and {duration(seconds(values, 'tree'))} in a tree."
    panels = [Lanes("Ranks in the sum of each chunk", rows)]
    return Scene(panels, ranks, lambda place: str(round(place)), numbers, told)
