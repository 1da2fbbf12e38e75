"""Compare a killed and resumed run with an undisturbed run, step by step.

    LOCKSTEP_FAULT=optimizer \\
        python -m lockstep.experiments.demos.first_difference

The trainer is `lockstep.experiments.peers.broken`, with the fault that the
environment names, or sound. A dot means that all ranks begin a step with the
same as in the undisturbed run, and an x that they don't.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from lockstep.exam.adapter import LIMIT, Launch, load
from lockstep.exam.comparison import Pair, differences, pairs
from lockstep.exam.launching import Act
from lockstep.exam.lineage import Lineage, lineage
from lockstep.exam.sandbox import Sandbox

ADAPTER = "lockstep.experiments.peers.broken.adapter"
KILLED = 10  # the step after which the first launch is killed
COMPARED: dict[str, Callable[[Pair], bool]] = {
    "samples": lambda pair: pair.was.ids != pair.now.ids,
    "learning rate": lambda pair: pair.differ("rates"),
    "RNG state": lambda pair: pair.random[0] != pair.random[1],
    "optimizer": lambda pair: pair.differ("optimizer"),
    "weights": lambda pair: pair.differ("weights"),
}


def compared(was: Lineage, now: Lineage) -> dict[str, list[bool]]:
    """Return, for each thing that is compared, the steps that differ."""
    steps = pairs(was, now)
    return {
        name: [any(map(differ, step)) for step in steps]
        for name, differ in COMPARED.items()
    }


def told(was: Lineage, now: Lineage, taken: int) -> str:
    """Return a row for each thing that is compared, and what the exam blames.

    Args:
        was: the undisturbed run.
        now: a run of two launches.
        taken: steps of the first launch.
    """
    start = now.start.step or 0
    rows = {
        "step": [*map(str, range(1, now.steps + 1))],
        "launch": ["1"] * start + ["2"] * (now.steps - start),
    }
    for name, differ in compared(was, now).items():
        rows[name] = ["x" if one else "." for one in differ]
    lines = [
        f"{name:14}" + "".join(f"{cell:>3}" for cell in cells)
        for name, cells in rows.items()
    ]
    blamed = ", ".join(differences(was, now)) or "nothing"
    return "\n".join(
        [
            *lines,
            f"launch 1 was killed after step {taken}",
            f"launch 2 began with the weights of step {start}",
            f"the exam blames: {blamed}",
        ]
    )


def main() -> None:
    """Launch the trainer three times, and print the comparison."""
    with tempfile.TemporaryDirectory() as folder:
        launch = Launch(Path(), timeout_seconds=30)
        sandbox = Sandbox(load(ADAPTER), Path(folder), launch, LIMIT)
        was = sandbox.undisturbed()
        first = sandbox.begun(Act(KILLED, "kill"))
        now = lineage(first, sandbox.run())
        print(told(was, now, len(first.steps)))


if __name__ == "__main__":
    main()
