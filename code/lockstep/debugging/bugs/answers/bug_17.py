"""The labels do not depend on the features."""

from pathlib import Path
from types import ModuleType

from lockstep.debugging.bugs.rig import launch

SYMPTOM = "There is nothing to learn: the labels are drawn at random."


def prove(trainer: Path, folder: Path) -> None:
    """Fit a linear classifier in closed form, which needs no trainer."""

    def fitted(module: ModuleType) -> float:
        _, x, y = module.toy()[0].tensors
        targets = y[:, None] == y.unique()
        weights = targets.float().T @ x
        return float(((x @ weights.T).argmax(1) == y).float().mean())

    run = launch(trainer, folder, world=1, watch=fitted, max_steps=1)
    share = run.seen[0]
    assert share > 0.5, f"a linear fit has {share:.2f} of its own samples right"
