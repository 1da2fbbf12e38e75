"""Recomputing makes room, and nobody asks for how long a step takes now."""

from lockstep.exercises.labs.lab_12_design.solution import *
from lockstep.exercises.labs.lab_12_design.solution import axes as all_axes
from lockstep.exercises.labs.lab_12_design.solution import layout as sound
from lockstep.planner.questions import ask

FAILS = {"alternatives"}
TASK = {
    "preset": "llama3-70b",
    "gpus": 64,
    "sequence": TOKENS,
    "global_batch": SEQUENCES,
}


def layout() -> dict:
    return sound() | {"recompute": "full"}


def run(**changed: int) -> dict:
    return ask("run", TASK | layout() | changed)


def figures() -> dict[str, float]:
    names = "total_bytes", "step_seconds", "mfu"
    found = {name: float(run()[name]) for name in names}
    return found | {"microbatches": MICROBATCHES}


def axes() -> dict[str, dict]:
    rows = all_axes()
    kept = float(run()["activations_bytes"])
    for axis, other in (
        ("tensor", {"tp": 1, "dp": 16, "sequence_parallel": 0}),
        ("context", {"cp": 1, "dp": 8}),
    ):
        before = float(run(**other)["activations_bytes"])
        rows[axis]["saved"] = before - kept
    return rows
