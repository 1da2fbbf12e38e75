"""What is measured on every rank: torchrun runs this module."""

import json
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import torch.distributed as dist

from lockstep.experiments.benchmarks.checkpoint_cost import saving
from lockstep.experiments.benchmarks.cpu_time_per_step import Round, contest
from lockstep.experiments.benchmarks.settings import HIDDEN_SIZES, Settings
from lockstep.trainer.extensions.launcher import (
    run_and_leave,
    store_of_this_launch,
)
from lockstep.trainer.process import Process, joined


def measure(
    settings: Settings, folder: Path, me: Process, store: dist.Store
) -> dict[str, Any]:
    """Per model: CPU seconds per step of each loop in every round, as means
    over the ranks; and what this rank's checkpoints cost.

    All is built anew for each of `settings.builds`: where it comes to lie in
    memory is luck, too.
    """
    steps, checkpoints = {}, {}
    for model, hidden_size in HIDDEN_SIZES.items():
        rounds: list[Round] = []
        for build in range(settings.builds):
            run_dir = folder / f"{model}-{build}"
            count = settings.rounds(model)
            mine = contest(run_dir, hidden_size, count, me, store)
            rounds += over_ranks(mine)
        steps[model] = {
            name: [round(one[name], 7) for one in rounds] for name in rounds[0]
        }
        checkpoints[model] = saving(
            folder / f"{model}-saving", hidden_size, settings.saves, me, store
        )
    return {"steps": steps, "checkpoints": checkpoints}


def over_ranks(mine: list[Round]) -> list[Round]:
    """Each round's mean over the ranks."""
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, mine)
    return [
        {name: mean(one[name] for one in ranks) for name in ranks[0]}
        for ranks in zip(*every, strict=True)
    ]


def main(settings: str, folder: str) -> None:
    """Write what rank 0 found to `folder`/found.json."""
    store, how = store_of_this_launch(), Settings(**json.loads(settings))
    with joined(600, store) as me:
        found = measure(how, Path(folder), me, store)
        if me.rank == 0:
            Path(folder, "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    run_and_leave(lambda: main(*sys.argv[1:]))
