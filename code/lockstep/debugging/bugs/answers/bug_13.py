"""What a checkpoint says of its run is not compared."""

from pathlib import Path

from lockstep.debugging.bugs.rig import RunFailed, launch

SYMPTOM = "A run goes on from the checkpoint of another seed."


def prove(trainer: Path, folder: Path) -> None:
    """Run a step with seed 0, and one more with seed 1."""
    launch(trainer, folder, world=1, max_steps=2, stop_at_step=1, seed=0)
    try:
        run = launch(trainer, folder, world=1, max_steps=2, seed=1)
    except RunFailed:
        return  # refused
    restored = run.of("checkpoint_restored")[0]["step"]
    raise AssertionError(f"seed 1 goes on from step {restored} of seed 0")
