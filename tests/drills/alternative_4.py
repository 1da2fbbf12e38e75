"""Drill 4 once more, in another style: events on the device's own clock, an
all-reduce that is a phase by itself, and a pointer to the last checkpoint."""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass(frozen=True)
class TrainConfig:
    run_dir: Path
    seed: int = 1
    global_batch_size: int = 48
    micro_batch_size: int = 12
    max_steps: int = 300
    learning_rate: float = 0.01
    warmup_steps: int = 10
    dropout: float = 0.2
    precision: str = "fp32"
    log_every_steps: int = 20
    checkpoint_every_steps: int = 100
    stop_at_step: int = sys.maxsize

    def grad_accum_steps(self, world: int) -> int:
        share = world * self.micro_batch_size
        if self.global_batch_size % share:
            raise ValueError(f"{share} does not divide the batch")
        return self.global_batch_size // share

    def decides(self) -> str:
        free = ["run_dir", "micro_batch_size", "log_every_steps"]
        free += ["checkpoint_every_steps", "stop_at_step"]
        names = [f.name for f in fields(self) if f.name not in free]
        return " ".join(f"{name}={getattr(self, name)}" for name in names)


def toy() -> tuple[TensorDataset, tuple[Tensor, Tensor]]:
    rng = torch.Generator().manual_seed(7)
    inputs = torch.rand(3000, 8, generator=rng) - 0.5
    labels = (inputs @ torch.randn(8, 4, generator=rng)).argmax(-1)
    x, held_x = inputs.split([2500, 500])
    y, held_y = labels.split([2500, 500])
    return TensorDataset(torch.arange(2500), x, y), (held_x, held_y)


def sampler(
    cfg: TrainConfig, rank: int, world: int, n: int, position: int
) -> Iterator[list[int]]:
    orders: dict[int, list[int]] = {}
    end = cfg.max_steps * cfg.global_batch_size
    for first in range(position, end, world * cfg.micro_batch_size):
        ids = []
        for at in range(first + rank, first + world * cfg.micro_batch_size):
            epoch, index = divmod(at, n)
            if epoch not in orders:
                rng = torch.Generator().manual_seed(1000 * cfg.seed + epoch)
                orders[epoch] = torch.randperm(n, generator=rng).tolist()
            ids.append(orders[epoch][index])
        yield ids[::world]


def build(cfg: TrainConfig) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(cfg.seed)
    layers = [nn.Linear(8, 48), nn.Dropout(cfg.dropout), nn.Tanh()]
    model = nn.Sequential(*layers, nn.Linear(48, 4))
    return model, torch.optim.Adamax(model.parameters())


def learning_rate(cfg: TrainConfig, step: int) -> float:
    warm = min((step + 1) / (cfg.warmup_steps + 1), 1)
    turn = torch.tensor(torch.pi / 2 * step / cfg.max_steps).double()
    return cfg.learning_rate * warm * (1 - 0.9 * turn.sin().item() ** 2)


def join() -> tuple[int, int, torch.device]:
    place = "cpu"
    if torch.cuda.is_available():
        place = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(place)
    dist.init_process_group()
    return dist.get_rank(), dist.get_world_size(), torch.device(place)


class Log:
    def __init__(
        self, run_dir: Path, rank: int, attempt: int, gpu: bool
    ) -> None:
        self.who, self.gpu = {"rank": rank, "attempt": attempt}, gpu
        self.spans: list[tuple[str, Any, Any]] = []
        self.paths = {
            kind: run_dir / kind / f"rank-{rank}-attempt-{attempt}"
            for kind in ("events", "samples")
        }
        for path in self.paths.values():
            path.parent.mkdir(parents=True, exist_ok=True)

    def say(self, kind: str, **what: Any) -> dict[str, Any]:
        said = {**what, **self.who}
        with self.paths[kind].open("a") as file:
            file.write(json.dumps(said) + "\n")
        return said

    def now(self) -> Any:
        if not self.gpu:
            return time.monotonic()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        begin = self.now()
        yield
        self.spans.append((name, begin, self.now()))

    def phases(self) -> dict[str, float]:
        """Since the last call; only here the host waits for the device."""
        if self.gpu:
            torch.cuda.synchronize()
        found: Counter[str] = Counter()
        for name, begin, end in self.spans:
            took = begin.elapsed_time(end) / 1e3 if self.gpu else end - begin
            found[name] += took
        self.spans.clear()
        return dict(found)


class Trainer:
    def __init__(
        self, cfg: TrainConfig, rank: int, world: int, device: torch.device
    ) -> None:
        self.cfg, self.rank, self.world = cfg, rank, world
        self.device, self.done = device, 0
        self.data, self.held_out = toy()
        self.model, self.optimizer = build(cfg)
        self.model.to(device)
        torch.manual_seed(1000 * cfg.seed + rank)
        kinds = {"fp32": torch.float32, "bf16": torch.bfloat16}
        kind = kinds.get(cfg.precision, torch.float16)
        low = kind != torch.float32
        self.autocast = torch.autocast(device.type, kind, enabled=low)
        fp16 = kind == torch.float16
        self.scaler = torch.amp.GradScaler(device.type, enabled=fp16)
        self.parts: list[Any] = [self.model, self.optimizer, self.scaler]
        before = len([*cfg.run_dir.glob("events/rank-0-*")])
        attempt = torch.tensor(before, device=device)
        dist.broadcast(attempt, 0)
        gpu = device.type == "cuda"
        self.log = Log(cfg.run_dir, rank, int(attempt), gpu)
        self.log.say("events", event="run_started", config=cfg.decides())

    def reduce(self, total: Tensor) -> float:
        """Add up over the ranks: the gradients, and with them the loss."""
        weights = list(self.model.parameters())
        grads = [w.grad.flatten() for w in weights if w.grad is not None]
        flat = torch.cat([*grads, total])
        dist.all_reduce(flat)
        *grads, total = flat.split([g.numel() for g in [*grads, total]])
        for weight, grad in zip(weights, grads, strict=True):
            weight.grad = grad.view_as(weight)
        return total.item()

    def step(self, batches: Iterator[list[Tensor]]) -> dict[str, Any]:
        phase, size, ids = self.log.phase, self.cfg.global_batch_size, []
        rate, self.done = learning_rate(self.cfg, self.done), self.done + 1
        total = torch.zeros(1, device=self.device)
        for _ in range(self.cfg.grad_accum_steps(self.world)):
            with phase("load"):
                own, *pair = next(batches)
            with phase("h2d"):
                x, y = (part.to(self.device) for part in pair)
            with phase("forward"), self.autocast:
                loss = F.cross_entropy(self.model(x), y, reduction="sum") / size
            with phase("backward"):
                self.scaler.scale(loss).backward()
            total += loss.detach()
            ids += own.tolist()
        with phase("sync"):
            mean = self.reduce(total)
        with phase("optimizer"):
            self.optimizer.param_groups[0]["lr"] = rate
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()
        about = {"step": self.done, "position": self.done * size}
        self.log.say("samples", **about, ids=ids)
        return {**about, "loss": mean, "learning_rate": rate}

    def fit(self) -> dict[str, Any]:
        restore(self)
        position = self.done * self.cfg.global_batch_size
        todo = self.rank, self.world, len(self.data), position
        loader: DataLoader = DataLoader(
            self.data,
            batch_sampler=sampler(self.cfg, *todo),
            generator=torch.Generator(),
        )
        batches = iter(loader)
        end = min(self.cfg.stop_at_step, self.cfg.max_steps)
        while self.done < end:
            about = self.step(batches)
            every = self.cfg.checkpoint_every_steps
            if self.done == end or self.done % every == 0:
                with self.log.phase("checkpoint"):
                    save(self, about)
            if self.done % self.cfg.log_every_steps == 0:
                about["phases"] = self.log.phases()
            self.log.say("events", event="step", **about)
        accuracy = evaluate(self, *self.held_out)
        about = {"step": self.done, "accuracy": accuracy}
        return self.log.say("events", event="run_finished", **about)


def save(r: Trainer, state: dict[str, Any]) -> None:
    home = r.cfg.run_dir / "checkpoints"
    folder = home / f"step-{r.done}"
    folder.mkdir(parents=True, exist_ok=True)
    state = {"what": r.cfg.decides(), "random": torch.get_rng_state(), **state}
    state["parts"] = [part.state_dict() for part in r.parts]
    torch.save(state, folder / f"rank-{r.rank}.pt")
    dist.barrier()
    if r.rank == 0:  # all have written: now it is the last one
        (home / "new").write_text(folder.name)
        (home / "new").replace(home / "last")
    dist.barrier()


def restore(r: Trainer) -> None:
    home, found = r.cfg.run_dir / "checkpoints", ("", 0)
    if r.rank == 0 and (home / "last").exists():
        name = (home / "last").read_text()
        found = name, len([*(home / name).iterdir()])
    box = [found]
    dist.broadcast_object_list(box)
    name, ranks = box[0]
    if not name:
        return
    own = r.rank if r.world == ranks else 0
    state = torch.load(home / name / f"rank-{own}.pt", map_location="cpu")
    if state["what"] != r.cfg.decides():
        sys.exit(f"it was {state['what']}, and is {r.cfg.decides()}")
    for part, was in zip(r.parts, state["parts"], strict=True):
        part.load_state_dict(was)
    r.done = state["step"]
    if r.world == ranks:
        torch.set_rng_state(state["random"])


def evaluate(r: Trainer, x: Tensor, y: Tensor) -> float:
    r.model.eval()
    with torch.inference_mode():
        found = r.model(x.to(r.device)).argmax(-1).cpu()
    return (found == y).double().mean().item()


def train(cfg: TrainConfig, *place: Any) -> dict[str, Any]:
    return Trainer(cfg, *place).fit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run-dir", type=Path, required=True)
    for field in fields(TrainConfig)[1:]:
        flag = f"--{field.name}".replace("_", "-")
        kind: Any = field.type
        parser.add_argument(flag, type=kind, default=field.default)
    last = train(TrainConfig(**vars(parser.parse_args())), *join())
    if last["rank"] == 0:
        print(last)
    dist.destroy_process_group()
