"""An Accelerate loop that passes the exam of resume.

    torchrun --standalone --nproc-per-node=2 \\
        -m lockstep.examples.accelerate_loop --run-dir runs/accelerate

Accelerate wraps model and optimizer; order, checkpoints and guards are ours.
The loader is not prepared, since it already holds this rank's share.
"""

import sys

# --8<-- [start:loop]
import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from torch.utils.data import DataLoader

from lockstep.exam.task import Model, Samples
from lockstep.examples.settings import Settings, about, read, settle
from lockstep.pieces import Batches, Stateful, attached


def train(s: Settings) -> int:
    """From wherever the run in `s.run_dir` is to its end; the exit code."""
    group = InitProcessGroupKwargs(backend="gloo", timeout=s.timeout)
    accelerator = Accelerator(cpu=True, kwargs_handlers=[group])
    torch.manual_seed(s.seed)
    data, model = Samples(), Model()  # or yours, with observe(model)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, s.rate)
    wrapped, prepared = accelerator.prepare(model, optimizer)
    settle(wrapped, data)
    # Each rank its own dropout.
    torch.manual_seed(s.seed * 1000 + accelerator.process_index)
    parts: dict[str, Stateful] = {
        "model": model,
        "optimizer": optimizer,
        "scheduler": scheduler,
    }
    run_is = s.run_dir, parts, about(s, data), len(data), s.seed, s.seconds
    with attached(*run_is) as run:
        step = run.restore()
        batches = Batches(len(data), s.seed, s.batch, step, s.end)
        loader = DataLoader(
            data, batch_sampler=batches, num_workers=s.workers,
            generator=torch.Generator(),  # the default one is for dropout
        )  # fmt: skip
        for ids, batch in zip(batches, loader, strict=True):
            loss = wrapped(**batch)["loss"]
            accelerator.backward(loss)
            rate = float(scheduler.get_last_lr()[0])
            prepared.step()
            prepared.zero_grad()
            scheduler.step()
            step += 1
            at = step * s.batch
            leave = run.committed(step, at, ids, rate, loss.item())
            if leave or s.saves(step):
                run.save()
            if leave:
                return 75  # launch again
        if step == s.steps:
            run.finished()
    return 0


# --8<-- [end:loop]
def main() -> int:
    """Train as the command line says; return the exit code."""
    return train(read())


if __name__ == "__main__":
    sys.exit(main())
