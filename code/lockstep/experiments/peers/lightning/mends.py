"""What a user of Lightning's Trainer adds, for a run to resume alike."""

import argparse
import signal
import zipfile
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
        checkpoint |= {"random": random_states(), "run": self.run}

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
            set_random_states(self.states[trainer.global_rank])
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
    # Before the checkpoints, and after the average's update for the step.
    trainer.callbacks.insert(-1, Resume(args.seed, samples))
    loader = DataLoader(
        samples,
        batch_sampler=Batches(
            len(samples),
            args.global_batch,
            args.seed,
            lambda: trainer.global_step,
        ),
        num_workers=args.workers,
        generator=torch.Generator(),  # leaves dropout's alone
    )
    trainer.fit(model, loader, ckpt_path="last")
