"""The trainer's pieces in a training loop of your own: order, checkpoints that
are whole, the record, the watchdog, preemption.

A loop tells a `Run` what it does, in four calls; `examples` has whole ones.
"""

import atexit
import json
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch.distributed as dist

from lockstep.parallel.resume import (
    MANIFEST,
    NAMES,
    damage,
    load,
    newest,
    on_rank_0,
    publish,
    share,
)
from lockstep.trainer.checkpoint import (
    rng_state,
    seed_rank,
    set_rng_state,
)
from lockstep.trainer.config import require_same
from lockstep.trainer.extensions.events import EventLog
from lockstep.trainer.extensions.launcher import (
    store_of_this_launch,
    wait_for_threads,
)
from lockstep.trainer.extensions.preemption import Preemption
from lockstep.trainer.extensions.record import SampleRecord
from lockstep.trainer.extensions.run_directory import next_attempt, sole_owner
from lockstep.trainer.extensions.watchdog import Watchdog
from lockstep.trainer.process import on_rank0
from lockstep.trainer.telemetry import attach, emit, observers, phase


class Stateful(Protocol):
    """A model, an optimizer, a scheduler, a scaler: what a run is made of."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> Any: ...


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
class Kept:
    """The checkpoints of a run, of which the newest few are kept.

    A save must not read all of them again while every rank waits. So a
    checkpoint that this process published, or found whole, counts as whole
    until one of its files changes; and before an older one is removed, one of
    those that stay has been read back and compared with its digests.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.whole: dict[Path, dict[str, tuple[int, ...]]] = {}
        self.read: set[Path] = set()  # those of `whole` that were read back

    def published(self, step: int) -> None:
        """The checkpoint of this step has just been published."""
        folder = self.root / f"step-{step:08d}"
        files = json.loads((folder / MANIFEST).read_bytes())["files"]
        found = state_of(folder)
        self.read.discard(folder)
        if all(found.get(f, (-1,))[0] == files[f]["bytes"] for f in files):
            self.whole[folder] = found

    def is_whole(self, folder: Path) -> bool:
        """Whether it is as it was published; read only if it has changed."""
        if self.whole.get(folder) != (found := state_of(folder)):
            self.read.discard(folder)
            if damage(folder):
                return False
            self.whole[folder] = found
            self.read.add(folder)
        return True

    def prune(self, keep: int, step: int) -> None:
        """Remove what is older than the newest `keep` whole checkpoints, when
        this process has just published that of `step`."""
        self.published(step)
        folders = sorted(self.root.glob(NAMES), reverse=True)
        while True:
            stay = [*islice(filter(self.is_whole, folders), keep)]
            older = [one for one in folders if one < stay[-1]] if stay else []
            if len(stay) < keep or not older:
                return
            if not self.read.isdisjoint(stay):
                break
            del self.whole[stay[0]]  # it stays for longest: read it back
        for folder in older:
            shutil.rmtree(self.root / "tmp", ignore_errors=True)
            shutil.rmtree(folder.rename(self.root / "tmp"))
            self.whole.pop(folder, None)
            self.read.discard(folder)


def state_of(folder: Path) -> dict[str, tuple[int, ...]]:
    """Size, inode and times of each file, which tell whether it has changed."""
    found: dict[str, tuple[int, ...]] = {}
    for file in folder.iterdir():
        at = file.stat()
        found[file.name] = at.st_size, at.st_ino, at.st_mtime_ns, at.st_ctime_ns
    return found


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
        self.root = run_dir / "checkpoints"
        self.kept = Kept(self.root)
        self.parts, self.about, self.seed = parts, about, seed
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.attempt = 0
        self.newest = "start", time.perf_counter()  # the watchdog looks here
        self.state: dict[str, Any] = {"step": 0, "position": 0}

    def restore(self) -> int:
        """Load the newest whole checkpoint into `parts`; the step that it was
        saved after, or 0 where there is none. ConfigError if it is of a run
        that was `about` something else."""
        if not (folder := newest(self.root)):
            return 0
        saved = load(folder, "run")
        require_same(self.about, saved["about"])
        for name, part in self.parts.items():
            part.load_state_dict(load(folder, name))
        self.state = saved["state"]
        if saved["world"] == self.world:
            set_rng_state(load(folder, f"random-{self.rank}"))
        else:  # other ranks, other states, and not those of the beginning
            seed_rank(self.seed, self.rank, self.state["step"])
        at = {k: v for k, v in self.state.items() if k != "attempt"}
        emit("checkpoint_restored", **at, saved=self.state)
        return self.state["step"]

    def committed(
        self, step: int, position: int, ids: list[int], rate: float, loss: float
    ) -> bool:
        """The optimizer has taken `step`. `ids` are this rank's of the samples
        up to `position` in the order of all. True, on all ranks alike, if they
        are to save and leave."""
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
        step = self.state["step"]
        whole: dict[str, Any] = {}
        if self.rank == 0:
            whole = {n: part.state_dict() for n, part in self.parts.items()}
            whole["run"] = {
                "state": self.state, "about": self.about, "world": self.world
            }  # fmt: skip
        whole[f"random-{self.rank}"] = rng_state()
        self.newest = "save", time.perf_counter()
        try:
            with phase("checkpoint"):
                publish(self.root, step, whole)
            on_rank_0(partial(self.kept.prune, keep, step))
        except RuntimeError as error:
            emit("checkpoint_failed", step=step, reason=str(error))
            if self.rank == 0:
                print(f"no checkpoint of step {step}: {error}", flush=True)
        else:
            emit("checkpoint_saved", step=step)
        self.newest = "loop", time.perf_counter()

    def finished(self) -> None:
        """The run has come to its end."""
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

    `about` says what the run is, in plain data: a checkpoint that says
    otherwise is refused. `samples` and `seed` define the order that the record
    is audited against, which is that of `GlobalOrder`; on another number of
    ranks, random states follow from `seed` too. When `seconds` pass
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
        )
        begun = {"attempt": run.attempt, "world_size": run.world}
        emit("run_started", dataset_length=samples, seed=seed, **begun)
        yield run


# --8<-- [end:attached]
