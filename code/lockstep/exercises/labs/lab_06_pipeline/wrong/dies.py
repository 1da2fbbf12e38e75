"""The process ends without a word."""

import os

from lockstep.exercises.labs.lab_06_pipeline.solution import *

FAILS = {"gpipe"}


def gpipe_schedule(stage: int, stages: int, micro_batches: int) -> list[Action]:
    """Nothing: an extension that crashes ends so."""
    os.abort()
