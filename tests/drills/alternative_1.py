"""Drill 1 once more, in another style: a class trains, torch's loader deals and
a scheduler sets the rate."""

import argparse
import dataclasses
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Sampler, TensorDataset


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig:
    run_dir: Path
    seed: int = 1
    global_batch_size: int = 50
    max_steps: int = 300
    learning_rate: float = 0.01
    warmup_steps: int = 10
    dropout: float = 0.2


def toy() -> tuple[TensorDataset, tuple[Tensor, Tensor]]:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        inputs, teacher = torch.rand(3000, 8) - 0.5, torch.randn(8, 4)
    labels = torch.argmax(inputs @ teacher, dim=-1)
    x, held_x = inputs.split([2500, 500])
    y, held_y = labels.split([2500, 500])
    return TensorDataset(torch.arange(2500), x, y), (held_x, held_y)


class Batches(Sampler[list[int]]):
    """Epochs in a row, cut into batches; one is read from low to high."""

    def __init__(self, cfg: TrainConfig, n: int) -> None:
        self.cfg, self.n = cfg, n

    def __len__(self) -> int:
        return self.cfg.max_steps

    def __iter__(self) -> Iterator[list[int]]:
        size, epoch = self.cfg.global_batch_size, 0
        ahead: list[int] = []
        for _ in range(len(self)):
            while len(ahead) < size:
                rng = torch.Generator()
                rng.manual_seed(hash((self.cfg.seed, epoch)))
                ahead += torch.randperm(self.n, generator=rng).tolist()
                epoch += 1
            batch, ahead = ahead[:size], ahead[size:]
            yield sorted(batch)


sampler = Batches


class Net(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 48), nn.Linear(48, 4)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.inner(x))
        return self.outer(F.dropout(hidden, self.dropout, self.training))


def build(cfg: TrainConfig) -> tuple[Net, torch.optim.Optimizer]:
    with torch.random.fork_rng():
        torch.manual_seed(cfg.seed)
        model = Net(cfg.dropout)
    groups: list[dict[str, Any]] = [
        {"params": [p for p in model.parameters() if p.dim() > 1]},
        {"params": [model.inner.bias, model.outer.bias], "weight_decay": 0},
    ]
    return model, torch.optim.AdamW(groups, lr=1.0)  # the scheduler's to scale


def learning_rate(cfg: TrainConfig, step: int) -> float:
    rate = cfg.learning_rate
    if step < cfg.warmup_steps:
        rate *= (step + 1) / (cfg.warmup_steps + 1)
    turn = torch.tensor(torch.pi / 2 * step / cfg.max_steps).double()
    return rate * (1 - 0.9 * turn.sin().item() ** 2)


def evaluate(r: "Trainer", x: Tensor, y: Tensor) -> float:
    r.model.eval()
    with torch.inference_mode():
        logits = torch.cat([r.model(part) for part in x.split(100)])
    return (logits.argmax(-1) == y).double().mean().item()


class Trainer:
    def __init__(self, cfg: TrainConfig) -> None:
        self.cfg, self.done = cfg, 0
        self.data, self.held_out = toy()
        self.model, self.optimizer = build(cfg)
        self.rate = LambdaLR(self.optimizer, partial(learning_rate, cfg))
        self.file = cfg.run_dir / "events" / "all.log"
        self.file.parent.mkdir(parents=True)

    def say(self, event: str, **what: Any) -> dict[str, Any]:
        position = self.done * self.cfg.global_batch_size
        said = {"event": event, "step": self.done, "position": position, **what}
        with self.file.open("a") as file:
            print(json.dumps(said), file=file)
        return said

    def fit(self) -> dict[str, Any]:
        self.say("run_started")
        batches = list(sampler(self.cfg, len(self.data)))
        for _, x, y in DataLoader(self.data, batch_sampler=batches):
            loss = F.cross_entropy(self.model(x), y)
            self.model.zero_grad()
            loss.backward()
            self.optimizer.step()
            (rate, _), self.done = self.rate.get_last_lr(), self.done + 1
            self.rate.step()
            self.say("step", loss=loss.item(), learning_rate=rate)
        accuracy = evaluate(self, *self.held_out)
        return self.say("run_finished", accuracy=accuracy)


def train(cfg: TrainConfig) -> dict[str, Any]:
    return Trainer(cfg).fit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--run-dir", type=Path, required=True)
    for field in dataclasses.fields(TrainConfig)[1:]:
        flag = f"--{field.name}".replace("_", "-")
        kind: Any = field.type
        parser.add_argument(flag, type=kind, default=field.default)
    print(json.dumps(train(TrainConfig(**vars(parser.parse_args())))))
