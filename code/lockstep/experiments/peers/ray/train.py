"""The exam's task on Ray Train, as its user guides resume a run."""

import hashlib
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ray
import ray.train
import ray.train.torch
import torch
from ray.train import (
    Checkpoint,
    CheckpointConfig,
    CheckpointConsistencyMode,
)
from torch import Tensor
from torch.multiprocessing import get_context
from torch.utils.data import DataLoader, DistributedSampler

from lockstep.exam.task import Model, Samples
from lockstep.experiments.peers.launching import arguments
from lockstep.experiments.peers.repairs import anyone, digests

WARM_UP = 4  # steps


def train(cfg: dict[str, Any]) -> None:
    """What each worker does."""
    context = ray.train.get_context()
    rank, mended = context.get_world_rank(), cfg["mended"]
    ray.train.torch.enable_reproducibility(cfg["seed"])
    model = ray.train.torch.prepare_model(Model())
    if mended:  # from here on each rank draws its own dropout
        torch.manual_seed(cfg["seed"] + rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: rate(step, cfg["steps"])
    )
    fp16 = cfg["precision"] == "fp16"
    scaler = torch.amp.GradScaler("cpu", enabled=fp16)
    loader = make_loader(cfg, context.get_world_size())
    parts = {
        "model": getattr(model, "module", model),
        "optimizer": optimizer,
        "schedule": schedule,
        "scaler": scaler,
    }

    step, random = 0, None
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            if mended:
                check(Path(folder), cfg)
            extra = torch.load(Path(folder, "extra_state.pt"))
            step = extra["step"]
            for name, part in parts.items():
                part.load_state_dict(torch.load(Path(folder, f"{name}.pt")))
            path = Path(folder, f"random-{rank}.pt")
            if mended and path.exists():
                random = torch.load(path)
    batches = batches_from(loader, step)
    while step < (cfg["stop_at"] or cfg["steps"]):
        batch = next(batches)
        if random is not None:
            torch.set_rng_state(random)
            random = None
        with torch.autocast("cpu", torch.float16, enabled=fp16):
            loss = model(batch["x"], batch["labels"])["loss"]
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= before:  # the step was not skipped
            schedule.step()
        step += 1
        told = ray.train.get_preemption_info() is not None
        leave = mended and stop_file(cfg).exists()
        if mended:
            leave = anyone(leave)
        last = step in (cfg["stop_at"], cfg["steps"])
        if step % cfg["save_every"] == 0 or last or told or leave:
            save(parts, step, cfg, loss.item())
        if leave:
            return


def rate(step: int, steps: int) -> float:
    """Up in a few steps, then down to the end."""
    return min((step + 1) / WARM_UP, 1 - step / (steps + 1))


def make_loader(cfg: dict[str, Any], world: int) -> DataLoader:
    """Shuffled, and shared among the workers by Ray Train."""
    data = Samples()
    more: dict[str, Any] = {"shuffle": True}
    if cfg["workers"]:
        more |= {
            "num_workers": cfg["workers"],
            "multiprocessing_context": get_context("forkserver"),
        }
    if cfg["mended"]:
        sampler = DistributedSampler(data, seed=cfg["seed"])
        # Neither padded nor cut: ranks may differ by one sample.
        sampler.total_size = len(data)
        sampler.num_samples = len(range(sampler.rank, len(data), world))
        more |= {"sampler": sampler, "shuffle": False}
        # Else each iterator draws from dropout's.
        more |= {"generator": torch.Generator()}
    loader = DataLoader(data, batch_size=cfg["global_batch"] // world, **more)
    return ray.train.torch.prepare_data_loader(loader)


def batches_from(loader: DataLoader, step: int) -> Iterator[dict[str, Tensor]]:
    """Epoch after epoch, without those of the first `step` steps."""
    epoch, skip = divmod(step, len(loader))
    while True:
        if isinstance(loader.sampler, DistributedSampler):
            loader.sampler.set_epoch(epoch)
        for k, batch in enumerate(loader):
            if k >= skip:
                yield batch
        epoch, skip = epoch + 1, 0


def save(
    parts: dict[str, Any], step: int, cfg: dict[str, Any], loss: float
) -> None:
    """Report a checkpoint: rank 0's files, and when mended one of each."""
    rank, mended = ray.train.get_context().get_world_rank(), cfg["mended"]
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if mended:
            torch.save(torch.get_rng_state(), Path(folder, f"random-{rank}.pt"))
        if rank == 0:
            for name, part in parts.items():
                torch.save(part.state_dict(), Path(folder, f"{name}.pt"))
            extra = {"step": step}
            torch.save(extra, Path(folder, "extra_state.pt"))
        if rank == 0 or mended:
            checkpoint = Checkpoint.from_directory(folder)
        if mended:
            sums = digests(Path(folder)) | {"run": run_of(cfg)}
            torch.save(sums, Path(folder, f"sums-{rank}.pt"))
        ray.train.report({"step": step, "loss": loss}, checkpoint=checkpoint)
        if mended:  # until then a worker that dies takes it along
            ray.train.get_all_reported_checkpoints(
                consistency_mode=CheckpointConsistencyMode.COMMITTED
            )


def check(folder: Path, cfg: dict[str, Any]) -> None:
    """Refuse a checkpoint that is damaged, or another run's."""
    for path in sorted(folder.glob("sums-*.pt")):
        sums = torch.load(path)
        if sums.pop("run") != run_of(cfg):
            raise ValueError(f"{folder} belongs to another run")
        for name, was in sums.items():
            data = (folder / name).read_bytes()
            if hashlib.sha256(data).hexdigest() != was:
                raise ValueError(f"{folder / name} is damaged")


def run_of(cfg: dict[str, Any]) -> str:
    """A digest of the seed and the data."""
    data = Samples().x.numpy().tobytes()
    return hashlib.sha256(data + str(cfg["seed"]).encode()).hexdigest()


def stop_file(cfg: dict[str, Any]) -> Path:
    """By which the driver tells the workers to save and leave."""
    return Path(cfg["run_dir"], "stop")


def tell_workers_of_sigterm(cfg: dict[str, Any]) -> None:
    """At once: a handler in Python would wait until Ray's code returns."""
    stop_file(cfg).unlink(missing_ok=True)
    receive, send = os.pipe()
    os.set_blocking(send, False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.set_wakeup_fd(send)

    def wait() -> None:
        while signal.SIGTERM not in os.read(receive, 1):
            pass
        stop_file(cfg).touch()

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    """Begin a run, or go on with it."""
    cfg = vars(arguments())

    if cfg["mended"]:  # get_preemption_info and report would wait for ever
        os.environ["RAY_TRAIN_COLLECTIVE_TIMEOUT_S"] = str(
            cfg["timeout_seconds"]
        )
    ray.init(num_cpus=cfg["ranks"])
    if cfg["mended"]:
        tell_workers_of_sigterm(cfg)
    ray.train.torch.TorchTrainer(
        train,
        train_loop_config=cfg,
        scaling_config=ray.train.ScalingConfig(num_workers=cfg["ranks"]),
        torch_config=ray.train.torch.TorchConfig(
            timeout_s=cfg["timeout_seconds"]
        ),
        run_config=ray.train.RunConfig(
            storage_path=str(cfg["run_dir"]),
            name="run",
            checkpoint_config=CheckpointConfig(num_to_keep=3),
        ),
    ).fit()
    if stop_file(cfg).exists():
        sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    main()
