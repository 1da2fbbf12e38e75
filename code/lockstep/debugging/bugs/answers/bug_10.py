"""A checkpoint has its final name before it is whole."""

import os
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from lockstep.debugging.bugs.rig import RunFailed, launch

SYMPTOM = "A kill in a save leaves half a file under the newest name."


def die_in_the_second_save(module: ModuleType) -> None:
    """Half of the file is written then."""
    save, saves = torch.save, []

    def dying(what: object, path: Path) -> None:
        save(what, path)
        saves.append(path)
        if len(saves) == 2:
            os.truncate(path, path.stat().st_size // 2)
            os._exit(1)

    torch.save = dying  # type: ignore[assignment]


def prove(trainer: Path, folder: Path) -> None:
    """Step 2 is saved, step 4 half; the launch after that has step 2 to go on
    from."""
    asked: dict[str, Any] = {
        "world": 1,
        "max_steps": 6,
        "checkpoint_every_steps": 2,
    }
    with suppress(RunFailed):  # as it should
        launch(trainer, folder, watch=die_in_the_second_save, **asked)
    try:
        launch(trainer, folder, **asked)
    except RunFailed as error:
        there = sorted(p.name for p in (folder / "checkpoints").iterdir())
        raise AssertionError(f"of {there} it takes the last: {error}") from None
