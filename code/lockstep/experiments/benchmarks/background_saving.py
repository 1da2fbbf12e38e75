"""What saving holds up, with and without a thread that writes: both ways in
turn, in one run.

    torchrun … -m lockstep.experiments.benchmarks.background_saving SETTINGS DIR
"""

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from lockstep.experiments.benchmarks.result import spread
from lockstep.experiments.markdown import (
    measured,
    sections,
    table,
    with_quartiles,
)
from lockstep.trainer.checkpoint import Manifest, Writer
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions.launcher import (
    run_and_leave,
    store_of_this_launch,
)
from lockstep.trainer.extensions.writers.background import BackgroundWriter
from lockstep.trainer.loop import run
from lockstep.trainer.process import joined
from lockstep.trainer.step import Replica
from lockstep.trainer.telemetry import Observer, attach

RESULT = Path(__file__).with_name("background_saving.json")


@dataclass(frozen=True)
class Saving:
    """How much is measured; each field is a flag of the command line."""

    hidden_size: int = 9963  # 100 million parameters
    pairs: int = 6  # of a save in the foreground and one in the background
    steps_between: int = 10  # saves; the thread writes beside these


class InTurn(Writer):
    """Saves in the foreground, in the background, and so on. Before a save it
    waits for the thread, and leaves that wait out of the account."""

    def __init__(self) -> None:
        self.background = BackgroundWriter(Writer())
        self.ways = {"foreground": Writer(), "background": self.background}
        self.blocked: dict[str, list[float]] = {way: [] for way in self.ways}
        self.done = 0.0  # when the loop could go on

    def save(self, r: Replica, manifest: Manifest, leaving: bool) -> None:
        self.background.wait()
        weights = r.strategy.module.parameters()
        self.parameters = sum(each.numel() for each in weights)
        way = min(self.ways, key=lambda way: len(self.blocked[way]))
        begun = time.perf_counter()
        self.ways[way].save(r, manifest, leaving=False)
        self.done = time.perf_counter()
        self.blocked[way].append(self.done - begun)
        if leaving:
            self.background.wait()


class Steps(Observer):
    """Seconds of each step, without the save after it: of those that the
    thread wrote beside from beginning to end, and of those that were alone."""

    def __init__(self, writer: InTurn) -> None:
        self.writer = writer
        self.seconds: dict[str, list[float]] = {"alone": [], "beside": []}
        self.wrote: list[dict[str, Any]] = []
        self.last, self.busy = 0.0, False

    def committed(self, step: int, position: int, ids: np.ndarray) -> None:
        now, busy = time.perf_counter(), self.writer.background.busy()
        began = max(self.last, self.writer.done)
        if busy and began == self.writer.done:
            self.busy = True  # a save has just begun, and lasts still
        if busy == self.busy and self.last:
            self.seconds["beside" if busy else "alone"].append(now - began)
        self.last, self.busy = now, busy

    def event(self, record: dict[str, Any]) -> None:
        if record["event"] == "checkpoint_saved":
            self.wrote.append(record)


def measure(settings: Saving, folder: Path) -> dict[str, Any]:
    """On this rank, among others: seconds by way, and what one save holds."""
    steps = settings.steps_between
    cfg = TrainConfig(
        run_dir=folder,
        hidden_size=settings.hidden_size,
        max_steps=2 * settings.pairs * steps,
        checkpoint_every_steps=steps,
        keep_checkpoints=1,
    )
    folder.mkdir(exist_ok=True)
    with joined(600, store_of_this_launch()) as me:
        writer = InTurn()
        attach(watch := Steps(writer))
        run(cfg.for_launch(me.world_size, {}), me, writer=writer)
        return {
            "ranks": me.world_size,
            "parameters": writer.parameters,
            "bytes": watch.wrote[-1]["bytes"],
            "blocked": writer.blocked,
            "wrote": [saved["seconds"] for saved in watch.wrote[1::2]],
            "steps": watch.seconds,
        }


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """Medians and quartiles in seconds; `ratio` of blocked time, pair by pair,
    and `slowdown`, a median step beside the thread over one alone. The first
    pair is left out: its copy is made into memory that is new."""
    fore, back = (found["blocked"][way][1:] for way in found["blocked"])
    alone, beside = (found["steps"][way] for way in ("alone", "beside"))
    return {
        "foreground": spread(fore),
        "background": spread(back),
        "first_copy": found["blocked"]["background"][0],
        "ratio": spread(b / f for f, b in zip(fore, back, strict=True)),
        "write": spread(found["wrote"][1:]),
        "step_alone": spread(alone),
        "step_beside": spread(beside),
        "slowdown": median(beside) / median(alone),
    }


def tables(found: dict[str, Any]) -> str:
    """All of them, in one text."""
    return sections(found, saving, slower_steps, machine)


def saving(found: dict[str, Any]) -> str:
    """What a save costs the loop, and what the thread then takes."""
    summed = found["summary"]
    return table(
        ["a save of", "in the foreground", "in the background", "ratio"],
        [
            [
                f"{found['bytes'] / 1e9:.2f} GB",
                f"{with_quartiles(summed['foreground'], 1, 2)} s",
                f"{with_quartiles(summed['background'], 1, 2)} s",
                with_quartiles(summed["ratio"], 1, 3),
            ]
        ],
    )


def slower_steps(found: dict[str, Any]) -> str:
    """Tabulate a step alone, and a step during the write."""
    summed = found["summary"]
    return table(
        [
            "the thread writes for",
            "a step alone",
            "during the write",
            "slowdown",
        ],
        [
            [
                f"{with_quartiles(summed['write'], 1, 1)} s",
                f"{with_quartiles(summed['step_alone'], 1, 2)} s",
                f"{with_quartiles(summed['step_beside'], 1, 2)} s",
                f"{summed['slowdown']:.2f}",
            ]
        ],
    )


def machine(found: dict[str, Any]) -> str:
    """Where, when and with what this was measured, and how often."""
    often = found["settings"]
    return measured(
        found,
        Model=f"{found['parameters'] / 1e6:.1f} million parameters,"
        f" {found['ranks']} ranks",
        Repeated=f"{often['pairs']} pairs of saves, {often['steps_between']}"
        " steps after each; the first pair is left out",
    )


def main(settings: str, folder: str) -> None:
    """Write what rank 0 found to `folder`/found.json."""
    found = measure(Saving(**json.loads(settings)), Path(folder, "run"))
    if os.environ["RANK"] == "0":
        Path(folder, "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    run_and_leave(lambda: main(*sys.argv[1:]))
