"""Spikes: a store that takes its time, and a loop that waits for it."""

from pathlib import Path
from statistics import median
from threading import Event
from typing import Any

from lockstep.experiments.slow_jobs.measuring import Phases, table, train
from lockstep.trainer.checkpoint import Manifest, Writer
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions.writers.background import BackgroundWriter
from lockstep.trainer.telemetry import Observer

RANKS = 2
SECONDS = 0.2  # that the store takes, if it is waited for
STEPS, EVERY = 26, 6


# --8<-- [start:far]
class FarAway(Writer, Observer):
    """To a store that answers late. It answers at once when the loop goes on:
    then nobody waits, and `held` keeps the steps at which the loop did."""

    phases = ("checkpoint",)

    def __init__(self) -> None:
        self.loop_goes_on, self.held = Event(), list[int]()

    def begin(self, phase: str) -> None:
        self.loop_goes_on.clear()

    def end(self, phase: str) -> None:
        self.loop_goes_on.set()

    def finish(
        self, cfg: TrainConfig, manifest: Manifest, state: Any, leaving: bool
    ) -> None:
        self.step = manifest["step"]
        super().finish(cfg, manifest, state, leaving)

    def write(self, folder: Path, state: dict[str, Any]) -> Manifest:
        if not self.loop_goes_on.wait(SECONDS):
            self.held.append(self.step)
        return super().write(folder, state)


# --8<-- [end:far]
def saving(folder: str, name: str, every: int, background: bool) -> Any:
    """Phases, step by step, and where the loop was held, before its end."""
    store = FarAway()
    steps = train(
        Path(folder, name),
        store,
        writer=BackgroundWriter(store) if background else store,
        max_steps=STEPS,
        checkpoint_every_steps=every,
    )
    return steps, [step for step in store.held if step < STEPS]


def measured(folder: str) -> dict[str, Any]:
    """On a rank: slow, with the interval doubled, mended."""
    return {
        "slow": saving(folder, "slow", EVERY, False),
        "doubled": saving(folder, "doubled", 2 * EVERY, False),
        "mended": saving(folder, "mended", EVERY, True),
    }


def told(ranks: list[dict[str, Any]]) -> list[str]:
    """A usual step, the longest one, and the saves that held up the loop."""
    rows: dict[str, Phases] = {}
    for name, (steps, _) in ranks[0].items():
        rows[f"{name}, median"] = middle([*steps.values()])
        rows[f"{name}, longest"] = max(
            steps.values(), key=lambda step: sum(step.values())
        )
    lines = table(rows, "load", "optimizer")
    for name, (_, held) in ranks[0].items():
        after = ", ".join(map(str, held)) or "no step"
        lines.append(f"{name}: the loop waits for the store after {after}")
    return lines


def middle(steps: list[Phases]) -> Phases:
    """The median of each phase."""
    return {n: median(s.get(n, 0.0) for s in steps) for n in steps[-1]}
