"""A router's imbalance: which expert is chosen how often, what a capacity drops
or leaves empty, which rank the others wait for, and how a bias evens it out.

Loads are those of very many tokens. A token's logits are each expert's
preference, its bias, and a draw from Gumbel's distribution, so that the best
logit is a draw from their softmax.
"""

from math import exp, log

from lockstep.planner.figures import percent, plain, short
from lockstep.planner.layout import WHITEBOARD
from lockstep.planner.questions import ask

from .scene import Lanes, Scene
from .settings import Choice, Slider

TITLE = "A router's imbalance"
SPEED = 0.01  # that a bias moves in a step
TIE = 1e-9  # of an even share: no reason to move a bias


def times(value: float) -> str:
    """A multiple of an even share, or of a balanced time."""
    return short(round(value, 2)) + " ×"


SETTINGS = [
    Slider(
        "skew",
        "Hottest expert preferred to the coldest",
        [1, 2, 4, 8, 16, 32],
        8,
        lambda value: f"{value} times" if value > 1 else "not at all",
    ),
    Slider("experts", "Experts", [8, 16], 8, str),
    Slider("ranks", "Ranks that share them", [2, 4, 8], 8, str),
    Choice("k", "Experts per token", [(2, "two"), (1, "one")]),
    Choice(
        "capacity",
        "Places for each expert",
        [
            (0, "as many as it needs"),
            (100, "an even share"),
            (125, "1.25 even shares"),
            (150, "1.5 even shares"),
            (200, "2 even shares"),
        ],
    ),
    Slider("steps", "Steps with a bias", [0, 10, 30, 60, 80, 100, 200], 0, str),
]
SCENES = [
    ("skewed", "A skewed router", ""),
    ("capacity", "A capacity of 1.25", "capacity:125"),
    ("balanced", "100 steps of bias", "steps:100"),
]


def preferences(experts: int, skew: float) -> list:
    """The logits of the experts, the hottest first, falling evenly."""
    return [log(skew) * (1 - e / (experts - 1)) for e in range(experts)]


def loads(logits: list, k: int) -> list:
    """Each expert's choices, in even shares, if a token takes the k best, one
    or two, of these logits, each with a draw from Gumbel's distribution."""
    parts = [exp(logit) for logit in logits]
    whole = sum(parts)
    first = [part / whole for part in parts]
    if k == 1:
        return [one * len(logits) for one in first]
    # The second is drawn from what the first has left.
    odds = [one / (1 - one) for one in first]
    every = sum(odds)
    chosen = [one * (1 + every - its) for one, its in zip(first, odds)]
    return [one * len(logits) / k for one in chosen]


def biased(values: dict) -> list:
    """The logits after so many steps, each of which has moved every bias up or
    down."""
    logits = preferences(values["experts"], values["skew"])
    for _ in range(values["steps"]):
        found = loads(logits, values["k"])
        for expert, load in enumerate(found):
            if abs(load - 1) > TIE:
                logits[expert] += SPEED if load < 1 else -SPEED
    return logits


class Layer:
    """What becomes of the choices, in even shares: of an expert's load, and of
    a rank's."""

    def __init__(self, values: dict) -> None:
        self.loads = loads(biased(values), values["k"])
        self.capacity = values["capacity"] / 100
        if self.capacity:
            self.kept = [min(load, self.capacity) for load in self.loads]
        else:
            self.kept = self.loads
        each = len(self.loads) // values["ranks"]
        self.ranks = [
            sum(self.kept[at : at + each]) / each
            for at in range(0, len(self.loads), each)
        ]
        # Places are computed, whether they are taken or not.
        self.slowest = self.capacity or max(self.ranks)

    def dropped(self) -> float:
        """The share of all choices."""
        return 1 - sum(self.kept) / len(self.kept)

    def empty(self) -> float:
        """The share of all places that nobody takes."""
        if not self.capacity:
            return 0.0
        return 1 - sum(self.kept) / len(self.kept) / self.capacity


def step(values: dict, slowest: float) -> tuple:
    """Seconds of a step of Mixtral's layers, with these experts and ranks, on
    64 H200s: balanced, and with the slowest rank's load in each layer."""
    plan = ask(
        "run",
        dict(
            WHITEBOARD,
            preset="mixtral-8x7b",
            experts=values["experts"],
            experts_per_token=values["k"],
            ep=values["ranks"],
            hardware="h200",
            gpus=64,
            sequence=8192,
            global_batch=128,
            zero_stage=1,
        ),
    )
    expert = 6 * values["k"] * plain(plan["expert"]) * plan["layers"]
    share = expert / plain(plan["flops_per_token"])
    waits = plain(plan["compute_seconds"]) * share + plain(
        plan["layer_seconds"]
    )
    balanced = plain(plan["step_seconds"])
    return balanced, balanced + (slowest - 1) * waits


def draw(values: dict) -> Scene:
    """Experts above, ranks below, on one axis of even shares."""
    layer = Layer(values)
    experts = []
    for number, load in enumerate(layer.loads):
        kept = layer.kept[number]
        bars = [(0, kept, "compute", short(round(kept, 2)))]
        if load > kept:
            bars.append((kept, load, "dropped", ""))
        elif kept < layer.capacity:
            bars.append((kept, layer.capacity, "empty", ""))
        experts.append((f"expert {number + 1}", bars))
    ranks = []
    for number, load in enumerate(layer.ranks):
        bars = [(0, load, "compute", short(round(load, 2)))]
        if layer.slowest - load > 1e-6:
            kind = "empty" if layer.capacity else "waiting"
            bars.append((load, layer.slowest, kind, ""))
        ranks.append((f"rank {number + 1}", bars))
    balanced, takes = step(values, layer.slowest)
    hottest = max(layer.loads)
    numbers = [
        ("hottest expert", times(hottest)),
        ("slowest rank", times(layer.slowest)),
        ("dropped", percent(layer.dropped(), 1)),
        ("empty places", percent(layer.empty(), 1)),
        ("a step of Mixtral's layers", short(round(takes, 2)) + " s"),
        ("balanced, it takes", short(round(balanced, 2)) + " s"),
    ]
    told = f"The hottest expert gets {times(hottest)} an even share."
    if layer.capacity:
        told += (
            f" Each has places for {times(layer.capacity)} an even share:"
            f" {percent(layer.dropped(), 1)} of the choices are dropped, and"
            f" {percent(layer.empty(), 1)} of the places stay empty and are"
            " computed."
        )
    else:
        told += (
            f" The slowest rank has {times(layer.slowest)} an even share, and"
            " the others wait for it."
        )
    told += (
        f" A step of Mixtral's layers on 64 GPUs takes"
        f" {short(round(takes, 2))} s; balanced and without empty places it"
        f" takes {short(round(balanced, 2))} s."
    )
    # Two at least, so that an even load is seen to be shorter.
    end = max(layer.loads + [layer.slowest, 2])
    panels = [
        Lanes("Each expert's choices, in even shares", experts),
        Lanes("Each rank's work, and its waiting", ranks),
    ]
    return Scene(panels, end, times, numbers, told)
