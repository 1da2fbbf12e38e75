"""Questions for the inputs in /inputs.json, for MicroPython and for a test."""

import json

from lockstep.practice.estimates import check, generate, worked


def asked(kind: str, seed: int) -> list:
    """The question, a verdict on twice its answer, and its HTML."""
    card = generate(kind, seed)
    verdict = check(card, str(0.9 * card["value"]))
    return [card, list(verdict), worked(card)]


if __name__ == "__main__":
    with open("/inputs.json") as file:  # noqa: PTH123 (MicroPython)
        inputs = json.load(file)
    print(json.dumps([asked(kind, seed) for kind, seed in inputs]))
