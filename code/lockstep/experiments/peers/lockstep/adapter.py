"""How the exam launches Lockstep's trainer."""

from lockstep.exam.adapter import Launch
from lockstep.examples.launched import LACKS, checkpoints, launched

__all__ = ["checkpoints", "command", "lacks", "name"]
name = "Lockstep"
lacks = LACKS
TASK = "lockstep.experiments.peers.lockstep.train:task"


def command(launch: Launch) -> list[object]:
    """The trainer, told what to train."""
    return launched(launch, TASK)
