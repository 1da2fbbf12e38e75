"""The exam's adapter of the GPT, and the factory that it trains."""

import os
from pathlib import Path

from lockstep.exam.adapter import Launch
from lockstep.exam.env_vars import SAMPLES, VARIANT
from lockstep.exam.observe import observe
from lockstep.examples import gpt
from lockstep.examples.launched import LACKS, checkpoints, launched
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.model import Task

__all__ = ["checkpoints", "command", "lacks", "name"]
name = "A GPT on tokens mapped into memory, by --task"
lacks = LACKS
LENGTH = 32  # of a window; short, since nothing here depends on it


def task(cfg: TrainConfig) -> Task:
    """Make as many windows as the exam asks for, others for each variant.
    It knows them again by a hash, since nothing random changes them."""
    made = gpt.task(cfg, length=LENGTH)
    n = int(os.environ[SAMPLES])
    first = n * int(os.environ[VARIANT])
    observe(made.model)
    return made._replace(data=gpt.Windows(made.data.path, LENGTH, first, n))


def command(launch: Launch) -> list[object]:
    """Return the trainer's command, with the tokens in its environment."""
    tokens = launch.run_dir.parent / "tokens.bin"
    gpt.prepare(tokens, [Path(gpt.__file__), Path(__file__)])
    train = launched(launch, "lockstep.examples.gpt_exam:task")
    return ["env", f"{gpt.TOKENS}={tokens}", *train, "--hidden-size", 32]
