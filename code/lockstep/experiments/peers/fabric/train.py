"""A loop on Lightning Fabric, resumed as its documentation says."""

import os
from datetime import timedelta
from pathlib import Path

import lightning as L
import mends
import torch
from lightning.fabric.plugins import MixedPrecision
from lightning.fabric.strategies import DDPStrategy
from torchdata.stateful_dataloader import StatefulDataLoader

from lockstep.exam.task import Model, Samples
from lockstep.experiments.peers.launching import arguments

WARMUP = 4  # steps
KEPT = 2  # checkpoints
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def checkpoints(folder: Path) -> list[Path]:
    """Oldest first."""
    return sorted(folder.glob("step-*.ckpt"))


def main() -> None:
    """Go on from the newest checkpoint, or begin."""
    args = arguments()
    # `precision="16-mixed"` alone becomes bf16 on a CPU.
    mixed = MixedPrecision("16-mixed", DEVICE)
    fabric = L.Fabric(
        accelerator=DEVICE,
        devices=args.ranks,
        strategy=DDPStrategy(timeout=timedelta(seconds=args.timeout_seconds)),
        plugins=[mixed] if args.precision == "fp16" else [],
    )
    fabric.launch()
    fabric.seed_everything(args.seed)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = fabric.setup(model, optimizer)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda k: min((k + 1) / WARMUP, 1 - k / (args.steps + 1)),
    )
    state = {
        "model": model,
        "optimizer": optimizer,
        "schedule": schedule,
        "step": 0,
    }
    if args.mended:
        loader = mends.add(fabric, state, args, mixed.scaler)
    else:
        loader = fabric.setup_dataloaders(
            StatefulDataLoader(
                Samples(),
                batch_size=args.global_batch // args.ranks,
                shuffle=True,
                num_workers=args.workers,
            )
        )
        state["loader"] = loader
    folder = args.run_dir / "checkpoints"
    if found := checkpoints(folder):
        load = mends.load if args.mended else L.Fabric.load
        load(fabric, found[-1], state)
    while state["step"] < args.steps:
        for batch in loader:
            loss = model(**batch)["loss"]
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            state["step"] += 1
            stop = state["step"] == args.stop_at
            if stop or state["step"] % args.save_every == 0:
                fabric.save(folder / f"step-{state['step']:06}.ckpt", state)
                if fabric.is_global_zero:
                    for old in checkpoints(folder)[:-KEPT]:
                        old.unlink()
            if stop:
                return
            if state["step"] == args.steps:
                break


if __name__ == "__main__":
    main()
    os._exit(0)  # in the interpreter's shutdown gloo's threads may abort
