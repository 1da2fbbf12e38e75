"""Each rank looks for the newest checkpoint by itself."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from lockstep.debugging.bugs.rig import launch

SYMPTOM = "A rank whose listing lags behind restores an older step."


def prove(trainer: Path, folder: Path) -> None:
    """Rank 1 does not list step 2 yet; nobody trains after the restore."""

    def late(module: ModuleType) -> list[int]:
        glob, restore, steps = Path.glob, module.restore, []

        def listing(self: Path, pattern: str) -> Iterator[Path]:
            return (p for p in glob(self, pattern) if "02" not in p.name)

        def restoring(r: object) -> tuple[int, float]:
            steps.append(restore(r)[0])
            return 2, 0.0

        if os.environ["RANK"] == "1":
            Path.glob = listing  # type: ignore[method-assign, assignment]
        module.restore = restoring  # type: ignore[attr-defined]
        return steps

    asked: dict[str, Any] = {"max_steps": 2, "checkpoint_every_steps": 1}
    launch(trainer, folder, **asked)
    (mine,), (other,) = launch(trainer, folder, watch=late, **asked).seen
    assert mine == other, f"rank 0 restores step {mine}, rank 1 step {other}"
