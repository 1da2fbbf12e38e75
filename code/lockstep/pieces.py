"""The trainer's pieces in a training loop of your own: order, checkpoints that
are whole, the record, the watchdog, preemption.

A loop tells a `Run` what it does, in four calls; `examples` has whole ones.
"""

import atexit
import json
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch.distributed as dist

from lockstep.parallel.resume import share
from lockstep.trainer.checkpoint import (
    Manifest,
    Writer,
    newest_good,
    rng_state,
    seed_rank,
    set_rng_state,
    unpacked,
)
from lockstep.trainer.config import ConfigError, TrainConfig
from lockstep.trainer.extensions.events import EventLog
from lockstep.trainer.extensions.launcher import (
    store_of_this_launch,
    wait_for_threads,
)
from lockstep.trainer.extensions.preemption import Preemption
from lockstep.trainer.extensions.progress import Notices
from lockstep.trainer.extensions.record import SampleRecord
from lockstep.trainer.extensions.run_directory import next_attempt, sole_owner
from lockstep.trainer.extensions.watchdog import Watchdog
from lockstep.trainer.process import on_rank0
from lockstep.trainer.telemetry import attach, emit, observers, phase


class Stateful(Protocol):
    """A model, an optimizer, a scheduler, a scaler: what a run is made of."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> Any: ...


def newest(root: Path, belongs: Manifest) -> tuple[Path, Manifest] | None:
    """Return the newest whole checkpoint below `root`, if there is one.

    Raises:
        ConfigError: there are checkpoints of another run, or in the format
            that pieces had until November 2026, which has a file `run.pt`.
    """
    for part in root.glob("step-*/run.pt"):
        raise ConfigError(
            f"{part.parent} was saved by an older version of Lockstep: finish"
            " this run with that version, or start one in a new directory"
        )
    return newest_good(root, belongs)


# --8<-- [start:batches]
@dataclass(frozen=True)
class Batches:
    """This rank's part of each global batch of `size`, from the `first` step to
    before `end`, for a DataLoader's `batch_sampler`. Nothing of it has to be
    saved, and no number of ranks or workers changes which samples a step
    gets."""

    samples: int
    seed: int
    size: int
    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first

    def __iter__(self) -> Iterator[list[int]]:
        rank, world = dist.get_rank(), dist.get_world_size()
        for step in range(self.first, self.end):
            at = step * self.size
            yield share(self.samples, self.seed, at, self.size, rank, world)


# --8<-- [end:batches]
# --8<-- [start:run]
class Run:
    """What a loop tells, and asks. Every rank makes every call."""

    def __init__(
        self,
        run_dir: Path,
        parts: dict[str, Stateful],
        about: dict[str, Any],
        seed: int,
    ) -> None:
        self.run_dir, self.root = run_dir, run_dir / "checkpoints"
        self.parts, self.seed = parts, seed
        self.about = json.loads(json.dumps(about))  # as a manifest has it
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.attempt = 0
        self.newest = "start", time.perf_counter()  # the watchdog looks here
        self.state: dict[str, Any] = {"step": 0, "position": 0}

    def restore(self) -> int:
        """Load the newest whole checkpoint into `parts`; the step that it was
        saved after, or 0 where there is none. ConfigError if it is of a run
        that was `about` something else."""
        belongs = {"config": self.about}
        if not (found := on_rank0(lambda: newest(self.root, belongs))):
            return 0
        folder, manifest = found
        for name, part in self.parts.items():
            part.load_state_dict(unpacked(folder / f"{name}.pt"))
        self.state = manifest["state"]
        if manifest["world_size"] == self.world:
            set_rng_state(unpacked(folder / f"rank-{self.rank}.pt"))
        else:  # other ranks, other states, and not those of the beginning
            seed_rank(self.seed, self.rank, self.state["step"])
        at = {k: v for k, v in self.state.items() if k != "attempt"}
        emit("checkpoint_restored", **at, saved=self.state)
        return self.state["step"]

    def committed(
        self, step: int, position: int, ids: list[int], rate: float, loss: float
    ) -> bool:
        """Record an optimizer step. `ids` are this rank's samples, up to
        `position` in the global order. Returns True on all ranks if they have
        to save and leave."""
        self.newest = "loop", time.perf_counter()
        at = {"step": step, "position": position}
        at_rate = {"learning_rate": rate, "loss": loss}
        self.state = {**at, **at_rate, "attempt": self.attempt}
        for observer in observers:
            observer.committed(step, position, np.array(ids, np.int64))
        emit("step", **at, **at_rate)
        return any(observer.wants_stop(step) for observer in observers)

    def save(self, keep: int = 3) -> None:
        """Publish a checkpoint of this moment, and keep the newest few. What
        cannot be written is said, and training goes on."""
        files: dict[str, Any] = {f"rank-{self.rank}.pt": rng_state()}
        if self.rank == 0:
            whole = self.parts.items()
            files |= {f"{name}.pt": part.state_dict() for name, part in whole}
        manifest = {
            "step": self.state["step"], "attempt": self.attempt,
            "world_size": self.world, "config": self.about, "state": self.state,
        }  # fmt: skip
        cfg = TrainConfig(self.run_dir, keep_checkpoints=keep)
        self.newest = "save", time.perf_counter()
        with phase("checkpoint"):
            Writer().finish(cfg, manifest, files, leaving=False)
        self.newest = "loop", time.perf_counter()

    def finished(self) -> None:
        """Record the end of the run."""
        emit("run_finished", **self.state)


# --8<-- [end:run]
# --8<-- [start:attached]
@contextmanager
def attached(
    run_dir: Path,
    parts: dict[str, Stateful],
    about: dict[str, Any],
    samples: int,
    seed: int,
    seconds: float = 600.0,
) -> Iterator[Run]:
    """Own `run_dir` while a loop trains `parts`; its process group is there.

    `about` says what the run is, in plain data that JSON can hold: a checkpoint
    that says otherwise is refused. `samples` and `seed` define the order that
    the record is audited against, which is that of `GlobalOrder`; on another
    number of ranks, RNG states follow from `seed` too. When `seconds` pass
    without a call, all ranks end. ConfigError while another job has `run_dir`.
    Python shuts down only when the threads of the process group are at rest.
    """
    atexit.register(wait_for_threads)
    run = Run(run_dir, parts, about, seed)
    with ExitStack() as held:

        def claim() -> tuple[int, str]:
            held.enter_context(sole_owner(run_dir))
            for part in ("events", "samples"):
                (run_dir / part).mkdir(exist_ok=True)
            return next_attempt(run_dir), uuid.uuid4().hex

        run.attempt, run_id = on_rank0(claim)
        store, place = store_of_this_launch(), (run_dir, run.attempt, run.rank)
        attach(
            SampleRecord(*place),
            Preemption(store, run.world, held),
            Watchdog(*place, run.world, seconds, run, store, held),
            EventLog(*place, run_id, {}),
            *([Notices()] if run.rank == 0 else []),
        )
        begun = {"attempt": run.attempt, "world_size": run.world}
        emit("run_started", dataset_length=samples, seed=seed, **begun)
        yield run


# --8<-- [end:attached]
