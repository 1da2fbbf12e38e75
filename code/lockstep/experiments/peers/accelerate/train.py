"""The exam's model trained with Accelerate, resumed as its guide says.

Checkpoints are named and kept by `ProjectConfiguration`, the position is a
registered object, and the rest of an epoch comes from `skip_first_batches`.
"""

from datetime import timedelta

import torch
from accelerate import Accelerator
from accelerate.utils import (
    InitProcessGroupKwargs,
    ProjectConfiguration,
    set_seed,
)
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader

from lockstep.exam.task import Model, Samples
from lockstep.experiments.peers.launching import arguments

WARMUP = 4  # steps


class Progress:
    """How far training has come; saved with everything else."""

    def __init__(self) -> None:
        self.step = self.saves = 0

    def state_dict(self) -> dict[str, int]:
        """What a checkpoint keeps of it."""
        return {"step": self.step, "saves": self.saves}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from there."""
        self.step, self.saves = state["step"], state["saves"]


def main() -> None:
    """Train to the end, or to the step at which to stop."""
    args = arguments()
    timeout = timedelta(seconds=args.timeout_seconds)
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),
        mixed_precision="fp16" if args.precision == "fp16" else "no",
        kwargs_handlers=[InitProcessGroupKwargs(timeout=timeout)],
        project_config=ProjectConfiguration(
            project_dir=str(args.run_dir),
            automatic_checkpoint_naming=True,
            total_limit=2,
        ),
    )
    set_seed(args.seed)
    ranks = accelerator.num_processes
    loader = DataLoader(
        Samples(),
        batch_size=args.global_batch // ranks,
        shuffle=True,
        num_workers=args.workers,
    )
    model = Model()
    optimizer = AdamW(model.parameters(), lr=1e-3)
    # A prepared scheduler steps once for each process.
    total, warmup = args.steps * ranks, WARMUP * ranks
    scheduler = LambdaLR(
        optimizer,
        lambda k: min((k + 1) / warmup, (total - k) / (total - warmup)),
    )
    model, optimizer, loader, scheduler = accelerator.prepare(
        model, optimizer, loader, scheduler
    )
    progress = Progress()
    accelerator.register_for_checkpointing(progress)
    if any(args.run_dir.glob("checkpoints/checkpoint_*")):
        accelerator.load_state()
        accelerator.project_configuration.iteration = progress.saves
    last = args.stop_at or args.steps
    model.train()
    while progress.step < last:
        done = progress.step % len(loader)
        rest = accelerator.skip_first_batches(loader, done) if done else loader
        for batch in rest:
            accelerator.backward(model(**batch)["loss"])
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            progress.step += 1
            if progress.step % args.save_every == 0 or progress.step == last:
                progress.saves += 1
                accelerator.save_state()
            if progress.step == last:
                break
    accelerator.end_training()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
