"""Layouts of a training run: every way to divide a model over a cluster that is
worth asking for, by the step's time and by what a GPU holds.

Both are the planner's. Of two layouts that differ in recomputing alone, only
the one that keeps activations is drawn if it fits, because it is faster.
"""

from lockstep.planner.figures import PlanError, percent, plain, short
from lockstep.planner.hardware import HARDWARE
from lockstep.planner.layout import WHITEBOARD, layout
from lockstep.planner.models import params
from lockstep.planner.presets import preset

from .scene import Lanes, Points, Scene
from .settings import Choice, Slider

TITLE = "Layouts of a training run"
SHOWN = 8  # rows
LIMIT = HARDWARE["h100"]["memory"]

MODELS = [
    ("llama3-70b", "Llama 3 70B"),
    ("llama3-8b", "Llama 3 8B"),
    ("llama3-405b", "Llama 3 405B"),
]
SETTINGS = [
    Choice(
        "model",
        "Model",
        MODELS,
    ),
    Slider(
        "gpus", "H100s", [8, 64, 512, 2048, 8192, 16384], 64, lambda n: f"{n:,}"
    ),
    Slider(
        "sequence",
        "Tokens in a sequence",
        [4096, 8192, 32768, 131072],
        8192,
        lambda n: f"{n:,}",
    ),
    Slider(
        "batch",
        "Tokens in a step",
        [1, 2, 4, 8, 16],
        1,
        lambda n: f"{n} × 2²⁰",
    ),
    Choice(
        "network",
        "Network",
        [
            (50, "a card of 400 Gb/s for each GPU"),
            (25, "one of 200 Gb/s for each GPU"),
            (6, "one of 400 Gb/s for all eight"),
        ],
    ),
    Choice(
        "schedule",
        "Pipeline",
        [("1f1b", "1F1B"), ("interleaved", "interleaved, 4 parts a rank")],
    ),
]
SCENES = [
    ("medium", "70B on 64", ""),
    ("slow", "One card a node", "network:6"),
    ("small", "8B on 64", "model:llama3-8b"),
    ("large", "70B on 512", "gpus:512,batch:8"),
    ("starved", "70B on 512, batch of 1 M", "gpus:512"),
    ("huge", "405B on 16,384", "model:llama3-405b,gpus:16384,batch:16"),
    (
        "interleaved",
        "and interleaved",
        "model:llama3-405b,gpus:16384,batch:16,schedule:interleaved",
    ),
    (
        "long",
        "405B, 128 K tokens",
        "model:llama3-405b,gpus:16384,sequence:131072,batch:16",
    ),
]


def splits(values: dict) -> list:
    """The choices: (tp, cp, pp, ZeRO stage, sequences in a micro-batch), few
    enough for an answer at once. With a pipeline the optimizer alone is
    sharded, since stage 3 would gather the weights for every micro-batch."""
    gpus = values["gpus"]
    longer = [1, 4]
    if values["sequence"] > 16384:
        longer.append(16)
    elif gpus > 1024:
        longer.append(8)
    found = []
    for tp in (1, 2, 4, 8):
        for cp in longer:
            for pp in (1, 4, 8, 16):
                if gpus % (tp * cp * pp):
                    continue
                if pp > 1:
                    found.append((tp, cp, pp, 1, 1))
                    continue
                found += [(tp, cp, pp, 2, 1), (tp, cp, pp, 3, 1)]
                if tp * cp == 1:
                    found.append((tp, cp, pp, 3, 2))
    return found


def asked(values: dict) -> dict:
    """What the planner is asked, without the choices."""
    given = params(preset(values["model"]))
    given.update(HARDWARE["h100"])
    given.update(WHITEBOARD)
    given["network_bandwidth"] /= {50: 1, 25: 2, 6: 8}[values["network"]]
    given["gpus"] = values["gpus"]
    given["sequence"] = values["sequence"]
    given["global_batch"] = values["batch"] * 2**20 // values["sequence"]
    return given


def planned(given: dict, schedule: str, choice: tuple) -> list:
    """A layout, and, if it does not fit, the same with all recomputed. None, if
    the batch or the schedule does not allow it."""
    tp, cp, pp, stage, micro = choice
    one = dict(given)
    one.update({"tp": tp, "cp": cp, "pp": pp, "zero_stage": stage})
    one.update({"micro_batch": micro, "sequence_parallel": int(tp > 1)})
    if pp > 1 and schedule == "interleaved":
        one.update({"schedule": schedule, "virtual_stages": 4})
    found: list = []
    for recompute in ("none", "full"):
        one["recompute"] = recompute
        try:
            found.append(summary(layout(one)))
        except PlanError:
            return []
        if found[-1]["memory"] <= LIMIT:
            break
    return found


PARTS = "compute", "recompute", "waiting", "exposed"


def summary(found: dict) -> dict:
    """What is drawn of a layout: its name, seconds of each part, bytes."""
    computing = plain(found["compute_seconds"])
    again = plain(found["recomputed_flops"])
    again = again / (again + plain(found["flops_per_token"])) * computing
    return {
        "name": name(found),
        "compute": computing - again,
        "recompute": again,
        "waiting": plain(found["bubble_seconds"]),
        "exposed": plain(found["exposed_seconds"])
        + plain(found["optimizer_seconds"]),
        "step": plain(found["step_seconds"]),
        "memory": plain(found["total_bytes"]),
        "mfu": plain(found["mfu"]),
        "splits": found["tp"] * found["cp"] * found["pp"],
    }


def name(found: dict) -> str:
    """A layout in a few letters: what is divided, the ZeRO stage, sequences of
    a micro-batch if it has more than one, and R if all is recomputed."""
    words = [
        f"{axis}{found[axis]}" for axis in ("tp", "cp", "pp") if found[axis] > 1
    ]
    words.append(f"z{found['zero_stage']}")
    if found["micro_batch"] > 1:
        words.append(f"b{found['micro_batch']}")
    if found["recompute"] == "full":
        words.append("R")
    return " ".join(words)


def tried(values: dict) -> list:
    """All layouts, the fastest first; of two alike, the one with fewer
    splits. MicroPython's sort is not stable, so the name decides the rest."""
    given, found = asked(values), []
    for choice in splits(values):
        found += planned(given, values["schedule"], choice)
    found.sort(
        key=lambda one: (round(one["step"], 3), one["splits"], one["name"])
    )
    return found


def seconds(value: float) -> str:
    """A time, as it is said."""
    return short(round(value, 1 if value < 100 else 0)) + " s"


def gigabytes(value: float) -> str:
    """Bytes in 10⁹."""
    return short(round(value / 1e9)) + " GB"


def row(one: dict) -> tuple:
    """A bar of a layout's parts, with what a GPU holds."""
    bars, start = [], 0.0
    for kind in PARTS:
        end = start + one[kind]
        if end - start > 1e-6 * one["step"]:
            words = gigabytes(one["memory"]) if kind == "compute" else ""
            bars.append((start, end, kind, words))
            start = end
    return one["name"], bars


def draw(values: dict) -> Scene:
    """The fastest layouts that fit, and all of them by time and memory."""
    found = tried(values)
    fit = [one for one in found if one["memory"] <= LIMIT]
    least = (fit or found or [{"step": 1.0}])[0]["step"]
    end = max([1.1 * one["step"] for one in fit[:SHOWN]] + [1.6 * least])
    near = fit + [one for one in found if one["memory"] > LIMIT]
    dots = [
        (
            one["step"],
            one["memory"],
            "fits" if one["memory"] <= LIMIT else "overfull",
        )
        for one in near
        if one["step"] <= end
    ]
    points = Points(
        "What a GPU holds, by the step's time", dots, 2 * LIMIT, LIMIT, "80 GB"
    )
    rows = [row(one) for one in fit[:SHOWN]] or [("none fits", [])]
    panels: list = [Lanes("The fastest, with what a GPU holds", rows)]
    panels.append(points)
    numbers = [("layouts", str(len(found))), ("that fit", str(len(fit)))]
    what = f"{dict(MODELS)[values['model']]} on {values['gpus']:,} GPUs"
    if fit:
        best = fit[0]
        numbers += [
            ("the fastest", best["name"]),
            ("its step", seconds(best["step"])),
            ("its MFU", percent(best["mfu"], 0)),
            ("it holds", gigabytes(best["memory"])),
        ]
        told = (
            f"{what}: of {len(found)} layouts {len(fit)} fit. The fastest is"
            f" {best['name']}, with {seconds(best['step'])} a step and"
            f" {gigabytes(best['memory'])} on the fullest GPU."
        )
    else:
        told = f"{what}: none of {len(found)} layouts fits."
    plainest = [one for one in fit if one["splits"] == 1]
    if plainest:
        numbers.append(
            (
                f"sharding alone, {plainest[0]['name']}",
                seconds(plainest[0]["step"]),
            )
        )
        told += (
            f" Sharding alone, {plainest[0]['name']}, takes"
            f" {seconds(plainest[0]['step'])}."
        )
    elif fit:
        told += " Sharding alone is not possible."
    return Scene(panels, end, seconds, numbers, told)
