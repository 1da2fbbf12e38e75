"""Answers as programs: launched as torchrun does, on ranks that are there."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist

from lockstep.grading.criteria import named
from lockstep.trainer.extensions.sample_record import read_samples

BATCH = 48  # a step's, over all ranks
_GROUPS = count()  # all ranks meet as often


def needed(answer: ModuleType, *names: str) -> None:
    """NotImplementedError, unless the answer has these functions."""
    for name in names:
        named(answer, name)


def configured(answer: ModuleType, run_dir: Path, **settings: Any) -> Any:
    """A config of the answer's, with those settings that it knows."""
    needed(answer, "TrainConfig")
    usual = {"run_dir": run_dir, "global_batch_size": BATCH, "max_steps": 4}
    usual |= {"dropout": 0.0, "micro_batch_size": 8, "log_every_steps": 1}
    usual |= {"num_workers": 0}
    # To see a difference.
    usual |= {"learning_rate": 0.05, "warmup_steps": 1, "clip_norm": 1e9}
    known = {field.name for field in fields(answer.TrainConfig)}
    asked = {**usual, **settings}
    return answer.TrainConfig(**{k: asked[k] for k in asked if k in known})


def rank() -> int:
    """This rank."""
    return dist.get_rank()


@contextmanager
def folder() -> Iterator[Path]:
    """One for all ranks, until all are through."""
    with TemporaryDirectory(prefix="drill-") as name:
        yield Path(agreed(name))
        dist.barrier()


def agreed(value: Any) -> Any:
    """What rank 0 has for `value`."""
    box = [value]
    dist.broadcast_object_list(box)
    return box[0]


def every(value: Any) -> list[Any]:
    """Every rank's `value`, on every rank."""
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def torn(_: object, file: Any, **__: Any) -> None:
    """Stand in for a `torch.save` that is killed in its middle."""
    if hasattr(file, "write"):
        file.write(b"half")
    else:
        Path(file).write_bytes(b"half")
    raise OSError("killed")


@contextmanager
def torchrun(world: int) -> Iterator[bool]:
    """Whether this rank is one of the `world` that torchrun has started: they
    have its environment, and no group yet. The others wait at the end."""
    # What c10d writes of a rank that is lost is not for the reader.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    mine, ranks = dist.get_rank(), dist.get_world_size()
    server = None
    if mine == 0:
        server = dist.TCPStore("127.0.0.1", 0, is_master=True)
    port = agreed(server.port if server else 0)
    store = server or dist.TCPStore("127.0.0.1", port)
    dist.destroy_process_group()
    environment = {
        "RANK": mine,
        "LOCAL_RANK": mine,
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": world,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "TORCHELASTIC_USE_AGENT_STORE": True,  # the store is there already
        "CUDA_VISIBLE_DEVICES": "",  # one GPU would be asked for twice
    }
    with patch.dict(os.environ, {k: str(environment[k]) for k in environment}):
        yield mine < world
    # Not after an error: the others would wait, and the rank is lost anyway.
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group(
        "gloo",
        store=dist.PrefixStore(f"after-{next(_GROUPS)}", store),
        rank=mine,
        world_size=ranks,
    )


def launched(answer: ModuleType, cfg: Any, world: int | None = None) -> Any:
    """The last event of a run on `world` ranks; None on the others."""
    needed(answer, "join", "train")
    with torchrun(world or dist.get_world_size()) as started:
        return answer.train(cfg, *answer.join()) if started else None


@contextmanager
def built(answer: ModuleType, sgd: bool = False) -> Iterator[SimpleNamespace]:
    """The model and the optimizer that a run builds last. Adam hides a gradient
    of the wrong scale, so it may be taken away."""
    needed(answer, "build")
    made, build = SimpleNamespace(model=None, optimizer=None), answer.build

    def building(cfg: Any) -> Any:
        made.model, made.optimizer = build(cfg)
        if sgd:  # at the same rate: a scheduler multiplies it
            rate = made.optimizer.param_groups[0]["lr"]
            parameters = made.model.parameters()
            made.optimizer = torch.optim.SGD(parameters, lr=rate)
        return made.model, made.optimizer

    with patch.object(answer, "build", building):
        yield made


def replayed(
    answer: ModuleType, cfg: Any, order: np.ndarray, sgd: bool = False
) -> tuple[Any, list[float]]:
    """The model, and each step's loss, of a plain loop over `order`, which is
    made of the answer's parts."""
    needed(answer, "toy", "build", "learning_rate")
    data, _ = answer.toy()
    with built(answer, sgd):
        model, optimizer = answer.build(cfg)
    losses = []
    for step, ids in enumerate(np.split(order, cfg.max_steps)):
        _, x, y = data[ids]
        for group in optimizer.param_groups:
            group["lr"] = answer.learning_rate(cfg, step)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def told(run_dir: Path, event: str = "") -> list[dict[str, Any]]:
    """The events of a run, file by file; all, or those of one name."""
    lines = [
        json.loads(line)
        for path in files(run_dir, "events")
        for line in path.read_text("utf-8").splitlines()
    ]
    return [one for one in lines if event in ("", one.get("event"))]


def trained(run_dir: Path) -> dict[tuple[int, int], list[int]]:
    """The ids that each attempt's step trained on, of all ranks, sorted."""
    found: dict[tuple[int, int], list[int]] = {}
    for path in files(run_dir, "samples"):
        for attempt, step, ids in recorded(path):
            found.setdefault((attempt, step), []).extend(ids)
    return {key: sorted(found[key]) for key in sorted(found)}


def recorded(path: Path) -> Iterator[tuple[int, int, list[int]]]:
    """Attempt, step and ids of each record: the trainer's, or JSON lines."""
    if path.read_bytes().startswith(b"{"):
        for line in path.read_text("utf-8").splitlines():
            one = json.loads(line)
            yield one.get("attempt", 0), one["step"], one["ids"]
    else:
        for each in read_samples(path):
            yield each.attempt, each.step, each.ids.tolist()


def files(run_dir: Path, kind: str) -> list[Path]:
    """Those of a kind, whatever they are called."""
    paths = sorted((run_dir / kind).rglob("*"))
    return [path for path in paths if path.is_file()]


def each_as_often(batches: Iterable[Any], n: int) -> None:
    """After each batch some of `n` samples may be one ahead, none is two."""
    times = np.zeros(n, int)
    for step, ids in enumerate(batches, 1):
        times += np.bincount(np.asarray(ids, int), minlength=n)
        assert np.ptp(times) <= 1, (
            f"after step {step} one sample was drawn {times.max()} times,"
            f" another {times.min()} times"
        )


def weights(model: torch.nn.Module) -> list[float]:
    """All of them, in a row."""
    parts = [weight.detach().flatten() for weight in model.parameters()]
    return torch.cat(parts).tolist()


def close(found: Any, expected: Any) -> bool:
    """But for the order of additions."""
    return np.shape(found) == np.shape(expected) and bool(
        np.allclose(found, expected, rtol=1e-3, atol=1e-5)
    )
