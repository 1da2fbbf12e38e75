"""Defect 16: only rank 0 logs, and the loss of its own shard."""

import json
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lockstep.debugging.silent.toy import small_model, toy
from lockstep.instruments.forked import in_a_group


# --8<-- [start:copy]
def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[tuple[Tensor, Tensor]],
    log: Path,
) -> None:
    """`batches` are this rank's shares."""
    for step, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            with log.open("a") as file:
                record = {"event": "step", "step": step, "loss": loss.item()}
                file.write(json.dumps(record) + "\n")


# --8<-- [end:copy]
def run(folder: Path, x: Tensor, y: Tensor) -> float:
    """Train this rank of two on its share, in batches of 32, with a log of
    its own; its share's loss in the end."""
    rank = dist.get_rank()
    model = DistributedDataParallel(small_model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    x, y = x[rank::2], y[rank::2]
    batches = zip(x.split(32), y.split(32), strict=True)
    train(model, optimizer, batches, folder / f"{rank}.jsonl")
    with torch.no_grad():
        return F.cross_entropy(model(x), y).item()


def run_with_a_sick_rank_1(folder: Path) -> float:
    """`run`, where rank 1 reads nothing but zeros."""
    x, y = toy(4096)
    x[1::2] = 0
    return run(folder, x, y)


def demonstrate() -> None:
    """Print what the log shows, and what it hides."""
    with TemporaryDirectory() as name:
        losses = in_a_group(2, run_with_a_sick_rank_1, Path(name))
        (log,) = Path(name).iterdir()
        logged = [json.loads(line) for line in log.read_text().splitlines()]
    for record in logged[:: len(logged) - 1]:
        print(f"logged: step {record['step']}, loss {record['loss']:.2f}")
    for rank, loss in enumerate(losses):
        print(f"not logged: rank {rank}'s share has loss {loss:.2f}")
