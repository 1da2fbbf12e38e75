"""Answers to the inputs in /inputs.json, for MicroPython and for a test."""

import json

from lockstep.planner.activations import activations
from lockstep.planner.collectives import collective
from lockstep.planner.figures import Figure, PlanError
from lockstep.planner.flops import flops
from lockstep.planner.layout import HARDWARE, layout
from lockstep.planner.memory import memory
from lockstep.planner.models import params, preset
from lockstep.planner.pipeline import pipeline


def operations(given: dict) -> dict:
    counted = params(given["model"])
    counted.update(given)
    return flops(counted)


def run(given: dict) -> dict:
    asked = preset(given["preset"])
    asked.update(HARDWARE["h100"])
    asked.update(given)
    return layout(asked)


ROOMS = {
    "params": params,
    "memory": memory,
    "activations": activations,
    "collective": collective,
    "pipeline": pipeline,
    "flops": operations,
    "run": run,
}


def answer(room: str, given: dict) -> list:
    """Name, value and derivation of each figure, or why there are none."""
    try:
        found = ROOMS[room](given)
    except PlanError as error:
        return [[str(error), 0, ""]]
    figures = [name for name in found if isinstance(found[name], Figure)]
    return [
        [name, found[name].value, " = ".join(found[name].derivation())]
        for name in sorted(figures)
    ]


if __name__ == "__main__":
    with open("/inputs.json") as file:  # noqa: PTH123 (MicroPython)
        inputs = json.load(file)
    print(json.dumps([answer(room, given) for room, given in inputs]))
