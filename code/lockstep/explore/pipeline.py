"""Pipeline schedules: what each rank does when, and what the fullest holds."""

from lockstep.planner.clock import Played
from lockstep.planner.figures import percent, short
from lockstep.planner.schedules import Schedule

from .scene import Areas, Lanes, Scene
from .settings import Choice, Slider

TITLE = "Pipeline schedules"
# In order, which a dictionary of MicroPython's has not.
NAMES = [
    ("gpipe", "GPipe"),
    ("1f1b", "1F1B"),
    ("interleaved", "interleaved, 2 parts a rank"),
    ("interleaved-4", "interleaved, 4 parts a rank"),
    ("zb-h1", "zero bubble, ZB-H1"),
    ("zb-h2", "zero bubble, ZB-H2"),
    ("zbv", "zero bubble, ZB-V"),
    ("dualpipev", "DualPipeV"),
]
# A bar's color, by its kind of action; forwards of later parts have their own.
BARS = {"F": "compute", "B": "backward", "I": "ingrad", "W": "wgrad"}


def forwards(value: float) -> str:
    """A time, as the axis has it."""
    return short(round(value, 2)) + " F"


def of_a_forward(value: int) -> str:
    """A slider's time."""
    return f"{value} % of a forward" if value else "none"


SETTINGS = [
    Choice("schedule", "Schedule", NAMES),
    Slider("ranks", "Ranks", [1, 2, 3, 4, 6, 8], 4, str),
    Slider("micro", "Micro-batches", [1, 2, 4, 8, 12, 16, 24], 8, str),
    Slider("message", "A message takes", [0, 10, 25, 50, 100], 0, of_a_forward),
    Slider(
        "extra",
        "The last part takes more, by",
        [0, 12, 25, 50],
        0,
        of_a_forward,
    ),
    Slider(
        "exchange",
        "Experts' all-to-alls, each pass",
        [0, 25, 50, 100, 150],
        0,
        of_a_forward,
    ),
]
SCENES = [
    ("gpipe", "GPipe", ""),
    ("one", "One micro-batch", "micro:1"),
    ("1f1b", "1F1B", "schedule:1f1b"),
    ("interleaved", "Interleaved", "schedule:interleaved"),
    ("zero", "ZB-H1", "schedule:zb-h1"),
    ("v", "ZB-V", "schedule:zbv"),
    ("late", "1F1B, late messages", "schedule:1f1b,message:50"),
    ("slow", "A slow last stage", "schedule:1f1b,extra:25"),
    ("experts", "Experts under ZB-V", "schedule:zbv,micro:16,exchange:150"),
    (
        "dual",
        "Experts under DualPipeV",
        "schedule:dualpipev,micro:16,exchange:150",
    ),
]


def possible(name: str, ranks: int, micro_batches: int) -> int:
    """As many micro-batches, or as many more as the schedule needs."""
    if name == "interleaved":  # whole rounds
        return -(-micro_batches // ranks) * ranks
    if name == "dualpipev":
        return max(micro_batches, 2 * ranks)
    return micro_batches


def played(values: dict) -> Played:
    """The schedule of these settings, on the clock."""
    name, ranks = values["schedule"], values["ranks"]
    parts = 2
    if name == "interleaved-4":
        name, parts = "interleaved", 4
    count = possible(name, ranks, values["micro"])
    schedule = Schedule(name, ranks, count, parts)
    return Played(
        schedule,
        values["message"] / 100,
        values["extra"] / 100,
        values["exchange"] / 100,
    )


def lanes(one: Played) -> Lanes:
    """What each rank does, with its waiting between and after."""
    rows = []
    for rank, bars in enumerate(one.bars):
        row, last = [], 0.0
        for start, end, kind, number, part in bars:
            if start - last > 1e-9:
                row.append((last, start, "waiting", ""))
            if kind == "X":
                row.append((start, end, "exchange", ""))
            else:
                later = kind == "F" and part > 0
                row.append(
                    (
                        start,
                        end,
                        "later" if later else BARS[kind],
                        str(number + 1),
                    )
                )
            last = end
        if one.end - last > 1e-9:
            row.append((last, one.end, "waiting", ""))
        rows.append((f"rank {rank}", row))
    return Lanes("What each rank does; F is a forward's time", rows)


def held(one: Played, rank: int) -> Areas:
    """Micro-batches whose activations a rank holds, over the step: all of
    them until the input's gradient is there, and then what weights' gradients
    still need."""
    share = 1 / one.schedule.parts
    changes = []  # moment, of all, of what waits for weights' gradients
    for start, end, kind, _, _ in one.bars[rank]:
        if kind == "F":
            changes.append((start, share, 0.0))
        elif kind == "B":
            changes.append((end, -share, 0.0))
        elif kind == "I":
            changes.append((end, -share, share))
        elif kind == "W":
            changes.append((end, 0.0, -share))
    moments = sorted({0.0, one.end} | {round(each[0], 6) for each in changes})
    layers: list = [("kept", []), ("activations", [])]
    for moment in moments[:-1]:
        before = [each for each in changes if each[0] < moment + 1e-5]
        layers[0][1].append(max(0.0, sum(each[2] for each in before)))
        layers[1][1].append(max(0.0, sum(each[1] for each in before)))
    title = f"Micro-batches that rank {rank} holds"
    return Areas(title, moments, layers, lambda value: short(round(value, 2)))


def draw(values: dict) -> Scene:
    """The step of these settings."""
    one = played(values)
    schedule = one.schedule
    most = schedule.held()
    fullest = most.index(max(most))
    over = one.overhead()
    numbers = [
        ("step", f"{short(round(one.end, 2))} F"),
        ("ideal", f"{short(round(one.ideal(), 2))} F"),
        ("bubble over ideal", percent(over, 2)),
        ("bubble of total", percent(over / (1 + over), 2)),
        (
            "over ideal, if no rank waits at the end",
            percent(one.staggered(), 2),
        ),
        (
            "held at most, rank by rank",
            ", ".join([short(round(each, 2)) for each in most]),
        ),
    ]
    name = dict(NAMES)[values["schedule"]]
    told = (
        f"{name[0].upper()}{name[1:]}: with {schedule.ranks} ranks and"
        f" {schedule.micro_batches} micro-batches a step takes as long as"
        f" {short(round(one.end, 2))} forwards, where"
        f" {short(round(one.ideal(), 2))} would be ideal: a bubble of"
        f" {percent(over, 2)} over ideal. Rank {fullest} holds activations of"
        f" up to {short(round(most[fullest], 2))} micro-batches."
    )
    if schedule.micro_batches != values["micro"]:
        told += (
            f" This schedule cannot do with {values['micro']} micro-batches on"
            f" {schedule.ranks} ranks, so it has {schedule.micro_batches}."
        )
    panels = [lanes(one), held(one, fullest)]
    return Scene(panels, one.end, forwards, numbers, told)
