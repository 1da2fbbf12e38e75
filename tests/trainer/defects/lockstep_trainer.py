"""Lockstep's trainer with the interview cut's functions: what the checks of
the seventeen defects call."""

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from lockstep.trainer import config
from lockstep.trainer.__main__ import launch
from lockstep.trainer.extensions.options import Options
from lockstep.trainer.extensions.timers import PhaseTimers
from lockstep.trainer.extensions.writers.plain import PlainWriter
from lockstep.trainer.model import DataParallel
from lockstep.trainer.telemetry import attach, phase


def TrainConfig(run_dir: Path, **settings: Any) -> config.TrainConfig:
    """Settings for the cut's data, without noise in the features if the model
    has no dropout. Only the first layer has as many inputs as features."""
    noise = settings.get("dropout", 0.1) / 2
    same = {"dataset": "toy", "hidden_size": 48, "feature_dropout": noise}
    return config.TrainConfig(run_dir, **same | settings)


def join(store: dist.Store, world_size: int, **_: Any) -> list[dist.Store]:
    """Where the ranks of a launch meet; one rank may be launched repeatedly."""
    return [store if world_size > 1 else dist.HashStore()]


def save(write: Any, *given: Any) -> Any:
    """Write a checkpoint's files; a check replaces it."""
    return write(*given)


class Writer(PlainWriter):
    """Writes through `save`."""

    def write(self, *given: Any) -> Any:
        return save(super().write, *given)


class LaunchOptions(Options):
    """The default options, with that writer."""

    def make_writer(self) -> Writer:
        return Writer()


def train(cfg: config.TrainConfig, store: dist.Store) -> dict[str, Any]:
    """Launch the whole trainer. It must know by the checkpoints alone which run
    they belong to: the other record of that is removed."""
    (cfg.run_dir / "run.json").unlink(missing_ok=True)
    return launch(cfg, store, LaunchOptions())


class Log:
    """The timers of phases, as one object; each step is a logged one."""

    timing = True
    phase = staticmethod(phase)

    def __init__(self, run_dir: Path, rank: int, attempt: int, gpu: bool):
        device = torch.device("cuda" if gpu else "cpu")
        self.timers = PhaseTimers(device, DataParallel())
        attach(self.timers)

    @property
    def seconds(self) -> dict[str, float]:
        return self.timers.seconds()
