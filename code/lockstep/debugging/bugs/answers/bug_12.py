"""The backend is chosen for a machine that has a GPU."""

from pathlib import Path

from lockstep.debugging.bugs.rig import RunFailed, launch

SYMPTOM = "Without a GPU no process group is made: NCCL is asked for."


def prove(trainer: Path, folder: Path) -> None:
    """One rank, one step, and no GPU to be seen."""
    try:
        launch(trainer, folder, world=1, max_steps=1)
    except RunFailed as error:
        raise AssertionError(f"without a GPU: {error}") from None
