"""A checkpoint's price: what saving, lost work and restarts cost of a run, by
the time between two checkpoints.

The cost is Daly's, as the planner has it; its parts are what is left when saves
and restarts take no time.
"""

from math import log10

from lockstep.planner.checkpoints import daly, slowdown, young
from lockstep.planner.figures import percent, short

from .scene import Areas, Lanes, Scene
from .settings import Choice, Slider

TITLE = "A checkpoint's price"
DAY = 86400
FIRST, LAST, CELLS = 1.0, 5.0, 48  # powers of ten of seconds; places drawn
PARTS = "saving", "restarting", "lost"


def duration(seconds: float) -> str:
    """A time, in the unit in which one says it."""
    for unit, size in ((" d", DAY), (" h", 3600), (" min", 60)):
        if seconds >= 1.5 * size:
            digits = 1 if seconds < 10 * size else 0
            return short(round(seconds / size, digits)) + unit
    return short(round(seconds)) + " s"


SETTINGS = [
    Slider(
        "interval",
        "Work between two checkpoints",
        [60, 300, 600, 1200, 2400, 3600, 7200, 14400, 28800],
        14400,
        duration,
    ),
    Slider(
        "save", "To write one", [5, 10, 30, 60, 120, 300, 600], 60, duration
    ),
    Choice(
        "blocks",
        "How it is written",
        [
            (100, "all ranks wait"),
            (10, "in the background, a tenth blocks"),
        ],
    ),
    Slider(
        "mtbf",
        "A node fails once in",
        [50, 100, 250, 500, 1000],
        250,
        lambda days: f"{days} d",
    ),
    Slider(
        "nodes",
        "Nodes",
        [1, 8, 64, 512, 2048],
        512,
        lambda nodes: f"{nodes:,}",
    ),
    Slider("restart", "To restart", [30, 60, 300, 900, 1800], 300, duration),
]
SCENES = [
    ("seldom", "Every four hours", ""),
    ("often", "Every minute", "interval:60"),
    ("best", "About the best", "interval:2400"),
    ("large", "2,048 nodes", "nodes:2048"),
    ("background", "In the background", "interval:600,blocks:10,nodes:2048"),
]


def costs(values: dict, interval: float) -> dict:
    """Shares of the run's time that go into saving, work that a failure takes,
    and restarts."""
    save, between, behind = blocked(values), failures(values), unsafe(values)
    whole = slowdown(interval, save, values["restart"] + behind, between)
    at_once = slowdown(interval, save, behind, between)
    saving = save / interval
    return {
        "saving": saving / whole,
        "lost": (at_once - 1 - saving) / whole,
        "restarting": (whole - at_once) / whole,
    }


def blocked(values: dict) -> float:
    """Seconds for which a save keeps the ranks from training."""
    return values["save"] * values["blocks"] / 100


def unsafe(values: dict) -> float:
    """Seconds of a write in the background: a failure in them goes back one
    checkpoint more."""
    return values["save"] - blocked(values)


def failures(values: dict) -> float:
    """Seconds from one failure of the job to the next, on average."""
    return values["mtbf"] * DAY / values["nodes"]


def best(values: dict) -> float:
    """Daly's interval, or the time of the write where that is longer: the next
    save cannot begin before."""
    return max(daly(blocked(values), failures(values)), values["save"])


def draw(values: dict) -> Scene:
    """The cost over the interval, with the one that was chosen and the best."""
    wide = (LAST - FIRST) / CELLS
    places = [i * wide for i in range(CELLS + 1)]
    found = [
        costs(values, 10 ** (FIRST + place + wide / 2)) for place in places[:-1]
    ]
    layers = [(kind, [one[kind] for one in found]) for kind in PARTS]
    between, interval = failures(values), values["interval"]
    first, second = young(blocked(values), between), best(values)

    def marked(seconds: float, kind: str) -> list:
        place = min(max(log10(seconds) - FIRST, 0.0), LAST - FIRST)
        start = min(max(place - 0.03, 0.0), LAST - FIRST - 0.06)
        return [(start, start + 0.06, kind, "")]

    rows = [
        ("yours", marked(interval, "interval")),
        ("Young", marked(first, "best")),
        ("Daly", marked(second, "best")),
    ]
    mine = 1 - sum(costs(values, interval).values())
    least = 1 - sum(costs(values, second).values())
    lost = interval / 2 + unsafe(values) + values["restart"]
    numbers = [
        ("the job fails every", duration(between)),
        ("a failure costs about", duration(lost)),
        ("Young's interval", duration(first)),
        ("Daly's", duration(second)),
        ("goodput at yours", percent(mine, 0)),
        ("at Daly's", percent(least, 0)),
    ]
    told = (
        f"With {duration(interval)} of work between checkpoints"
        f" {percent(mine, 0)} of the time is spent on training. With"
        f" {duration(second)} it would be {percent(least, 0)}."
    )
    panels = [
        Lanes("Work between two checkpoints", rows),
        Areas(
            "Time that is lost", places, layers, lambda share: percent(share, 0)
        ),
    ]

    def say(place: float) -> str:
        return duration(10 ** (FIRST + place))

    return Scene(panels, LAST - FIRST, say, numbers, told)
