"""Drill 3 once more, in another style: one file has every rank's random state,
all ranks look for it, and what DDP would regroup stays as it is."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Sampler, TensorDataset


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
    stop_at_step: int | None = None

    def grad_accum_steps(self, world: int) -> int:
        share = world * self.micro_batch_size
        if self.global_batch_size % share:
            raise ValueError(f"{share} does not divide the batch")
        return self.global_batch_size // share

    def essence(self) -> list[Any]:
        names = "seed global_batch_size max_steps learning_rate warmup_steps"
        return [[n, getattr(self, n)] for n in [*names.split(), "dropout"]]


def toy() -> tuple[TensorDataset, tuple[Tensor, Tensor]]:
    rng = torch.Generator().manual_seed(7)
    inputs = torch.rand(3000, 8, generator=rng) - 0.5
    labels = (inputs @ torch.randn(8, 4, generator=rng)).argmax(-1)
    x, held_x = inputs.split([2500, 500])
    y, held_y = labels.split([2500, 500])
    return TensorDataset(torch.arange(2500), x, y), (held_x, held_y)


class Shares(Sampler[list[int]]):
    """A rank's micro-batches after `position` samples of the run."""

    def __init__(
        self, cfg: TrainConfig, rank: int, world: int, n: int, position: int
    ) -> None:
        self.cfg, self.rank, self.world = cfg, rank, world
        self.n, self.position = n, position

    def __iter__(self) -> Iterator[list[int]]:
        end = self.cfg.max_steps * self.cfg.global_batch_size
        share = self.cfg.micro_batch_size
        for at in range(self.position, end, self.world * share):
            first = at + self.rank * share
            yield [self.drawn(i) for i in range(first, first + share)]

    def drawn(self, at: int) -> int:
        epoch, index = divmod(at, self.n)
        rng = torch.Generator().manual_seed(1000 * self.cfg.seed + epoch)
        return int(torch.randperm(self.n, generator=rng)[index])


sampler = Shares


def build(cfg: TrainConfig) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(cfg.seed)
    layers = [nn.Linear(8, 48), nn.Dropout(cfg.dropout), nn.Tanh()]
    model = nn.Sequential(*layers, nn.Linear(48, 4))
    return model, torch.optim.NAdam(model.parameters(), lr=1.0)


def learning_rate(cfg: TrainConfig, step: int) -> float:
    warm = min((step + 1) / (cfg.warmup_steps + 1), 1)
    turn = torch.tensor(torch.pi / 2 * step / cfg.max_steps).double()
    return cfg.learning_rate * warm * (1 - 0.9 * turn.sin().item() ** 2)


def join() -> tuple[int, int, torch.device]:
    dist.init_process_group()
    gpu = torch.cuda.is_available()
    place = f"cuda:{os.environ['LOCAL_RANK']}" if gpu else "cpu"
    return dist.get_rank(), dist.get_world_size(), torch.device(place)


class Log:
    def __init__(self, run_dir: Path, rank: int, attempt: int) -> None:
        self.who = {"rank": rank, "attempt": attempt}
        name = f"{attempt}/{rank}.json"
        self.paths = {k: run_dir / k / name for k in ("events", "samples")}
        for path in self.paths.values():
            path.parent.mkdir(parents=True, exist_ok=True)

    def say(self, kind: str, **what: Any) -> dict[str, Any]:
        said = {**what, **self.who}
        with self.paths[kind].open("a") as file:
            file.write(json.dumps(said, default=str) + "\n")
        return said


class Trainer:
    def __init__(
        self, cfg: TrainConfig, rank: int, world: int, device: torch.device
    ) -> None:
        self.cfg, self.rank, self.world = cfg, rank, world
        self.device, self.done, self.loss = device, 0, float("nan")
        self.data, self.held_out = toy()
        self.model, self.optimizer = build(cfg)
        # DDP regroups only where it knows that all parameters are used.
        self.ddp = DistributedDataParallel(
            self.model.to(device), find_unused_parameters=True
        )
        self.rate = LambdaLR(self.optimizer, lambda n: learning_rate(cfg, n))
        torch.manual_seed(1000 * cfg.seed + rank)
        before = {p.name for p in cfg.run_dir.glob("events/*")}
        dist.barrier()  # all have looked
        attempt = max(gathered(len(before)))
        self.log = Log(cfg.run_dir, rank, attempt)
        self.log.say("events", event="run_started", config=asdict(cfg))

    @property
    def position(self) -> int:
        return self.done * self.cfg.global_batch_size

    def step(self, batches: Iterator[list[Tensor]]) -> None:
        accum, ids = self.cfg.grad_accum_steps(self.world), []
        total = torch.zeros((), device=self.device)
        self.optimizer.zero_grad()
        for left in reversed(range(accum)):
            own, *pair = next(batches)
            x, y = (part.to(self.device) for part in pair)
            self.ddp.require_backward_grad_sync = not left
            loss = F.cross_entropy(self.ddp(x), y) / accum
            loss.backward()
            total += loss.detach() / self.world
            ids += own.tolist()
        self.optimizer.step()
        (rate,), self.done = self.rate.get_last_lr(), self.done + 1
        self.rate.step()
        dist.all_reduce(total)
        self.loss = total.item()
        about: dict[str, Any] = {"step": self.done, "position": self.position}
        self.log.say("samples", **about, ids=ids)
        about |= {"loss": self.loss, "learning_rate": rate}
        self.log.say("events", event="step", **about)

    def fit(self) -> dict[str, Any]:
        restore(self)
        todo = self.rank, self.world, len(self.data), self.position
        shares = sampler(self.cfg, *todo)
        rng = torch.Generator()
        loader = DataLoader(self.data, batch_sampler=shares, generator=rng)
        batches = iter(loader)
        end = self.cfg.stop_at_step or self.cfg.max_steps
        while self.done < end:
            self.step(batches)
            if self.done == end or self.done % 100 == 0:
                save(self, {"step": self.done, "loss": self.loss})
        accuracy = evaluate(self, *self.held_out)
        about = {"step": self.done, "loss": self.loss, "accuracy": accuracy}
        return self.log.say("events", event="run_finished", **about)


def gathered(value: Any) -> list[Any]:
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def save(r: Trainer, state: dict[str, Any]) -> None:
    random = gathered(torch.get_rng_state())
    final = r.cfg.run_dir / "checkpoints" / f"step-{r.done}"
    if r.rank == 0 and not final.exists():
        state = {"random": random, "essence": r.cfg.essence(), **state}
        for name in ("model", "optimizer", "rate"):
            state[f"{name}'s"] = getattr(r, name).state_dict()
        begun = r.cfg.run_dir / "begun"
        begun.mkdir(exist_ok=True)
        torch.save(state, begun / "rank-0.pt")
        final.parent.mkdir(exist_ok=True)
        begun.rename(final)
    dist.barrier()


def restore(r: Trainer) -> None:
    names = [p.name for p in (r.cfg.run_dir / "checkpoints").glob("step-*")]
    common = set.intersection(*map(set, gathered(names)))  # what all can see
    if not common:
        return
    name = max(common, key=lambda one: int(one.partition("-")[2]))
    file = r.cfg.run_dir / "checkpoints" / name / "rank-0.pt"
    state = torch.load(file, map_location=r.device)
    for was, now in zip(state["essence"], r.cfg.essence(), strict=True):
        if was != now:
            print(*was, "is now", *now, file=sys.stderr)
            sys.exit(1)
    for part in ("model", "optimizer", "rate"):
        getattr(r, part).load_state_dict(state[f"{part}'s"])
    r.done, r.loss = state["step"], state["loss"]
    if len(state["random"]) == r.world:
        torch.set_rng_state(state["random"][r.rank].cpu())
    r.log.say("events", event="went_on", step=r.done)


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
        kind: Any = type(field.default or 0)
        parser.add_argument(flag, type=kind, default=field.default)
    last = train(TrainConfig(**vars(parser.parse_args())), *join())
    if last["rank"] == 0:
        print(last)
    dist.destroy_process_group()
