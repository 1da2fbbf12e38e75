"""There are always enough micro-batches to fill the pipeline."""

from lockstep.exercises.labs.lab_06_pipeline.solution import *
from lockstep.parallel.pipeline import in_order

FAILS = {"1f1b"}


def one_f_one_b_schedule(
    stage: int, stages: int, micro_batches: int
) -> list[Action]:
    """With fewer, the warm-up has more than there are."""
    warm_up = stages - 1 - stage
    actions = in_order("F", warm_up)
    for done in range(micro_batches - warm_up):
        actions += [Action("F", warm_up + done), Action("B", done)]
    return actions + in_order("B", micro_batches)[-warm_up or micro_batches :]
