"""A rig to run a trainer on: ranks of two processes or more in a fraction of a
second, and what they left.

    from lockstep.debugging.bugs.rig import RunFailed, launch

A rank is a fork of this process, on the CPU; the kernel ends one that hangs.

    python -m lockstep.debugging.bugs.rig trainer.py

prints what the trainer's timers make of a step on a GPU that stands in.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any
from unittest.mock import patch

# The first two are what a rank imports on its way: once, before the forks.
import torch
import torch._dynamo
import torch.utils.serialization.config

from lockstep.grading import ranks
from lockstep.grading.criteria import load
from lockstep.instruments.fake_gpu import FakeGpu
from lockstep.trainer.extensions.sample_record import read_samples

Watch = Callable[[ModuleType], Any]
SECONDS = 30  # until a rank that hangs is ended


class RunFailed(Exception):
    """A rank raised or died; the message is its error's type and text."""


@dataclass(frozen=True)
class Run:
    """What one launch left in the run's folder."""

    events: list[list[dict[str, Any]]]  # of each rank
    samples: dict[int, list[int]]  # by step: ids, those of rank 0 first
    seen: list[Any]  # of each rank: what `watch` returned

    def of(self, event: str, rank: int = 0) -> list[dict[str, Any]]:
        """Return a rank's events of one kind."""
        return [e for e in self.events[rank] if e["event"] == event]

    @property
    def ids(self) -> list[int]:
        """Return the ids of all trained samples, step after step."""
        return [i for step in sorted(self.samples) for i in self.samples[step]]


def launch(
    trainer: Path,
    run_dir: Path,
    world: int = 2,
    watch: Watch | None = None,
    fresh: bool = False,
    **settings: Any,
) -> Run:
    """Run a trainer's file on `world` ranks, with settings as by flags.

    Args:
        run_dir: launch into it again, and the run goes on.
        watch: gets the trainer's module on each rank, before the run. It may
            count or replace what it likes; what it returns is sent back after
            the run.
        fresh: in new interpreters, as after a restart: slower, unwatched.

    Raises:
        RunFailed: a rank did not get to its end.
    """
    attempt = len([*run_dir.glob("events/*-rank-0.*")])
    settings = {"run_dir": run_dir} | settings
    if fresh:
        _fresh(world, trainer, settings)
        seen: list[Any] = [None] * world
    else:
        seen = on_ranks(world, run_trainer, trainer, settings, watch)
    return left_in(run_dir, world, attempt, seen)


def left_in(run_dir: Path, world: int, attempt: int, seen: list[Any]) -> Run:
    """Return what launch `attempt`, counted from 0, logged and recorded."""
    events: list[list[dict[str, Any]]] = []
    samples: dict[int, list[int]] = {}
    for rank in range(world):
        name = f"attempt-{attempt}-rank-{rank}"
        lines = (run_dir / f"events/{name}.jsonl").read_text("utf-8")
        events.append([json.loads(line) for line in lines.splitlines()])
        for one in read_samples(run_dir / f"samples/{name}.bin"):
            samples.setdefault(one.step, []).extend(one.ids.tolist())
    return Run(events, samples, seen)


class Forks(ranks.Ranks):
    """Ranks that are forks of this process: what it has loaded, they have."""

    context = get_context("fork")


def on_ranks(world: int, work: Callable[..., Any], *args: Any) -> list[Any]:
    """Return what `work(*args)` returned on each of `world` forks of this
    process.

    Raises:
        RunFailed: one of them raised, died, or hung.
    """
    try:
        return Forks(world, _ended_in_time, work, *args).results(SECONDS)
    except ranks.RankError as error:
        kind, said = error.cause
        line = re.sub(r"\x1b\[\d*m", "", said).strip().partition("\n")[0]
        raise RunFailed(f"{kind}: {line}" if kind else str(error)) from None


def run_trainer(
    trainer: Path, settings: dict[str, Any], watch: Watch | None = None
) -> Any:
    """On a rank: what `python trainer.py` does, in a group of the rig's."""
    module = load(trainer)
    seen = watch(module) if watch else None
    module.train(module.TrainConfig(**settings), *joined(module))
    return seen


def joined(module: ModuleType) -> Any:
    """On a rank: what the trainer's `join` returns."""
    return module.join(
        store=ranks.store(),
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=timedelta(seconds=SECONDS),
    )


def die_mid_write(limit: int) -> None:
    """From now on, the kernel kills this process when a file that it writes
    reaches `limit` bytes: without a last word, in the middle of the write."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


# Seconds that the phases of a step take on a GPU.
KERNELS = {"forward": 2.0, "backward": 4.0, "optimizer": 1.0}


def queue_step(
    gpu: FakeGpu, phase: Callable[[str], Any], reads: bool = True
) -> None:
    """Queue a step's kernels, each in its `phase`; the last phase may read a
    value, which waits for all of them."""
    for name, seconds in KERNELS.items():
        with phase(name):
            gpu.work(0.001)  # a launch
            gpu.launch(seconds)
            if reads and name == "optimizer":
                gpu.synchronize()


def step_on_a_gpu(
    trainer: Path, folder: Path, timing: bool = True, reads: bool = True
) -> tuple[dict[str, float], float]:
    """One step under the trainer's timers, on the device that stands in, in a
    process of its own: the seconds booked on each phase, and the host's.

    Args:
        timing: whether it is a step that is logged.
        reads: whether its last phase reads a value.
    """
    return on_ranks(1, _step_on_a_gpu, trainer, folder, timing, reads)[0]


def _step_on_a_gpu(
    trainer: Path, folder: Path, timing: bool, reads: bool
) -> tuple[dict[str, float], float]:
    module = load(trainer)
    for part in "events", "samples":
        (folder / part).mkdir(parents=True, exist_ok=True)
    gpu = FakeGpu()
    with gpu.installed(), patch("time.perf_counter", gpu.clock):
        log = module.Log(folder, 0, 0, gpu=True)
        log.timing = timing
        queue_step(gpu, log.phase, reads)
        waited = gpu.now  # reading the timers may wait for the device
        return dict(log.seconds), waited


def _ended_in_time(work: Callable[..., Any], *args: Any) -> Any:
    signal.alarm(SECONDS)  # even if nobody is left who would end it
    # Two ranks on one GPU are refused by NCCL.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    return work(*args)


def _fresh(world: int, trainer: Path, settings: dict[str, Any]) -> None:
    code = f"from {__name__} import _fresh_rank; _fresh_rank()"
    asked = json.dumps([str(trainer), settings], default=str)
    with TemporaryDirectory() as folder:
        here = os.environ | {
            "WORLD_SIZE": str(world),
            "RANKS_STORE": str(Path(folder) / "store"),
            "PYTHONHASHSEED": "random",  # as it is by default
            "OMP_NUM_THREADS": "1",
        }
        started = [
            subprocess.Popen(
                [sys.executable, "-c", code, asked],
                env=here | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(world)
        ]
        said = [process.communicate()[1] for process in started]
    for process, text in zip(started, said, strict=True):
        if process.returncode:
            last = (text.strip() or f"exit code {process.returncode}").rsplit(
                "\n", 1
            )
            raise RunFailed(last[-1])


def _fresh_rank() -> None:
    trainer, settings = json.loads(sys.argv[1])
    settings["run_dir"] = Path(settings["run_dir"])
    torch.set_num_threads(1)
    _ended_in_time(run_trainer, Path(trainer), settings)
    sys.stdout.flush()
    os._exit(0)  # a thread of gloo may abort an interpreter that finalizes


def main(trainer: str) -> None:
    """Print the seconds of the kernels, and those that the timers book."""
    with TemporaryDirectory() as folder:
        booked, _ = step_on_a_gpu(Path(trainer), Path(folder))
    for what, seconds in ("kernels", KERNELS), ("timers", booked):
        said = ", ".join(f"{name} {s:.1f} s" for name, s in seconds.items())
        print(f"{what:>7}: {said}")


if __name__ == "__main__":
    main(sys.argv[1])
