"""The checkpoint holds what `torch.load` refuses to unpickle."""

from pathlib import Path

from lockstep.debugging.bugs.rig import RunFailed, launch

SYMPTOM = "What a run has just saved cannot be restored, by the same process."


def prove(trainer: Path, folder: Path) -> None:
    """One step, and the same launch again."""
    launch(trainer, folder, world=1, max_steps=4, stop_at_step=1)
    try:
        launch(trainer, folder, world=1, max_steps=4, stop_at_step=1)
    except RunFailed as error:
        raise AssertionError(f"a fresh checkpoint: {error}") from None
