"""What the checks of a typed cut stand on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

BATCH, MICRO = 64, 16  # on two ranks: two micro-batches to a step
SECONDS = 60.0  # for a check, or a launch; ranks that wait in vain take them


class Wrong(Exception):
    """What does not hold; the message says what would."""


def expect(claim: bool, otherwise: str) -> None:
    """Raise Wrong unless `claim`."""
    if not claim:
        raise Wrong(otherwise)


def refused(act: Callable[..., object], *args: Any) -> bool:
    """Whether `act(*args)` raises, or exits with a message."""
    try:
        act(*args)
    except (Exception, SystemExit):
        return True
    return False


def configured(cut: Any, **settings: Any) -> Any:
    """A config of the sizes that the checks count on."""
    sizes = {"global_batch_size": BATCH, "micro_batch_size": MICRO}
    return replace(cut.TrainConfig(), **sizes | settings)


class Listener:
    """Stands in for cell 7 while cells 5 and 6 are checked."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.told: dict[str, dict[str, Any]] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.seen.add(name)
        yield

    def emit(self, event: str, **what: Any) -> None:
        self.told[event] = what


def replica(cut: Any, **settings: Any) -> SimpleNamespace:
    """What cell 8 hands to cells 5 and 6."""
    cfg = configured(cut, precision="fp32", **settings)
    model, optimizer = cut.build(cfg)
    device = torch.device("cpu")
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    return SimpleNamespace(
        cfg=cfg,
        rank=dist.get_rank(),
        world=dist.get_world_size(),
        device=device,
        log=Listener(),
        ddp=cut.wrap(model, device),
        optimizer=optimizer,
        scaler=scaler,
        parts={"model": model, "optimizer": optimizer, "scaler": scaler},
    )


def micro_batches(
    cut: Any, r: SimpleNamespace, scale: float = 1.0
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """This rank's share of samples 0 to 63, as (ids, x, y)."""
    data, _ = cut.toy()
    for own in torch.arange(r.rank, BATCH, r.world).split(MICRO):
        ids, x, y = data[own]
        yield ids, x * scale, y


def tensors(r: SimpleNamespace) -> list[Tensor]:
    """Copies of the weights and of what the optimizer holds for them."""
    held = r.optimizer.state_dict()["state"].values()
    states = [tensor for of_weight in held for tensor in of_weight.values()]
    return [t.detach().clone() for t in [*r.ddp.parameters(), *states]]


def folder(name: str, *parts: str) -> Path:
    """A place for this rehearsal's files, with the folders `parts` in it."""
    path = Path(os.environ["REHEARSAL"]) / name
    for part in parts:
        (path / part).mkdir(parents=True, exist_ok=True)
    return path


def torchrun(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start two ranks on this machine's CPU."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    # One GPU would be asked for twice.
    cpu = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*command, "--nproc-per-node=2", *arguments],
        env=os.environ | cpu,
        stderr=subprocess.DEVNULL,
        **options,
    )
