"""The same training, mended where the documented way does not pass.

- A seedable sampler, told each epoch's number, instead of the default one.
- A generator of the loader's own, so that making an iterator draws nothing from
  the one that a checkpoint restores.
- Another random state on each rank.
- Batches that are split, so that the schedule does not depend on the ranks.
- Checkpoints that are sealed, and say to which run they belong.
- SIGTERM as a trigger.
"""

import hashlib
import signal
from datetime import timedelta

import torch
from accelerate import Accelerator
from accelerate.utils import (
    DataLoaderConfiguration,
    InitProcessGroupKwargs,
    set_seed,
)
from sealed import load, save
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from train import WARMUP, arguments

from lockstep.exam.task import Model, Samples


def main() -> None:
    """Train to the end, or to the step at which to stop."""
    args = arguments()
    timeout = timedelta(seconds=args.timeout_seconds)
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),
        mixed_precision="fp16" if args.precision == "fp16" else "no",
        kwargs_handlers=[InitProcessGroupKwargs(timeout=timeout)],
        dataloader_config=DataLoaderConfiguration(
            split_batches=True,
            use_seedable_sampler=True,
            data_seed=args.seed,
        ),
    )

    def told(*_: object) -> None:
        accelerator.set_trigger()
        signal.alarm(args.timeout_seconds)  # the end, if no step ends any more

    signal.signal(signal.SIGTERM, told)
    set_seed(args.seed, device_specific=True)
    samples = Samples()
    loader = DataLoader(
        samples,
        batch_size=args.global_batch,
        shuffle=True,
        num_workers=args.workers,
        generator=torch.Generator(),
    )
    model = Model()
    optimizer = AdamW(model.parameters(), lr=1e-3)
    scheduler = LambdaLR(
        optimizer,
        lambda k: min(
            (k + 1) / WARMUP, (args.steps - k) / (args.steps - WARMUP)
        ),
    )
    model, optimizer, loader, scheduler = accelerator.prepare(
        model, optimizer, loader, scheduler
    )
    root = args.run_dir / "checkpoints"
    data = hashlib.sha256(samples.x.numpy().tobytes()).hexdigest()
    run = f"seed {args.seed}, {args.steps} steps, data {data}"
    step = load(accelerator, root, run)
    last = args.stop_at or args.steps
    model.train()
    while step < last:
        epoch, done = divmod(step, len(loader))
        loader.set_epoch(epoch)
        rest = accelerator.skip_first_batches(loader, done) if done else loader
        for batch in rest:
            accelerator.backward(model(**batch)["loss"])
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            step += 1
            if accelerator.check_trigger():
                signal.alarm(0)
                last = step
            if step % args.save_every == 0 or step == last:
                save(accelerator, root, step, run)
            if step == last:
                break
    accelerator.end_training()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
