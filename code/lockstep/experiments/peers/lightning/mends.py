"""What a user of Lightning's Trainer adds, for a run to resume alike."""

import argparse
import signal
import zipfile
from collections.abc import Iterator
from math import ceil
from typing import Any

import lightning as L
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from lockstep.exam.task import Samples


class Batches:
    """This rank's batches from where training is: `trainer.global_step` says
    so, for any number of ranks and of loader workers."""

    def __init__(self, trainer: L.Trainer, n: int, batch: int, seed: int):
        self.trainer, self.n = trainer, n
        self.batch, self.seed = batch, seed  # over all ranks

    def __len__(self) -> int:
        return ceil(self.n / self.batch)

    def __iter__(self) -> Iterator[list[int]]:
        rank, world = self.trainer.global_rank, self.trainer.world_size
        epoch, done = divmod(self.trainer.global_step, len(self))
        rng = torch.Generator().manual_seed(1000 * self.seed + epoch)
        order = torch.randperm(self.n, generator=rng).tolist()
        for k in range(done, len(self)):
            yield order[k * self.batch : (k + 1) * self.batch][rank::world]


class Resume(L.Callback):
    """Each rank's random state, a refusal of another run's checkpoint, and an
    end on SIGTERM at one step for all ranks."""

    def __init__(self, seed: int, samples: Samples) -> None:
        self.seed, self.states = seed, None
        self.told = False
        self.run = [seed, float(samples.x.double().sum())]

    def on_save_checkpoint(
        self, trainer: L.Trainer, _: Any, checkpoint: dict[str, Any]
    ) -> None:
        states: list[Any] = [None] * trainer.world_size
        mine = [torch.get_rng_state()]
        if torch.cuda.is_available():
            mine.append(torch.cuda.get_rng_state())
        dist.all_gather_object(states, mine)
        checkpoint |= {"random": states, "run": self.run}

    def on_load_checkpoint(
        self, _: Any, __: Any, checkpoint: dict[str, Any]
    ) -> None:
        if checkpoint["run"] != self.run:
            raise RuntimeError("the checkpoint is another run's")
        self.states = checkpoint["random"]

    def on_train_start(self, trainer: L.Trainer, _: Any) -> None:
        """After the loader has drawn its own numbers, and instead of the
        Trainer's handler, which broadcasts."""
        signal.signal(signal.SIGTERM, self.on_sigterm)
        if self.states and len(self.states) == trainer.world_size:
            cpu, *gpu = self.states[trainer.global_rank]
            torch.set_rng_state(cpu)
            for own in gpu:
                torch.cuda.set_rng_state(own)
        else:
            step = trainer.global_step  # on another world size
            torch.manual_seed(hash((self.seed, step, trainer.global_rank)))

    def on_sigterm(self, *_: Any) -> None:
        self.told = True

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        """`save_on_exception` saves then."""
        if trainer.strategy.reduce_boolean_decision(self.told, all=False):
            raise SystemExit


def mend(
    trainer: L.Trainer, model: L.LightningModule, args: argparse.Namespace
) -> None:
    """Train with all of these."""
    newest = args.run_dir / "checkpoints" / "last.ckpt"
    if newest.exists() and zipfile.ZipFile(newest).testzip():
        raise RuntimeError(f"{newest} is damaged")
    samples = Samples()
    trainer.callbacks.insert(0, Resume(args.seed, samples))
    loader = DataLoader(
        samples,
        batch_sampler=Batches(
            trainer, len(samples), args.global_batch, args.seed
        ),
        num_workers=args.workers,
        generator=torch.Generator(),  # leaves dropout's alone
    )
    trainer.fit(model, loader, ckpt_path="last")
