"""All ranks draw from one stream, from the seed on and after a restore."""

from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from lockstep.debugging.bugs.rig import launch

SYMPTOM = "Two ranks draw one dropout mask, at every step and after a restore."


def states(module: ModuleType) -> list[int]:
    """Grows by torch's RNG state, as a number, before each step."""
    step, seen = module.train_step, []

    def looking(*args: object) -> object:
        state = torch.get_rng_state().numpy().tobytes()
        seen.append(hash(state))  # the forks share its salt
        return step(*args)

    module.train_step = looking  # type: ignore[attr-defined]
    return seen


def prove(trainer: Path, folder: Path) -> None:
    """Dropout draws from that state and nothing else in a step does."""
    asked: dict[str, Any] = {"max_steps": 4, "watch": states}
    begun = launch(trainer, folder, stop_at_step=2, **asked)
    resumed = launch(trainer, folder, **asked)
    for when, run in ("from the start", begun), ("after a restore", resumed):
        mine, other = run.seen
        equal = sum(a == b for a, b in zip(mine, other, strict=True))
        assert not equal, f"{equal} of {len(mine)} states are equal {when}"
