"""Where the memory goes: what a GPU holds at each moment of one step, and which
moment is the fullest.

Bytes are the planner's. It adds up all kinds; here each is there only while it
is, so the peak is at most the planner's sum.
"""

from lockstep.planner.figures import plain, short
from lockstep.planner.questions import ask

from .scene import Areas, Lanes, Scene
from .settings import SHARDED, Choice, Slider

TITLE = "Where the memory goes"
GROUPS = 8  # of layers, that the two passes are drawn in
PARTS = "parameters", "gradients", "optimizer", "activations", "logits"
GPU = 80e9  # bytes

SETTINGS = [
    Choice(
        "model",
        "Model",
        [("llama3-8b", "Llama 3 8B"), ("llama3-70b", "Llama 3 70B")],
    ),
    Slider("gpus", "GPUs", [1, 8, 64, 512], 8, str),
    SHARDED,
    Choice(
        "recompute",
        "In the backward pass",
        [("none", "keep all activations"), ("full", "recompute each block")],
    ),
    Choice(
        "optimizer",
        "Optimizer",
        [
            ("adam-mixed", "Adam, 12 bytes a parameter"),
            ("muon", "Muon, 8 bytes"),
            ("adam-8bit", "Adam in 8 bits, 6 bytes"),
        ],
    ),
    Slider(
        "sequence",
        "Tokens in a sequence",
        [2048, 4096, 8192, 16384, 32768],
        8192,
        lambda value: f"{value:,}",
    ),
    Slider("micro", "Sequences per micro-batch", [1, 2, 4, 8], 1, str),
    Choice(
        "loss",
        "Loss",
        [
            ("eager", "F.cross_entropy, 12 bytes per logit"),
            ("fused", "in place, 6 bytes per logit"),
            ("chunked", "in pieces"),
        ],
    ),
]
SCENES = [
    ("sharded", "8B, sharded", ""),
    ("recomputed", "Recomputed", "recompute:full"),
    ("ddp", "8B under DDP", "stage:0,recompute:full"),
    ("large", "70B on 64", "model:llama3-70b,gpus:64,recompute:full"),
]


def gigabytes(value: float) -> str:
    """Bytes in 10⁹."""
    return short(round(value / 1e9, 1 if value < 1e11 else 0)) + " GB"


def asked(values: dict) -> dict:
    """Return the settings as the planner's question."""
    given = {
        "preset": values["model"],
        "gpus": values["gpus"],
        "sequence": values["sequence"],
        "micro_batch": values["micro"],
        "global_batch": values["gpus"] * values["micro"],
        "zero_stage": values["stage"],
        "recompute": values["recompute"],
        "kernels": "torch",
        "loss": values["loss"],
    }
    if values["stage"] == 3 and values["optimizer"] == "adam-mixed":
        # FSDP2's shards of weights, gradients and moments are all in fp32, and
        # a gathered layer is in bf16: 2 and 2 + 8 bytes, and 4 of gradients.
        given["bytes_gradient"], given["bytes_optimizer"] = 4, 10
    else:
        given["optimizer"] = values["optimizer"]
    return given


def planned(values: dict) -> dict:
    """The planner's bytes of each part, by name."""
    found = ask("run", asked(values))
    names = list(PARTS) + ["buffers", "reducing", "system", "block"]
    return {name: plain(found[name + "_bytes"]) for name in names}


def step(values: dict) -> list:
    """The moments of a step: phase, how long it is drawn, and bytes by kind."""
    part = planned(values)
    again = part["block"] if values["recompute"] == "full" else 0
    kept = part["activations"] - again
    always = {"optimizer": part["optimizer"], "weights": part["parameters"]}
    always["system"] = part["system"]
    found = []

    def moment(phase: str, wide: float, **more: float) -> None:
        found.append((phase, wide, dict(always, **more)))

    moment("data", 1)
    for done in range(1, GROUPS + 1):
        share = done / GROUPS
        moment("forward", 1, gathered=part["buffers"], activations=kept * share)
    moment(
        "loss",
        1,
        gathered=part["buffers"],
        activations=kept,
        logits=part["logits"],
    )
    for done in range(GROUPS):
        moment(
            "backward",
            3 if again else 2,
            gathered=part["buffers"],
            activations=kept * (1 - done / GROUPS) + again,
            gradients=part["gradients"] * (done + 1) / GROUPS
            + part["reducing"],
        )
    moment("optimizer", 1, gradients=part["gradients"])
    return found


KINDS = (
    "system",
    "optimizer",
    "weights",
    "gradients",
    "gathered",
    "activations",
    "logits",
)
PHASES = [
    ("forward", "compute", "forward"),
    ("loss", "compute", "loss"),
    ("backward", "backward", "backward"),
    ("optimizer", "update", ""),
]


def draw(values: dict) -> Scene:
    """Memory over the step, below what the GPU does meanwhile."""
    moments, places = step(values), [0.0]
    for _, wide, _ in moments:
        places.append(places[-1] + wide)
    layers = [
        (kind, [held.get(kind, 0.0) for _, _, held in moments])
        for kind in KINDS
    ]
    memory = Areas("What it holds", places, layers, gigabytes)
    bars = []
    for phase, kind, words in PHASES:
        where = [i for i, one in enumerate(moments) if one[0] == phase]
        bars.append((places[where[0]], places[where[-1] + 1], kind, words))
    totals = memory.totals()
    peak = max(totals)
    phase = moments[totals.index(peak)][0]
    state = sum(planned(values)[name] for name in PARTS[:3])
    when = {
        "loss": "at the loss",
        "backward": "in the backward pass",
        "optimizer": "in the optimizer's step",
    }[phase]
    fits = "fits into" if peak <= GPU else "does not fit into"
    numbers = [
        ("peak", gigabytes(peak)),
        ("it comes", when),
        ("state and gradients", gigabytes(state)),
        ("left of 80 GB", gigabytes(GPU - peak) if peak <= GPU else "nothing"),
    ]
    told = (
        f"A GPU holds the most {when}: {gigabytes(peak)}, which {fits} 80 GB."
    )
    panels = [Lanes("What a GPU does", [("GPU", bars)]), memory]
    return Scene(panels, places[-1], lambda place: "", numbers, told)
