"""A loop in the style of nanoGPT's train.py, on the exam's samples.

As there: every rank seeds itself once with an offset of its own, draws its
batches with replacement by torch.randint, computes the learning rate from the
iteration, and rank 0 writes one ckpt.pt that `--init_from=resume` reads. It
saves on every evaluation, which is nanoGPT's `always_save_checkpoint`. The
evaluation goes around DDP, since DDP would broadcast the exam's buffer in it.
Settings are read from `--key=value`, as there.
"""

import ast
import math
import os
import sys
from pathlib import Path
from typing import Any

import mending
import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP

from lockstep.exam.task import Model, Samples
from lockstep.experiments.peers.repairs import Notice

config: dict[str, Any] = {
    "out_dir": "out",
    "eval_interval": 4,
    "eval_iters": 2,
    "init_from": "scratch",  # or resume
    "gradient_accumulation_steps": 2,  # over all ranks
    "batch_size": 8,  # of one micro-batch
    "learning_rate": 1e-3,
    "min_lr": 1e-4,
    "max_iters": 17,  # the last one's number
    "warmup_iters": 4,
    "lr_decay_iters": 17,
    "weight_decay": 1e-1,
    "grad_clip": 1.0,
    "backend": "nccl" if torch.cuda.is_available() else "gloo",
    "dtype": "float32",  # or float16, with a gradient scaler
    "seed": 1337,
    "mended": False,
    "timeout_seconds": 1800,  # of interest to the mended script alone
}


def configure(words: list[str]) -> None:
    """Replace settings by `--key=value`."""
    for word in words:
        key, value = word.removeprefix("--").split("=", 1)
        if key not in config:
            raise ValueError(f"unknown setting: {key}")
        text = isinstance(config[key], str)
        config[key] = value if text else ast.literal_eval(value)


configure(sys.argv[1:])
mended: bool = config["mended"]
init_process_group(config["backend"], **mending.timeout(config))
rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
master_process = rank == 0
device = "cpu"
if config["backend"] == "nccl":
    device = f"cuda:{os.environ['LOCAL_RANK']}"
    torch.cuda.set_device(device)
device_type = device.partition(":")[0]
assert config["gradient_accumulation_steps"] % world_size == 0
micro_steps = config["gradient_accumulation_steps"] // world_size
torch.manual_seed(config["seed"] + rank)
ckpt_path = Path(config["out_dir"]) / "ckpt.pt"
if master_process:
    ckpt_path.parent.mkdir(parents=True, exist_ok=True)
half = config["dtype"] == "float16"
ctx = torch.autocast(device_type, torch.float16, enabled=half)

data = Samples()
held_out = int(0.9 * len(data))  # from here on: what only evaluation sees


def get_batch(split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples drawn with replacement."""
    low, high = (0, held_out) if split == "train" else (held_out, len(data))
    ix = torch.randint(low, high, (config["batch_size"],))
    rows = [data[int(i)] for i in ix]
    x = torch.stack([row["x"] for row in rows])
    y = torch.stack([row["labels"] for row in rows])
    return x.to(device), y.to(device)


def get_lr(it: int) -> float:
    """Warm up, then decay along a cosine."""
    if it < config["warmup_iters"]:
        return config["learning_rate"] * (it + 1) / config["warmup_iters"]
    span = config["lr_decay_iters"] - config["warmup_iters"]
    ratio = min(1.0, (it - config["warmup_iters"]) / span)
    coefficient = 0.5 * (1.0 + math.cos(math.pi * ratio))
    high, low = config["learning_rate"], config["min_lr"]
    return low + coefficient * (high - low)


raw_model = Model()
iter_num = 0
best_val_loss = 1e9
checkpoint: dict[str, Any] = {}
if config["init_from"] == "resume":
    if mended:
        checkpoint = mending.load(ckpt_path, config, data.x)
    else:
        checkpoint = torch.load(ckpt_path, map_location="cpu")
    raw_model.load_state_dict(checkpoint["model"])
    iter_num = checkpoint["iter_num"]
    best_val_loss = checkpoint["best_val_loss"]
raw_model.to(device)
scaler = torch.amp.GradScaler(device_type, enabled=half)
parameters = list(raw_model.parameters())
groups = [
    {
        "params": [p for p in parameters if p.dim() >= 2],
        "weight_decay": config["weight_decay"],
    },
    {
        "params": [p for p in parameters if p.dim() < 2],
        "weight_decay": 0.0,
    },
]
optimizer = torch.optim.AdamW(
    groups, lr=config["learning_rate"], betas=(0.9, 0.95)
)
if checkpoint:
    optimizer.load_state_dict(checkpoint["optimizer"])
    if mended:
        scaler.load_state_dict(checkpoint["scaler"])
checkpoint = {}
model = DDP(raw_model)


@torch.no_grad()
def estimate_loss() -> dict[str, float]:
    """Over a few batches of each split."""
    out = {}
    raw_model.eval()
    for split in ("train", "val"):
        losses = torch.zeros(config["eval_iters"])
        for k in range(config["eval_iters"]):
            x, y = get_batch(split)
            with ctx:
                losses[k] = raw_model(x, y)["loss"]
        out[split] = losses.mean().item()
    raw_model.train()
    return out


def save() -> None:
    """Rank 0's, in place of the one before."""
    state = {
        "model": raw_model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "iter_num": iter_num,
        "best_val_loss": best_val_loss,
        "config": config,
    }
    if mended:
        state["scaler"] = scaler.state_dict()
        mending.save(state, ckpt_path, data.x)
    else:
        torch.save(state, ckpt_path)


notice = Notice(device) if mended else None
X, Y = get_batch("train")
while True:
    lr = get_lr(iter_num)
    for group in optimizer.param_groups:
        group["lr"] = lr
    if iter_num % config["eval_interval"] == 0 and master_process:
        found = estimate_loss()
        print(f"step {iter_num}: val loss {found['val']:.4f}", flush=True)
        best_val_loss = min(best_val_loss, found["val"])
        if iter_num > 0:
            save()
    if notice and notice.by_anyone():
        if master_process:
            save()
        break
    if mended:  # what this iteration draws depends on its number alone
        torch.manual_seed(config["seed"] + rank + world_size * (iter_num + 1))
        X, Y = get_batch("train")
    for micro_step in range(micro_steps):
        model.require_backward_grad_sync = micro_step == micro_steps - 1
        with ctx:
            loss = model(X, Y)["loss"] / micro_steps
        X, Y = get_batch("train")  # the next one, ahead of its time
        scaler.scale(loss).backward()
    if config["grad_clip"]:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), config["grad_clip"])
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    iter_num += 1
    if iter_num > config["max_iters"]:
        break
destroy_process_group()
