"""Each rank looks for the newest checkpoint by itself."""

import os
from pathlib import Path
from types import ModuleType
from typing import Any

from lockstep.debugging.bugs.rig import launch
from lockstep.instruments.late_listing import list_late

SYMPTOM = "A rank whose listing lags behind restores an older step."


def prove(trainer: Path, folder: Path) -> None:
    """Rank 1 does not list step 2 yet; nobody trains after the restore."""

    def late(module: ModuleType) -> list[int]:
        restore, steps = module.restore, []

        def restoring(r: object) -> tuple[int, float]:
            steps.append(restore(r)[0])
            return 2, 0.0

        if os.environ["RANK"] == "1":
            list_late(lambda name: "02" in name)
        module.restore = restoring  # type: ignore[attr-defined]
        return steps

    asked: dict[str, Any] = {"max_steps": 2, "checkpoint_every_steps": 1}
    launch(trainer, folder, **asked)
    (mine,), (other,) = launch(trainer, folder, watch=late, **asked).seen
    assert mine == other, f"rank 0 restores step {mine}, rank 1 step {other}"
