"""The run, from its configuration to its last event."""

from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from . import checkpoint
from .config import TrainConfig, refuse, require_same
from .data import shares
from .model import DataParallel, Task, make_task
from .precision import autocast, make_scaler
from .process import Process
from .step import Replica, learning_rate, mean, train_step
from .telemetry import emit, observers


def build(cfg: TrainConfig, me: Process, task: Task,
          strategy: DataParallel) -> Replica:
    """Build the replica that every launch begins with. After its first backward
    pass DDP rearranges its buckets, which changes the order of additions; one
    discarded pass makes this order the same in all launches."""
    model = strategy.wrap(task.model, me.device)
    optimizer = torch.optim.AdamW(
        model.parameters(), weight_decay=cfg.weight_decay)
    _, x, y = task.data[np.zeros((2, 1), np.int64)]
    with autocast(cfg.precision, me.device):
        loss = task.loss(model.eval()(x.to(me.device)), y.to(me.device))
    loss.backward()
    optimizer.zero_grad()
    model.train()
    checkpoint.seed_rank(cfg.seed, me.rank)
    scaler = make_scaler(cfg.precision, me.device)
    return Replica(cfg, me, task, strategy, model, optimizer, scaler)


def evaluate(r: Replica) -> dict[str, float]:
    """Return the task's metrics. Every sample counts once, on one rank, without
    padding; all ranks run the same number of micro-batches."""
    data, n, world = r.task.held_out, len(r.task.held_out), r.me.world_size
    mine, sums = np.arange(r.me.rank, n, world), []
    for ids in np.array_split(mine, -(-n // (world * r.cfg.micro_batch_size))):
        _, x, y = data[np.stack([0 * ids, ids])]
        with torch.no_grad(), autocast(r.cfg.precision, r.me.device):
            out, y = r.model.eval()(x.to(r.me.device)), y.to(r.me.device)
            sums.append({k: of(out, y) for k, of in r.task.metrics.items()})
    return {k: mean([one[k] for one in sums], n) for k in r.task.metrics}


def length(cfg: TrainConfig, n: int) -> tuple[int, int, int]:
    """Return samples per step, total samples, and steps over `n` samples."""
    batch, limit = cfg.global_batch_size or 1, cfg.max_steps
    if batch > n:
        refuse("global_batch_size", batch, f"at most the {n} training samples")
    total = limit * batch if limit else (cfg.max_epochs or 1) * n
    return batch, total, -(-total // batch)


def state(r: Replica, step: int, position: int, steps: int) -> dict[str, Any]:
    """Return values that a checkpoint of `step` saves and a restore checks."""
    taken = {int(s["step"]) for s in r.optimizer.state.values()}
    return {"step": step, "position": position,
            "learning_rate": learning_rate(r.cfg, step - 1, steps),
            "optimizer_steps": sorted(taken),
            "scaler": sorted(r.scaler.state_dict())}


def run(cfg: TrainConfig, me: Process, attempt: int = 0,
        strategy: DataParallel | None = None,
        writer: checkpoint.Writer | None = None) -> dict[str, Any]:
    """Train to the end or to `stop_at_step`; return the last event."""
    task, writer = make_task(cfg), writer or checkpoint.Writer()
    n = len(task.data)
    batch, total, steps = length(cfg, n)
    r = build(cfg, me, task, strategy or DataParallel())
    belongs = {
        "config": cfg.identity(), "config_digest": cfg.digest(),
        "global_batch_size": batch, "seed": cfg.seed, "dataset_length": n,
        "dataset_fingerprint": task.data.fingerprint}
    here = {"attempt": attempt, "world_size": me.world_size,
            "torch_version": torch.__version__}
    emit("run_started", steps=steps, **here, **belongs)
    step, loss, position = 0, 0.0, 0
    if old := checkpoint.restore(r, belongs, writer):
        step, loss, position = old["step"], old["loss"], old["position"]
        now = state(r, step, min(step * batch, total), steps)
        require_same(now, {name: old[name] for name in now})
        names = "checkpoint", "attempt", "world_size", "loss"
        saved = {name: old[name] for name in names}
        emit("checkpoint_restored", **now, saved=saved)
    first, stop = step, min(steps, cfg.stop_at_step or steps)
    # One loader to the end of the run. It draws from its own generator, so
    # that fetching data never advances the model's RNG state.
    source = iter(DataLoader(
        task.data, batch_size=None, sampler=shares(cfg, me, n, position, total),
        num_workers=cfg.num_workers, pin_memory=me.device.type == "cuda",
        generator=torch.Generator()))
    leaving = step >= stop
    while not leaving:
        count = min(batch, total - position)
        r.optimizer.param_groups[0]["lr"] = learning_rate(cfg, step, steps)
        losses, ids = train_step(r, source, count, step + 1)
        step, position = step + 1, position + count
        for observer in observers:
            observer.committed(step, position, ids)
        leaving = step == stop or any(o.wants_stop(step) for o in observers)
        saving = leaving or step % cfg.checkpoint_every_steps == 0
        if saving or step == first + 1 or step % cfg.log_every_steps == 0:
            loss = mean(losses, count)
            own = torch.stack(losses).sum().item() / max(1, len(ids))
            now = state(r, step, position, steps)
            # Also this share's own loss, which differs on a sick rank.
            emit("step", loss=loss, share_loss=own, **now)
        if saving:
            writer.save(r, {**now, **belongs, **here, "loss": loss}, leaving)
    weights = r.strategy.full_state(r.strategy.module)
    return emit("run_finished" if step >= stop else "run_stopped", step=step,
                **{"loss": loss, "position": position} | evaluate(r),
                weights_sha256=checkpoint.weights_sha256(weights))
