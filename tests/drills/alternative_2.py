"""Drill 2 once more, in another style: no DDP, neighbors in a batch stay on
one rank, and what is recorded are lines of JSON."""

import argparse
import io
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed import (
    all_reduce,
    destroy_process_group,
    init_process_group,
)
from torch.utils.data import TensorDataset


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

    def grad_accum_steps(self, world: int) -> int:
        times, rest = divmod(
            self.global_batch_size, world * self.micro_batch_size
        )
        if rest:
            raise ValueError(f"{world} ranks do not divide the batch")
        return times


def toy() -> tuple[TensorDataset, tuple[Tensor, Tensor]]:
    rng = torch.Generator().manual_seed(7)
    inputs = torch.rand(3000, 8, generator=rng) - 0.5
    labels = (inputs @ torch.randn(8, 4, generator=rng)).argmax(-1)
    x, held_x = inputs.split([2500, 500])
    y, held_y = labels.split([2500, 500])
    return TensorDataset(torch.arange(2500), x, y), (held_x, held_y)


def in_order(cfg: TrainConfig, n: int) -> Iterator[int]:
    """The run's samples, one by one."""
    rng = torch.Generator().manual_seed(cfg.seed)
    while True:
        yield from torch.randperm(n, generator=rng).tolist()


def sampler(
    cfg: TrainConfig, rank: int, world: int, n: int
) -> Iterator[list[int]]:
    accum, micro = cfg.grad_accum_steps(world), cfg.micro_batch_size
    order = in_order(cfg, n)
    for _ in range(cfg.max_steps):
        batch = [next(order) for _ in range(cfg.global_batch_size)]
        mine = sorted(batch)[rank * accum * micro :]
        for at in range(0, accum * micro, micro):
            yield mine[at : at + micro]


def build(cfg: TrainConfig) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(cfg.seed)  # no broadcast: all begin with these
    layers = [nn.Linear(8, 48), nn.Tanh(), nn.Linear(48, 4)]
    model = nn.Sequential(*layers, nn.Dropout(cfg.dropout))
    return model, torch.optim.Adagrad(model.parameters(), cfg.learning_rate)


def learning_rate(cfg: TrainConfig, step: int) -> float:
    warm = min((step + 1) / (cfg.warmup_steps + 1), 1)
    turn = torch.tensor(torch.pi / 2 * step / cfg.max_steps).double()
    return cfg.learning_rate * warm * (1 - 0.9 * turn.sin().item() ** 2)


def join() -> tuple[int, int, str]:
    device = "cpu"
    if torch.accelerator.is_available():
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    init_process_group()
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), device


def evaluate(r: "Trainer", x: Tensor, y: Tensor) -> float:
    r.model.eval()
    with torch.inference_mode():
        found = r.model(x.to(r.device)).argmax(-1).cpu()
    return (found == y).double().mean().item()


class Trainer:
    def __init__(
        self, cfg: TrainConfig, rank: int, world: int, device: str
    ) -> None:
        self.cfg, self.rank, self.world = cfg, rank, world
        self.device, self.done = device, 0
        self.data, self.held_out = toy()
        self.model, self.optimizer = build(cfg)
        self.model.to(device)
        torch.manual_seed(world * cfg.seed + rank)
        self.say("run_started", config=asdict(cfg))

    def write(self, kind: str, **what: Any) -> None:
        file = self.cfg.run_dir / kind / f"of-{self.rank}"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as lines:
            print(json.dumps(what, default=str), file=lines)

    def say(self, event: str, **what: Any) -> dict[str, Any]:
        position = self.done * self.cfg.global_batch_size
        said = {"event": event, "step": self.done, "position": position}
        said |= {"rank": self.rank, **what}
        self.write("events", **said)
        if self.rank == 0:
            print(event, self.done, what)
        return said

    def step(self, batches: Iterator[list[int]]) -> None:
        rate, seen = learning_rate(self.cfg, self.done), []
        self.done += 1
        total = torch.zeros(1, device=self.device)
        for _ in range(self.cfg.grad_accum_steps(self.world)):
            ids, *pair = self.data[next(batches)]
            x, y = (each.to(self.device) for each in pair)
            loss = F.cross_entropy(self.model(x), y) * len(y)
            (loss / self.cfg.global_batch_size).backward()
            total += loss.detach()
            seen += ids.tolist()
        weights = list(self.model.parameters())
        grads = [w.grad.flatten() for w in weights if w.grad is not None]
        flat = torch.cat([*grads, total])
        all_reduce(flat)  # the loss goes with the gradients
        *grads, total = flat.split([g.numel() for g in [*grads, total]])
        for weight, grad in zip(weights, grads, strict=True):
            weight.grad = grad.view_as(weight)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.write("samples", step=self.done, ids=seen)
        loss = total.item() / self.cfg.global_batch_size
        self.say("step", loss=loss, learning_rate=rate)

    def fit(self) -> dict[str, Any]:
        batches = sampler(self.cfg, self.rank, self.world, len(self.data))
        while self.done < self.cfg.max_steps:
            self.step(batches)
        if self.rank:
            return self.say("run_finished")
        save(self, {"position": self.done * self.cfg.global_batch_size})
        return self.say("run_finished", accuracy=evaluate(self, *self.held_out))


def save(r: Trainer, state: dict[str, Any]) -> None:
    content = io.BytesIO()
    parts = r.model.state_dict(), r.optimizer.state_dict()
    torch.save([parts, r.cfg, state], content)
    folder = r.cfg.run_dir / "checkpoints" / f"step-{r.done}"
    folder.mkdir(parents=True)
    begun = folder / "begun"
    begun.write_bytes(content.getbuffer())
    begun.replace(folder / "rank-0.pt")


def train(
    cfg: TrainConfig, rank: int, world: int, device: str
) -> dict[str, Any]:
    return Trainer(cfg, rank, world, device).fit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for field in fields(TrainConfig):
        flag = f"--{field.name}".replace("_", "-")
        needed = field.name == "run_dir"
        kind: Any = field.type
        default = None if needed else field.default
        parser.add_argument(flag, type=kind, default=default, required=needed)
    train(TrainConfig(**vars(parser.parse_args())), *join())
    destroy_process_group()
