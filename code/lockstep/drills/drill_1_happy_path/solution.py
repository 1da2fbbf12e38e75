"""Drill 1, the happy path: one process trains, and its log says how it goes.

    python drill_1.py --run-dir DIR
"""
# 1. Config: what the run is.  --8<-- [start:config]
import argparse, json, math, time
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

@dataclass(frozen=True)
class TrainConfig:
    run_dir: Path = Path("runs/cut")
    seed: int = 0
    global_batch_size: int = 64
    max_steps: int = 200
    learning_rate: float = 3e-3
    warmup_steps: int = 20
    clip_norm: float = 1.0
    dropout: float = 0.1
# --8<-- [end:config]
# 2. Data and sampler.  --8<-- [start:data]
def toy(n=4000, held_out=1000):
    """Return (ids, x, y), labeled by a linear teacher that can be learned."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(n + held_out, 32, generator=rng)
    y = (x @ torch.randn(32, 4, generator=rng)).argmax(1)
    return TensorDataset(torch.arange(n), x[:n], y[:n]), (x[n:], y[n:])

def sampler(cfg, n):
    """The ids of each step; a batch may begin in one epoch, end in the next."""
    batch = cfg.global_batch_size
    for at in range(0, cfg.max_steps * batch, batch):
        epochs, index = np.divmod(np.arange(at, at + batch), n)
        ids = []
        for epoch in np.unique(epochs):
            order = np.random.default_rng([cfg.seed, epoch]).permutation(n)
            ids.append(order[index[epochs == epoch]])
        yield np.concatenate(ids)
# --8<-- [end:data]
# 3. Model and optimizer.  --8<-- [start:model]
def build(cfg):
    torch.manual_seed(cfg.seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(),
                          nn.Dropout(cfg.dropout), nn.Linear(64, 4))
    return model, torch.optim.AdamW(model.parameters())

def learning_rate(cfg, step):  # no scheduler to save
    warm = min(1.0, (step + 1) / (cfg.warmup_steps + 1))
    cosine = math.cos(math.pi * step / cfg.max_steps)
    return cfg.learning_rate * warm * (0.55 + 0.45 * cosine)
# --8<-- [end:model]
# 4. One optimizer step.  --8<-- [start:step]
def train_step(r, source):
    _, x, y = next(source)
    loss = nn.functional.cross_entropy(r.model(x), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(r.model.parameters(), r.cfg.clip_norm)
    if not math.isfinite(norm.item()):
        raise FloatingPointError(f"gradient norm {norm.item()}")
    r.optimizer.step()
    r.optimizer.zero_grad()
    return loss.detach()
# --8<-- [end:step]
# 5. Metrics.  --8<-- [start:metrics]
class Log:
    def __init__(self, run_dir):
        self.events = (run_dir / "events" / "log.jsonl").open("a", 1)

    def emit(self, event, **what):
        record = {"event": event, "time": time.time(), **what}
        self.events.write(json.dumps(record) + "\n")
        return record

def evaluate(r, x, y):
    with torch.no_grad():
        answers = r.model.eval()(x).argmax(1)
    return (answers == y).sum().item() / len(y)
# --8<-- [end:metrics]
# 6. Launch.  --8<-- [start:launch]
def train(cfg):
    (cfg.run_dir / "events").mkdir(parents=True, exist_ok=True)
    log = Log(cfg.run_dir)
    data, held_out = toy()
    n, batch = len(data), cfg.global_batch_size
    model, optimizer = build(cfg)
    r = SimpleNamespace(cfg=cfg, log=log, model=model, optimizer=optimizer)
    log.emit("run_started", steps=cfg.max_steps, seed=cfg.seed,
             dataset_length=n, order="permutation")
    source = map(data.__getitem__, sampler(cfg, n))
    step = 0
    while step < cfg.max_steps:
        optimizer.param_groups[0]["lr"] = rate = learning_rate(cfg, step)
        step += 1
        loss = train_step(r, source).item()
        log.emit("step", step=step, position=step * batch, loss=loss,
                 learning_rate=rate)
    return log.emit("run_finished", step=step, position=step * batch, loss=loss,
                    accuracy=evaluate(r, *held_out))

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for f in fields(TrainConfig):
        flag = "--" + f.name.replace("_", "-")
        parser.add_argument(flag, type=f.type, default=f.default)
    last = train(TrainConfig(**vars(parser.parse_args())))
    print(json.dumps(last), flush=True)
# --8<-- [end:launch]
