"""What a user of Lightning Fabric adds, for a run to resume alike."""

import argparse
import zipfile
from pathlib import Path
from typing import Any

import lightning as L
import torch
from torch.utils.data import DataLoader

from lockstep.exam.task import Samples
from lockstep.experiments.peers.repairs import (
    Batches,
    random_states,
    set_random_states,
)


class Random:
    """Each rank's random state, in the one file that rank 0 writes."""

    def __init__(self, fabric: L.Fabric, seed: int) -> None:
        self.rank, self.world = fabric.global_rank, fabric.world_size
        torch.manual_seed(hash((seed, self.rank)))

    def state_dict(self) -> dict[str, list[Any]]:
        return {"ranks": random_states()}

    def load_state_dict(self, state: dict[str, list[Any]]) -> None:
        if len(state["ranks"]) == self.world:  # else as at the beginning
            set_random_states(state["ranks"][self.rank])


def add(
    fabric: L.Fabric,
    state: dict[str, Any],
    args: argparse.Namespace,
    scaler: Any,
) -> Any:
    """What belongs to the state too, and another loader."""
    samples = Samples()
    state["run"] = [args.seed, float(samples.x.double().sum())]
    state["random"] = Random(fabric, args.seed)
    state["scaler"] = scaler
    return fabric.setup_dataloaders(
        DataLoader(
            samples,
            batch_sampler=Batches(
                len(samples),
                args.global_batch,
                args.seed,
                lambda: state["step"],
            ),
            num_workers=args.workers,
            generator=torch.Generator(),  # leaves dropout's alone
        ),
        use_distributed_sampler=False,
    )


def load(fabric: L.Fabric, path: Path, state: dict[str, Any]) -> None:
    """Nothing that is damaged, or another run's."""
    if zipfile.ZipFile(path).testzip():
        raise RuntimeError(f"{path} is damaged")
    run = state["run"]
    fabric.load(path, state)
    if state["run"] != run:
        raise RuntimeError(f"{path} is another run's")
