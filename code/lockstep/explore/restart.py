"""What a restart loses: which samples of an epoch a resumed run has trained on
once, twice or never, by the sampler's idea of where it was.

Positions are places in the epoch's shuffled order, which all four samplers
deal to ranks in turn.
"""

from .scene import Lanes, Scene
from .settings import Choice, Slider

TITLE = "What a restart loses"
STEPS = 12  # of the epoch
RANKS = 2  # before the kill
BATCH = 4  # of a rank
STEP = RANKS * BATCH  # samples that a step trains on
SAVES = 3  # steps from one checkpoint to the next

SETTINGS = [
    Choice(
        "sampler",
        "Data position in the checkpoint",
        [
            ("drawn", "how many samples were drawn"),
            ("epoch", "the epoch (DistributedSampler)"),
            ("loader", "the loader (StatefulDataLoader)"),
            ("position", "samples trained on (Lockstep)"),
        ],
    ),
    Slider("workers", "Loader workers", [0, 1, 2, 4], 2, str),
    Slider("prefetch", "Prefetched batches per worker", [1, 2, 4], 2, str),
    Slider("kill", "Killed after step", list(range(1, STEPS)), 8, str),
    Slider("ranks", "GPUs after the restart", [1, 2, 4], 2, str),
]
SCENES = [
    ("never", "Samples skipped", ""),
    ("twice", "Samples repeated", "sampler:epoch"),
    ("moved", "A different number of GPUs", "sampler:loader,ranks:4"),
    ("exact", "Nothing lost", "sampler:position,ranks:4"),
]


def saved_step(values: dict) -> int:
    """The step of the last checkpoint before the kill; 0 if there is none."""
    return values["kill"] // SAVES * SAVES


def resumes_at(values: dict) -> int:
    """The first position that the second launch trains on."""
    step, sampler = saved_step(values), values["sampler"]
    if sampler == "epoch":
        return 0
    if sampler == "position":
        return step * STEP
    if sampler == "drawn" and step:
        step = min(STEPS, step + values["workers"] * values["prefetch"])
    # A rank's own count, which each rank now takes for its own new share.
    return min(STEPS * STEP, step * BATCH * values["ranks"])


def times(values: dict) -> list:
    """How often each position has moved the weights at the epoch's end.

    What was trained between the checkpoint and the kill is lost with the
    weights, so it does not count.
    """
    until, again = saved_step(values) * STEP, resumes_at(values)
    return [int(at < until) + int(at >= again) for at in range(STEPS * STEP)]


KIND = ["never", "once", "twice"]


def _resumes(at: int) -> str:
    """Say where the restart begins."""
    if at == STEPS * STEP:
        return "takes the epoch for finished"
    return f"resumes at sample {at + 1}"


def draw(values: dict) -> Scene:
    """The epoch as a grid, a step to a row."""
    counts, step = times(values), saved_step(values)
    rows = []
    for row in range(STEPS):
        bars = []
        for i, count in enumerate(counts[row * STEP : (row + 1) * STEP]):
            bars.append((i, i + 1, KIND[count], ""))
        label = "step " + str(row + 1)
        if row + 1 == step:
            label += ", saved"
        elif row + 1 == values["kill"]:
            label += ", killed"
        rows.append((label, bars))
    once, twice, never = (counts.count(n) for n in (1, 2, 0))
    numbers = [
        ("trained on once", str(once)),
        ("twice", str(twice)),
        ("never", str(never)),
        ("steps of work lost", str(values["kill"] - step)),
    ]
    told = (
        f"In the final weights, {once} of {len(counts)} samples count once,"
        f" {twice} twice and {never} never. The restart loads the weights of"
        f" step {step} and {_resumes(resumes_at(values))}."
        if step
        else "There is no checkpoint yet, so the restart begins at step 0 and"
        " loses only time."
    )
    panels = [Lanes("The epoch's samples, eight to a step", rows)]
    return Scene(panels, STEP, lambda at: str(round(at)), numbers, told)
