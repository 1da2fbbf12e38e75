"""How the exam launches a trainer with a fault, named by LOCKSTEP_FAULT."""

import os
from pathlib import Path

from lockstep.exam.adapter import Launch
from lockstep.examples import plain_loop_exam
from lockstep.examples.launched import LACKS, checkpoints, launched
from lockstep.experiments.peers.lockstep import adapter as sound

__all__ = ["checkpoints", "command", "lacks", "name"]
FAULT = os.environ.get("LOCKSTEP_FAULT", "")
name = f"with a fault in {FAULT}"
PLAIN = FAULT.startswith("ema")  # in the plain loop
lacks = {} if PLAIN else LACKS


def command(launch: Launch) -> list[object]:
    """As of what it is a copy of."""
    script = Path(__file__).with_name("train.py")
    if PLAIN:
        return plain_loop_exam.command(launch, script)
    return launched(launch, sound.TASK, [script])
