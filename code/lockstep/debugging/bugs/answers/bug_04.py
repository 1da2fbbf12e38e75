"""The digest is built on `hash`, which is salted in every process."""

from pathlib import Path
from typing import Any

from lockstep.debugging.bugs.rig import RunFailed, launch

SYMPTOM = "Equal settings have another digest in every interpreter."


def prove(trainer: Path, folder: Path) -> None:
    """Forks share their salt; an interpreter that starts draws its own."""
    asked: dict[str, Any] = {"world": 1, "max_steps": 4, "stop_at_step": 1}
    launch(trainer, folder, **asked)
    launch(trainer, folder, **asked)  # with the salt of the run itself
    try:
        launch(trainer, folder, fresh=True, **asked)
    except RunFailed as error:
        raise AssertionError(f"in a new interpreter: {error}") from None
