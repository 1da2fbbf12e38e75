"""What a user of Lightning Fabric adds, for a run to resume alike."""

import argparse
import zipfile
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any

import lightning as L
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from lockstep.exam.task import Samples


class Batches:
    """This rank's batches from where training is: `state["step"]` says so, for
    any number of ranks and of loader workers."""

    def __init__(
        self,
        fabric: L.Fabric,
        state: dict[str, Any],
        n: int,
        batch: int,
        seed: int,
    ) -> None:
        self.fabric, self.state, self.n = fabric, state, n
        self.batch, self.seed = batch, seed  # over all ranks

    def __len__(self) -> int:
        return ceil(self.n / self.batch)

    def __iter__(self) -> Iterator[list[int]]:
        rank, world = self.fabric.global_rank, self.fabric.world_size
        epoch, done = divmod(self.state["step"], len(self))
        rng = torch.Generator().manual_seed(1000 * self.seed + epoch)
        order = torch.randperm(self.n, generator=rng).tolist()
        for k in range(done, len(self)):
            yield order[k * self.batch : (k + 1) * self.batch][rank::world]


class Random:
    """Each rank's random state, in the one file that rank 0 writes."""

    def __init__(self, fabric: L.Fabric, seed: int) -> None:
        self.rank, self.world = fabric.global_rank, fabric.world_size
        torch.manual_seed(hash((seed, self.rank)))

    def state_dict(self) -> dict[str, list[Any]]:
        states: list[Any] = [None] * self.world
        mine = [torch.get_rng_state()]
        if torch.cuda.is_available():
            mine.append(torch.cuda.get_rng_state())
        dist.all_gather_object(states, mine)
        return {"ranks": states}

    def load_state_dict(self, state: dict[str, list[Any]]) -> None:
        if len(state["ranks"]) == self.world:  # else as at the beginning
            cpu, *gpu = state["ranks"][self.rank]
            torch.set_rng_state(cpu)
            for own in gpu:
                torch.cuda.set_rng_state(own)


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
                fabric, state, len(samples), args.global_batch, args.seed
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
