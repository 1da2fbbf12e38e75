"""The exam's task on torchtitan's own parts, composed as its trainer does.

They are its text data loader, optimizers, schedulers and checkpointer. The
trainer itself does not start without an accelerator.
"""

import argparse
import hashlib
import json
import os
import signal
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from datasets import Dataset
from torch.nn.parallel import DistributedDataParallel
from torchtitan.components.checkpointer import CheckpointManager
from torchtitan.components.optimizer import (
    LRSchedulersContainer,
    OptimizersContainer,
    ParamGroupConfig,
)
from torchtitan.hf_datasets import DatasetConfig
from torchtitan.hf_datasets.text_datasets import (
    DATASETS,
    HuggingFaceTextDataLoader,
)

from lockstep.exam.task import Model, Samples
from lockstep.experiments.peers.launching import arguments
from lockstep.experiments.peers.repairs import anyone, digests

SUMS = "sums.json"


class Numbers:
    """A tokenizer for documents of one sample's number."""

    def encode(self, text: str, **_: Any) -> list[int]:
        return [int(text), int(text)]


class TrainState:
    """What torchtitan's trainer saves of itself; when mended, more."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.step = self.ntokens_seen = 0
        self.mended, self.run = args.mended, run_of(args)
        self.random: torch.Tensor | None = None

    def state_dict(self) -> dict[str, Any]:
        """Called for a save, and for what a load is to fill."""
        state: dict[str, Any] = {
            "step": self.step,
            "ntokens_seen": self.ntokens_seen,
        }
        if self.mended:
            rank = dist.get_rank()
            state |= {
                "run": self.run,
                f"random-{rank}": torch.get_rng_state(),
            }
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ValueError for another run's."""
        if self.mended:
            if state["run"] != self.run:
                raise ValueError("the checkpoint belongs to another run")
            self.random = state[f"random-{dist.get_rank()}"]
        self.step = state["step"]
        self.ntokens_seen = state["ntokens_seen"]


def run_of(args: argparse.Namespace) -> str:
    """A digest of the seed and the data."""
    data = Samples().x.numpy().tobytes()
    return hashlib.sha256(data + str(args.seed).encode()).hexdigest()


def train(args: argparse.Namespace) -> None:
    """In the order of torchtitan.trainer.Trainer."""
    dist.init_process_group(
        "gloo", timeout=timedelta(seconds=args.timeout_seconds)
    )
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)  # as its set_determinism: alike on all ranks
    bare = Model()
    model = DistributedDataParallel(bare)
    if args.mended:
        torch.manual_seed(args.seed + rank)
    optimizers = OptimizersContainer.Config(
        param_groups=[
            ParamGroupConfig(
                pattern=".*",
                optimizer_name="AdamW",
                optimizer_kwargs={"lr": 1e-3},
            )
        ],
        implementation="for-loop",
    ).build(model_parts=[bare])
    schedulers = LRSchedulersContainer.Config(
        warmup_steps=4, min_lr_factor=0.1
    ).build(optimizers=optimizers, training_steps=args.steps)
    samples = Samples()
    numbers = Dataset.from_dict({"text": [str(i) for i in range(len(samples))]})
    DATASETS["samples"] = DatasetConfig(
        path="", loader=lambda _: numbers, sample_processor=partial(text_of)
    )
    loader = HuggingFaceTextDataLoader.Config(
        dataset="samples", num_workers=args.workers
    ).build(
        dp_world_size=ranks,
        dp_rank=rank,
        tokenizer=Numbers(),
        seq_len=1,
        local_batch_size=args.global_batch // ranks,
        snapshot_every_n_steps=args.save_every,
    )
    state = TrainState(args)
    checkpointer = CheckpointManager.Config(
        enable=True,
        interval=args.save_every,
        keep_latest_k=3,
        last_save_model_only=not args.mended,
    ).build(
        dataloader=loader,
        model_parts=[bare],
        optimizers=optimizers,
        lr_schedulers=schedulers,
        states={"train_state": state},
        sd_adapter=None,
        base_folder=str(args.run_dir),
    )
    told: list[int] = []
    if args.mended:
        signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
        check(args)
    checkpointer.load(step=-1)
    batches = iter(loader)
    while state.step < args.steps:
        state.step += 1
        optimizers.zero_grad()
        inputs, _ = next(batches)
        state.ntokens_seen += inputs["input"].numel()
        which = inputs["input"].flatten()
        if state.random is not None:
            torch.set_rng_state(state.random)
            state.random = None
        loss = model(samples.x[which], samples.labels[which])["loss"]
        loss.backward()
        checkpointer.maybe_wait_for_staging()
        for optimizer in optimizers:  # what optimizers.step() does
            optimizer.step()
        schedulers.step()
        leave = state.step == args.steps
        if args.mended:
            leave = leave or anyone(bool(told))
        saved = checkpointer.save(state.step, last_step=leave)
        if args.mended and saved and rank == 0:
            write_sums(args, state.step)
        if leave:
            break
    checkpointer.close()
    dist.destroy_process_group()
    if state.step < args.steps:
        sys.exit(128 + signal.SIGTERM)


def write_sums(args: argparse.Namespace, step: int) -> None:
    """Into a checkpoint that is whole."""
    folder = Path(args.run_dir, "checkpoint", f"step-{step}")
    (folder / SUMS).write_text(json.dumps(digests(folder, SUMS)))


def check(args: argparse.Namespace) -> None:
    """Refuse the newest checkpoint if it is damaged."""
    found = Path(args.run_dir, "checkpoint").glob(f"step-*/{SUMS}")
    for path in sorted(found, key=lambda p: int(p.parent.name[5:]))[-1:]:
        if json.loads(path.read_text()) != digests(path.parent, SUMS):
            raise ValueError(f"{path.parent} is damaged")


def text_of(document: dict[str, str]) -> str:
    """A document's."""
    return document["text"]


def main() -> None:
    """Begin a run, or go on with it."""
    train(arguments())


if __name__ == "__main__":
    main()
    os._exit(0)  # in the interpreter's shutdown gloo's threads may abort
