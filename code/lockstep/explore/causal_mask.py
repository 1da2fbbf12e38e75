"""The causal mask, divided over the ranks of a ring.

A query sees the keys that stand before it. So a rank's work depends on where
its tokens stand, and in each step of the ring on whose keys it has.

Work and time are in blocks: all of one rank's queries with all of another's
keys, none of them masked.
"""

from lockstep.planner.figures import percent, short

from .scene import Lanes, Scene
from .settings import Choice, Slider

TITLE = "A causal mask, divided over a ring"

ORDER = Choice(
    "order",
    "A rank's tokens are",
    [
        ("contiguous", "contiguous"),
        ("zigzag", "an early and a late part (zig-zag)"),
        ("striped", "every n-th (striped)"),
    ],
)
SETTINGS = [
    ORDER,
    Slider("ranks", "Ranks", [2, 3, 4, 5, 6, 7, 8], 4, str),
    Slider(
        "message",
        "A message takes",
        [0, 0.25, 0.5, 0.75, 1, 1.5, 2],
        0.25,
        lambda time: f"{short(time)} of a block",
    ),
]
SCENES = [
    ("contiguous", "Contiguous parts", ""),
    ("zigzag", "Zig-zag", "order:zigzag"),
    ("striped", "Striped", "order:striped"),
    ("slow", "A slow ring", "order:zigzag,message:1"),
]


def owners(order: str, ranks: int) -> list:
    """Who has each of 2 × `ranks` chunks of the sequence. Stripes are finer
    than that: the chunks stand for them."""
    early = list(range(ranks))
    if order == "contiguous":
        return [chunk // 2 for chunk in range(2 * ranks)]
    return early + (early[::-1] if order == "zigzag" else early)


def seen(order: str, ranks: int, rank: int, owner: int) -> float:
    """The share of a block that a rank computes when it has `owner`'s keys."""
    if order == "striped":  # half of the tokens stand before, within one
        return 0.5
    places = owners(order, ranks)
    share = 0.0
    for mine in range(2 * ranks):
        for theirs in range(mine + 1):
            if places[mine] == rank and places[theirs] == owner:
                share += 0.125 if mine == theirs else 0.25
    return share


def steps(order: str, ranks: int, message: float) -> list:
    """For each rank its steps of the ring: start, end, and whose keys.

    A rank passes on the keys that it has when a step begins, and begins the
    next one when it has computed and the next keys have arrived.
    """
    found: list = [[] for _ in range(ranks)]
    for step in range(ranks):
        for rank in range(ranks):
            owner = (rank - step) % ranks
            start = 0.0
            if step:
                sent = found[rank - 1][step - 1][0]
                start = max(found[rank][step - 1][1], sent + message)
            work = seen(order, ranks, rank, owner)
            found[rank].append((start, start + work, owner))
    return found


def draw(values: dict) -> Scene:
    """What each chunk's queries see, and each rank's steps."""
    order, ranks = values["order"], values["ranks"]
    mask = []
    for chunk, rank in enumerate(owners(order, ranks)):
        bar = (0, chunk / 2 + 0.25, "compute", "")
        mask.append((f"rank {rank}", [bar]))
    timeline = steps(order, ranks, values["message"])
    end = max(own[-1][1] for own in timeline)
    rows, work = [], []
    for rank, own in enumerate(timeline):
        bars, now = [], 0.0
        for start, stop, owner in own:
            if start > now:
                bars.append((now, start, "waiting", ""))
            if stop > start:
                bars.append((start, stop, "compute", str(owner)))
            now = stop
        if end > now:
            bars.append((now, end, "waiting", ""))
        rows.append((f"rank {rank}", bars))
        work.append(sum(stop - start for start, stop, _ in own))
    idle = 1 - sum(work) / (ranks * end)
    blocks = lambda count: short(round(count, 2)) + " blocks"  # noqa: E731
    numbers = [
        ("the fullest rank computes", blocks(max(work))),
        ("the emptiest", blocks(min(work))),
        ("attention takes", "the time of " + blocks(end)),
        ("ranks wait", f"{percent(idle, 0)} of it"),
    ]
    told = (
        f"{ranks} ranks, whose tokens are {ORDER.said(order)}. The"
        f" fullest computes {blocks(max(work))} and the emptiest"
        f" {blocks(min(work))}. Attention takes the time of {blocks(end)}, and"
        f" ranks wait for {percent(idle, 0)} of it."
    )
    panels = [
        Lanes("Queries in order, and keys they see", mask),
        Lanes("Steps of each rank, by whose keys", rows),
    ]
    return Scene(
        panels,
        max(end, ranks),
        lambda place: short(round(place, 1)),
        numbers,
        told,
    )
