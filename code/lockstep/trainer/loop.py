"""The run, from its configuration to its last event."""

from typing import Any

import torch
from torch.utils.data import DataLoader

from . import checkpoint
from .config import TrainConfig, refuse, require_same
from .data import Samples, load_dataset, shares
from .model import DataParallel, build_model
from .precision import autocast, make_scaler
from .process import Process
from .step import Replica, learning_rate, mean, train_step
from .telemetry import emit, observers


def build(
    cfg: TrainConfig, me: Process, data: Samples, strategy: DataParallel
) -> Replica:
    """A replica as every launch begins with it. After its first backward pass
    DDP lays out its buckets anew, which changes the order of additions; one
    discarded pass makes all launches alike."""
    model = build_model(cfg, data.x.shape[1], int(data.y.max()) + 1)
    model = strategy.wrap(model, me.device)
    optimizer = torch.optim.AdamW(
        model.parameters(), weight_decay=cfg.weight_decay)
    with autocast(cfg.precision, me.device):
        loss = model.eval()(data.x[:1].to(me.device)).sum()
    loss.backward()
    optimizer.zero_grad()
    model.train()
    checkpoint.seed_rank(cfg.seed, me.rank)
    scaler = make_scaler(cfg.precision, me.device)
    return Replica(cfg, me, strategy, model, optimizer, scaler)


def evaluate(r: Replica, data: Samples) -> float:
    """Accuracy: every sample counted once, on one rank, without padding."""
    mine = slice(r.me.rank, None, r.me.world_size)
    x, y = data.x[mine].to(r.me.device), data.y[mine].to(r.me.device)
    with torch.no_grad(), autocast(r.cfg.precision, r.me.device):
        right = (r.model.eval()(x).argmax(1) == y).sum()
    return mean([right], len(data))


def run(
    cfg: TrainConfig, me: Process, attempt: int = 0,
    strategy: DataParallel | None = None,
    writer: checkpoint.Writer | None = None,
) -> dict[str, Any]:
    """Train to the end or to `stop_at_step`; returns the last event."""
    data, held_out = load_dataset(cfg)
    n, batch, limit = len(data), cfg.global_batch_size or 1, cfg.max_steps
    if batch > n:
        refuse("global_batch_size", batch, f"at most the {n} training samples")
    total = limit * batch if limit else (cfg.max_epochs or 1) * n
    steps = -(-total // batch)
    r = build(cfg, me, data, strategy or DataParallel())
    writer = writer or checkpoint.Writer()

    def state(step: int) -> dict[str, Any]:
        """What a checkpoint of `step` says, and must hold once loaded."""
        taken = {int(s["step"]) for s in r.optimizer.state.values()}
        return {
            "step": step, "position": min(step * batch, total),
            "learning_rate": learning_rate(cfg, step - 1, steps),
            "optimizer_steps": sorted(taken),
            "scaler": sorted(r.scaler.state_dict())}

    belongs = {
        "config": cfg.identity(), "config_digest": cfg.digest(),
        "global_batch_size": batch, "seed": cfg.seed, "dataset_length": n,
        "dataset_fingerprint": data.fingerprint}
    here = {"attempt": attempt, "world_size": me.world_size,
            "torch_version": torch.__version__}
    emit("run_started", steps=steps, **here, **belongs)
    step, loss = 0, 0.0
    if old := checkpoint.restore(r, belongs, writer):
        step, loss = old["step"], old["loss"]
        require_same(state(step), {name: old[name] for name in state(step)})
        names = "checkpoint", "attempt", "world_size", "loss"
        saved = {name: old[name] for name in names}
        emit("checkpoint_restored", **state(step), saved=saved)
    first, stop = step, min(steps, cfg.stop_at_step or steps)
    mine = shares(cfg, me, n, step * batch, total)
    # One loader to the end of the run. It draws from a generator of its own,
    # so that fetching data never moves the model's random state.
    source = iter(DataLoader(
        data, batch_size=None, sampler=mine, num_workers=cfg.num_workers,
        pin_memory=me.device.type == "cuda", generator=torch.Generator()))
    leaving = step >= stop
    while not leaving:
        count = min(batch, total - step * batch)
        r.optimizer.param_groups[0]["lr"] = learning_rate(cfg, step, steps)
        losses, ids = train_step(r, source, count, step + 1)
        step += 1
        for observer in observers:
            observer.committed(step, min(step * batch, total), ids)
        leaving = step == stop or any(o.wants_stop(step) for o in observers)
        saving = leaving or step % cfg.checkpoint_every_steps == 0
        if saving or step == first + 1 or step % cfg.log_every_steps == 0:
            loss = mean(losses, count)
            own = torch.stack(losses).sum().item() / max(1, len(ids))
            # Beside the global loss that of this share: a sick rank's differs.
            emit("step", loss=loss, share_loss=own, **state(step))
        if saving:
            manifest = {**state(step), **belongs, **here, "loss": loss}
            writer.save(r, manifest, leaving)
    return emit(
        "run_finished" if step >= stop else "run_stopped", step=step, loss=loss,
        position=min(step * batch, total), accuracy=evaluate(r, held_out),
        weights_sha256=checkpoint.weights_sha256(
            r.strategy.full_state(r.strategy.module)))
