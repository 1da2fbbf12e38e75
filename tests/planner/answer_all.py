"""Answers to the inputs in /inputs.json, for MicroPython and for a test."""

import json

from lockstep.planner.figures import Figure, PlanError
from lockstep.planner.questions import ask


def answer(question: str, given: dict) -> list:
    """Name, value and derivation of each figure, or why there are none."""
    try:
        found = ask(question, given)
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
    print(json.dumps([answer(question, given) for question, given in inputs]))
