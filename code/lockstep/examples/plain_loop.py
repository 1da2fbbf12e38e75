"""A plain training loop that passes the exam of resume.

    torchrun --standalone --nproc-per-node=2 -m lockstep.examples.plain_loop \\
        --run-dir runs/plain --steps 100
"""

import sys

# --8<-- [start:loop]
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

from lockstep.exam.observe import observe
from lockstep.exam.task import Model, Samples
from lockstep.examples.settings import Settings, about, read, settle
from lockstep.pieces import Batches, Stateful, attached


def train(s: Settings) -> int:
    """From wherever the run in `s.run_dir` is to its end; the exit code."""
    dist.init_process_group("gloo", timeout=s.timeout)
    torch.manual_seed(s.seed)
    data, model = Samples(), Model()  # or yours
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    observe(model, ema=ema)  # for the exam
    ddp = DistributedDataParallel(model)
    settle(ddp, data)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, s.rate)
    scaler = torch.amp.GradScaler("cpu", enabled=s.fp16)
    # Each rank its own dropout.
    torch.manual_seed(s.seed * 1000 + dist.get_rank())
    parts: dict[str, Stateful] = {
        "model": model, "optimizer": optimizer, "scheduler": scheduler,
        "scaler": scaler, "ema": ema,
    }  # fmt: skip
    run_is = s.run_dir, parts, about(s, data), len(data), s.seed, s.seconds
    with attached(*run_is) as run:
        step = run.restore()
        # The step alone determines the next samples.
        batches = Batches(len(data), s.seed, s.batch, step, s.end)
        loader = DataLoader(
            data, batch_sampler=batches, num_workers=s.workers,
            generator=torch.Generator(),  # the default one is for dropout
        )  # fmt: skip
        for ids, batch in zip(batches, loader, strict=True):
            micros, loss = s.cut(batch), torch.zeros(())
            for micro in micros:
                ddp.require_backward_grad_sync = micro is micros[-1]
                with torch.autocast("cpu", torch.float16, s.fp16):
                    mean = ddp(**micro)["loss"] * (len(micro["x"]) / len(ids))
                scaler.scale(mean).backward()
                loss += mean.detach()
            rate = float(scheduler.get_last_lr()[0])
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            scheduler.step()
            ema.update_parameters(model)
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
