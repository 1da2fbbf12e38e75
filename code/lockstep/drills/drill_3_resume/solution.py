"""Drill 3, resume after failure: one command starts the run and goes on.

    torchrun --standalone --nproc-per-node=2 drill_3.py --run-dir DIR
"""
# 1. Config: what the run is.  --8<-- [start:config]
import argparse, hashlib, json, math, os, shutil, sys, time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import distributed as dist, nn
from torch.utils.data import TensorDataset

OF_A_LAUNCH = ("run_dir", "micro_batch_size", "stop_at_step",
               "checkpoint_every_steps")

@dataclass(frozen=True)
class TrainConfig:
    run_dir: Path = Path("runs/cut")
    seed: int = 0
    global_batch_size: int = 64  # the same at every world size
    micro_batch_size: int = 16
    max_steps: int = 200
    learning_rate: float = 3e-3
    warmup_steps: int = 20
    clip_norm: float = 1.0
    dropout: float = 0.1
    checkpoint_every_steps: int = 50
    stop_at_step: int = 0  # 0: run to the end

    def grad_accum_steps(self, world):
        batch, share = self.global_batch_size, self.micro_batch_size * world
        if share < 1 or batch < share or batch % share:
            sys.exit(f"--global-batch-size {batch} must be a multiple of"
                     f" --micro-batch-size x {world} ranks, here {share}")
        return batch // share

    def identity(self):  # the settings that decide training
        return {k: v for k, v in asdict(self).items() if k not in OF_A_LAUNCH}
# --8<-- [end:config]
# 2. Data and sampler.  --8<-- [start:data]
def toy(n=4000, held_out=1000):
    """Return (ids, x, y), labeled by a linear teacher that can be learned."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(n + held_out, 32, generator=rng)
    y = (x @ torch.randn(32, 4, generator=rng)).argmax(1)
    return TensorDataset(torch.arange(n), x[:n], y[:n]), (x[n:], y[n:])

def sampler(cfg, rank, world, n, position):
    """Yield this rank's micro-batches. The only state is `position`: samples
    is done."""
    batch, accum = cfg.global_batch_size, cfg.grad_accum_steps(world)
    for at in range(position, cfg.max_steps * batch, batch):
        epochs, index = np.divmod(np.arange(at, at + batch), n)
        ids = []
        for epoch in np.unique(epochs):  # Cut: an order in O(1) memory.
            order = np.random.default_rng([cfg.seed, epoch]).permutation(n)
            ids.append(order[index[epochs == epoch]])
        mine = np.concatenate(ids)[rank::world]  # nothing padded or dropped
        yield from np.split(mine, accum)
# --8<-- [end:data]
# 3. Model and optimizer.  --8<-- [start:model]
def build(cfg):  # one seed, so equal on every rank
    torch.manual_seed(cfg.seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(),
                          nn.Dropout(cfg.dropout), nn.Linear(64, 4))
    return model, torch.optim.AdamW(model.parameters())

def learning_rate(cfg, step):  # no scheduler to save
    warm = min(1.0, (step + 1) / (cfg.warmup_steps + 1))
    cosine = math.cos(math.pi * step / cfg.max_steps)
    return cfg.learning_rate * warm * (0.55 + 0.45 * cosine)
# --8<-- [end:model]
# 4. Ranks.  --8<-- [start:ranks]
def join(**where):  # from torchrun: one process, one device, one rank
    gpu = torch.cuda.is_available()
    local = int(os.environ["LOCAL_RANK"])  # on this node; the rank is global
    device = torch.device("cuda", local) if gpu else torch.device("cpu")
    if gpu: torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if gpu else "gloo", **where)
    return dist.get_rank(), dist.get_world_size(), device

def on_rank0(decide):  # all get rank 0's answer
    box = [decide() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box, device=torch.device("cpu"))
    return box[0]

def wrap(model, device):  # DDP averages gradients only
    ddp = nn.parallel.DistributedDataParallel(model.to(device))
    # After its first backward pass DDP regroups its buckets, which changes the
    # order of additions. Waste that pass, and a resume is bitwise equal.
    ddp.eval()(torch.zeros(1, 32, device=device)).sum().backward()
    ddp.zero_grad()
    return ddp.train()
# --8<-- [end:ranks]
# 5. One optimizer step.  --8<-- [start:step]
def train_step(r, source):
    total, ids, batch = 0, [], r.cfg.global_batch_size
    accum = r.cfg.grad_accum_steps(r.world)
    for micro in range(accum):
        last = micro == accum - 1
        own, x, y = next(source)
        x, y = x.to(r.device), y.to(r.device)
        with nullcontext() if last else r.ddp.no_sync():
            loss = nn.functional.cross_entropy(r.ddp(x), y, reduction="sum")
            # Sum over the global count, not a mean of means; DDP divides by the
            # world size.
            (loss * r.world / batch).backward()
        total += loss.detach()
        ids.append(own)
    norm = nn.utils.clip_grad_norm_(r.ddp.parameters(), r.cfg.clip_norm)
    # The only value the host reads; equal on all ranks, so they agree.
    if not math.isfinite(norm.item()):
        raise FloatingPointError(f"gradient norm {norm.item()}")
    r.optimizer.step()
    r.optimizer.zero_grad()
    return total, torch.cat(ids)
# --8<-- [end:step]
# 6. Checkpoint: whole, or not there.  --8<-- [start:checkpoint]
def save(r, state):
    root = r.cfg.run_dir / "checkpoints"
    tmp, final = root / "tmp", root / f"step-{state['step']:08d}"
    on_rank0(lambda: shutil.rmtree(tmp, ignore_errors=True) or tmp.mkdir())
    gpu = r.device.type == "cuda"  # Cut: Python's and NumPy's generators.
    rng = torch.get_rng_state(), gpu and torch.cuda.get_rng_state()
    once = r.parts if r.rank == 0 else {}  # replicas are equal, RNGs differ
    parts = {name: part.state_dict() for name, part in once.items()}
    torch.save({"state": state, "rng": rng, **parts}, tmp / f"rank-{r.rank}.pt")
    os.sync()  # the sample record must reach the disk, too
    dist.barrier()
    on_rank0(lambda: tmp.rename(final) and os.sync())

def restore(r):
    """Return step and loss of the newest checkpoint, which rank 0 picks."""
    saves = r.cfg.run_dir.glob("checkpoints/step-*")
    path = on_rank0(lambda: max(saves, default=None))
    if path is None: return 0, 0.0
    saved = torch.load(path / "rank-0.pt", "cpu", weights_only=True)
    state = saved["state"]
    for name, was in state["config"].items():
        if (now := getattr(r.cfg, name)) != was:
            sys.exit(f"--{name.replace('_', '-')} is {now}; the run has {was}")
    for name, part in r.parts.items():
        part.load_state_dict(saved[name])
    if state["world_size"] == r.world:
        own = torch.load(path / f"rank-{r.rank}.pt", "cpu", weights_only=True)
        torch.set_rng_state(own["rng"][0])
        if r.device.type == "cuda": torch.cuda.set_rng_state(own["rng"][1])
    r.log.emit("checkpoint_restored", **state, saved=state)
    return state["step"], state["loss"]
# --8<-- [end:checkpoint]
# 7. Metrics: every rank logs.  --8<-- [start:metrics]
class Log:
    def __init__(self, run_dir, rank, attempt):
        name = f"attempt-{attempt}-rank-{rank}"
        self.events = (run_dir / "events" / f"{name}.jsonl").open("a", 1)
        self.samples = (run_dir / "samples" / f"{name}.bin").open("ab", 0)
        self.who = {"rank": rank, "attempt": attempt}

    def emit(self, event, **what):
        record = {"event": event, "time": time.time(), **what, **self.who}
        self.events.write(json.dumps(record) + "\n")
        return record

    def trained_on(self, step, position, ids):
        head = int.from_bytes(b"LOCKSTEP"), self.who["attempt"], step, position
        self.samples.write(np.concatenate([head, [len(ids)], ids]).tobytes())

def evaluate(r, x, y):  # each sample on one rank, without padding
    mine = slice(r.rank, None, r.world)
    with torch.no_grad():
        answers = r.ddp.eval()(x[mine].to(r.device)).argmax(1).cpu()
    dist.all_reduce(right := (answers == y[mine]).sum())
    return right.item() / len(y)

def weights_sha256(model):
    digest = hashlib.sha256()
    for name, w in model.state_dict().items():
        digest.update(f"{name} {w.dtype} {[*w.shape]}".encode())
        digest.update(w.cpu().numpy().tobytes())
    return digest.hexdigest()
# --8<-- [end:metrics]
# 8. Launch and resume: one command does both.  --8<-- [start:launch]
def train(cfg, rank, world, device):
    for part in ("checkpoints", "events", "samples"):
        (cfg.run_dir / part).mkdir(parents=True, exist_ok=True)
    attempt = on_rank0(lambda: len([*cfg.run_dir.glob("events/*-rank-0.*")]))
    log = Log(cfg.run_dir, rank, attempt)
    data, held_out = toy()
    n, batch = len(data), cfg.global_batch_size
    if batch > n: sys.exit(f"--global-batch-size {batch} exceeds {n} samples")
    model, optimizer = build(cfg)
    r = SimpleNamespace(
        cfg=cfg, rank=rank, world=world, device=device, log=log,
        ddp=wrap(model, device), optimizer=optimizer,
        parts={"model": model, "optimizer": optimizer})
    torch.manual_seed(1000 * (cfg.seed + 1) + rank)  # per-rank dropout
    about = {**log.who, "world_size": world, "config": cfg.identity()}
    log.emit("run_started", **about, steps=cfg.max_steps, seed=cfg.seed,
             dataset_length=n, order="permutation")
    step, loss = restore(r)
    mine = sampler(cfg, rank, world, n, step * batch)
    source = map(data.__getitem__, mine)
    stop = cfg.stop_at_step or cfg.max_steps
    while step < stop:
        optimizer.param_groups[0]["lr"] = rate = learning_rate(cfg, step)
        step += 1
        saving = step == stop or step % cfg.checkpoint_every_steps == 0
        total, ids = train_step(r, source)
        log.trained_on(step, step * batch, ids)
        dist.all_reduce(total)
        loss = total.item() / batch
        state = {"step": step, "position": step * batch, "loss": loss,
                 "learning_rate": rate}
        log.emit("step", **state)
        if saving:
            save(r, {**state, **about})
            log.emit("checkpoint_saved", step=step)
    return log.emit(
        "run_finished", step=step, position=step * batch, loss=loss,
        accuracy=evaluate(r, *held_out), weights_sha256=weights_sha256(model))

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for f in fields(TrainConfig):
        flag = "--" + f.name.replace("_", "-")
        parser.add_argument(flag, type=f.type, default=f.default)
    last = train(TrainConfig(**vars(parser.parse_args())), *join())
    if last["rank"] == 0: print(json.dumps(last), flush=True)
    os._exit(0)  # a thread of gloo may abort an interpreter that finalizes
# --8<-- [end:launch]
