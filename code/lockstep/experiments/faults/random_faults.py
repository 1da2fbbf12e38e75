"""Which faults a run gets: a function of the seed and the run's number."""

import random
from typing import Any, NamedTuple

from lockstep.trainer.extensions.faults import (
    COMPUTING,
    KINDS,
    PLACES,
    PUBLISHING,
    SAVING,
    Fault,
)

# Short, and yet three epochs: only a whole one shows that nothing is missing.
STEPS, EVERY = 12, 2
SETTINGS: dict[str, Any] = {
    "dataset": "toy",
    "hidden_size": 8,
    "global_batch_size": 960,
    "micro_batch_size": 240,
    "max_steps": STEPS,
    "checkpoint_every_steps": EVERY,
    "keep_checkpoints": 2,
    "log_every_steps": 1,
    "timeout_seconds": 100.0,
}
CELLS: list[tuple[str, str]] = [
    (kind, phase)
    for kind in KINDS
    for phase in PLACES.get(kind, COMPUTING + SAVING)
]
SLOW_MS = 100
# Longer than it takes until every rank has heard of a signal: a run as short
# as these would be over by then.
HEARD_MS = 1500
LEAVING = 4  # steps until all ranks have agreed which is the last


class Draw(NamedTuple):
    """One run: how many ranks, and what happens to them."""

    world_size: int
    faults: list[Fault]


def drawn(seed: int, number: int) -> Draw:
    """Run `number`, from 0, of the campaign with this seed.

    Every kind comes in every phase that it has before one comes again, in an
    order of chance; rank and step are of chance as well. One run in four has
    four ranks.
    """
    cycle, place = divmod(number, len(CELLS))
    order = random.Random(f"order {seed} {cycle}")
    kind, phase = order.sample(CELLS, len(CELLS))[place]
    chance = random.Random(f"run {seed} {number}")
    world = 4 if number % 4 == 3 else 2
    last = {"sigterm": STEPS - LEAVING, "enospc": STEPS - 1, "flip": STEPS - 1}
    steps = range(1, last.get(kind, STEPS) + 1)
    if phase in SAVING:
        steps = steps[EVERY - 1 :: EVERY]
    step = chance.choice(steps)
    anyone = kind == "flip" or phase not in PUBLISHING
    rank = chance.randrange(world) if anyone else 0
    ms = SLOW_MS if kind == "slow" else None
    faults = [Fault(kind, rank, step, phase, ms=ms)]
    other = chance.randrange(world)
    if kind == "flip":  # nobody would read it: force a restart
        faults.append(Fault("kill", other, step + 1, "h2d"))
    if kind == "sigterm":  # a rank that is saving `step` has done it
        heard = step + 1 + (phase in SAVING)
        faults.append(Fault("slow", other, heard, "load", ms=HEARD_MS))
    return Draw(world, faults)
