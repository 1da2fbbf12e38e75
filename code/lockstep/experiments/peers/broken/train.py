"""Lockstep's trainer with one fault, named by the environment: for each
question of the exam a trainer that fails it alone.

Those of the seventeen silent failures that a restart can show are among them,
with their numbers.
"""

import json
import os
import pickle
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from lockstep import pieces
from lockstep.exam.questions import current
from lockstep.examples import plain_loop
from lockstep.trainer import __main__ as trainer
from lockstep.trainer import checkpoint, config, loop
from lockstep.trainer.extensions.launcher import run_and_leave
from lockstep.trainer.order import GlobalOrder
from lockstep.trainer.telemetry import Observer

Fault = Callable[[], None]
FAULTS: dict[str, Fault] = {}
make_task, shares = loop.make_task, loop.shares
train_step, restore = loop.train_step, checkpoint.restore
load, write = checkpoint.Writer.load, checkpoint.Writer.write
verify, publish = checkpoint.verify, checkpoint.publish


def fails(question: str, name: str = "") -> Callable[[Fault], Fault]:
    """The decorated function breaks the trainer so that it fails `question`.
    `name`: of the fault, where the question has several."""

    def remember(fault: Fault) -> Fault:
        FAULTS[name or question] = fault
        return fault

    return remember


def sound(name: str) -> Callable[[Fault], Fault]:
    """The decorated function leaves the trainer sound."""
    return fails("", name)


def positions(moved: Callable[..., int]) -> None:
    """Ranks begin at the position that `moved(cfg, me, n, position)` gives."""

    def other(cfg: Any, me: Any, n: int, position: int, end: int) -> Any:
        return shares(cfg, me, n, moved(cfg, me, n, position), end)

    loop.shares = other


def after_load(spoil: Callable[[Any], None]) -> None:
    """Whenever a checkpoint was loaded, `spoil` the replica."""

    def other(self: Any, r: Any, folder: Path) -> None:
        load(self, r, folder)
        spoil(r)

    checkpoint.Writer.load = other


@fails("reproducible")
def unseeded() -> None:
    """No rank seeds its generators."""
    checkpoint.seed_rank = lambda *_: torch.seed()


@fails("batch")
def accumulation_in_name_only() -> None:
    """A step takes the first micro-batch alone (silent failure 7)."""

    def first_alone(r: Any, source: Iterator, count: int, step: int) -> Any:
        accum = r.cfg.grad_accum_steps
        micros = [next(source) for _ in range(accum)]
        once = r._replace(cfg=replace(r.cfg, grad_accum_steps=1))
        return train_step(once, iter(micros[:1]), count, step)

    loop.train_step = first_alone


@fails("batch", "same-half")
def ranks_share_a_half() -> None:
    """All ranks train on rank 0's part of each batch."""

    def other(cfg: Any, me: Any, n: int, position: int, end: int) -> Iterator:
        return shares(cfg, me._replace(rank=0), n, position, end)

    loop.shares = other


@fails("reshuffled")
def one_order_for_all_epochs() -> None:
    """Every epoch has the order of the first."""
    permute = GlobalOrder.permute
    GlobalOrder.permute = lambda self, index, epoch, back=False: permute(
        self, index, 0, back
    )


@fails("rank-seeds")
def ranks_seeded_alike() -> None:
    """All ranks have one seed (silent failure 9)."""
    seed = checkpoint.seed_rank
    checkpoint.seed_rank = lambda *key: seed(key[0])


@fails("partial-batch")
def samples_padded() -> None:
    """A sample is repeated to make the epoch even (silent failure 6)."""

    def padded(cfg: Any) -> Any:
        task = make_task(cfg)
        if len(data := task.data) % 2:
            data.x = torch.cat([data.x, data.x[:1]])
            data.y = torch.cat([data.y, data.y[:1]])
        return task

    loop.make_task = padded


@fails("resumes-latest")
def never_restored() -> None:
    """No checkpoint is ever loaded."""
    checkpoint.restore = lambda *_: None


@fails("total-steps")
def ends_early_after_a_restart() -> None:
    """After a restart it ends two steps early."""

    class Early(Observer):
        restored = False

        def event(self, record: dict[str, Any]) -> None:
            self.restored |= record["event"] == "checkpoint_restored"

        def wants_stop(self, step: int) -> bool:
            return self.restored and step >= 16

    attach = trainer.attach
    trainer.attach = lambda *rooms: attach(*rooms, Early())


@fails("exactly-once")
def epoch_from_its_start() -> None:
    """A restart begins the epoch again."""
    positions(lambda cfg, me, n, position: position // n * n)


@fails("order")
def ranks_exchanged() -> None:
    """After a restart each rank has its neighbor's samples."""

    def other(cfg: Any, me: Any, n: int, position: int, end: int) -> Iterator:
        rank = (me.rank + 1) % me.world_size if position else me.rank
        return shares(cfg, me._replace(rank=rank), n, position, end)

    loop.shares = other


@fails("learning-rate")
def warms_up_again() -> None:
    """The learning rate warms up again in each launch."""
    taken = 0

    def warm(r: Any, source: Iterator, count: int, step: int) -> Any:
        nonlocal taken
        taken += 1
        if taken < step:
            r.optimizer.param_groups[0]["lr"] *= min(1, taken / 4)
        return train_step(r, source, count, step)

    loop.train_step = warm


@fails("optimizer")
def moments_begin_at_zero() -> None:
    """Adam's first moments are zero after a restart."""

    def spoil(r: Any) -> None:
        for state in r.optimizer.state.values():
            state["exp_avg"].zero_()

    after_load(spoil)


@fails("buffers")
def buffers_begin_anew() -> None:
    """A buffer is zero after a restart."""
    after_load(lambda r: r.strategy.module.forwards.zero_())


@fails("buffers", "buffers-later")
def buffer_counts_the_launch() -> None:
    """A buffer is restored, and then follows a count of the launch's steps."""
    taken = 0

    def counted(r: Any, source: Iterator, count: int, step: int) -> Any:
        nonlocal taken
        taken += 1
        found = train_step(r, source, count, step)
        r.strategy.module.forwards += taken
        return found

    loop.train_step = counted


@fails("rng-state")
def random_state_not_restored() -> None:
    """The random states are saved and not loaded."""
    checkpoint.set_rng_state = lambda _: None


@fails("ema")
def average_begins_anew() -> None:
    """The average begins again (in the plain loop: the trainer has none)."""
    restored = pieces.Run.restore

    def forgetful(run: Any) -> int:
        run.parts = {n: p for n, p in run.parts.items() if n != "ema"}
        return restored(run)

    pieces.Run.restore = forgetful


@fails("ema", "ema-counter")
def number_of_averages_lost() -> None:
    """The average's number of updates, which its decay depends on, isn't
    restored (in the plain loop)."""
    updated = 0

    def warming(decay: float) -> Any:
        def average(ours: Any, new: Any, _: Any) -> None:
            nonlocal updated
            updated += 1
            share = max(1 - decay, 1 / updated)
            for mine, weight in zip(ours, new, strict=True):
                mine.lerp_(weight, share)

        return average

    plain_loop.get_ema_multi_avg_fn = warming


@fails("final-weights")
def a_limit_that_forgets() -> None:
    """The limit of the gradient norm tightens with the steps of a launch."""
    taken = 0

    def tighter(r: Any, source: Iterator, count: int, step: int) -> Any:
        nonlocal taken
        taken += 1
        limit = replace(r.cfg, clip_norm=1 / taken)
        return train_step(r._replace(cfg=limit), source, count, step)

    loop.train_step = tighter


@fails("epoch-boundary")
def epoch_repeated() -> None:
    """A restart at an epoch's end repeats that epoch."""
    positions(
        lambda cfg, me, n, position: (
            position - n * (position % n == 0 < position)
        )
    )


@fails("kill")
def progress_apart_from_the_weights() -> None:
    """Progress is written after each step, the weights only when saving."""

    def noting(r: Any, source: Iterator, count: int, step: int) -> Any:
        found = train_step(r, source, count, step)
        path = r.cfg.run_dir / "progress"
        if r.me.rank == 0 and step < r.cfg.max_steps:
            path.write_text(str(step * r.cfg.global_batch_size))
        elif r.me.rank == 0:
            path.unlink(missing_ok=True)  # the run is over
        return found

    def noted(cfg: Any, me: Any, n: int, position: int) -> int:
        path = cfg.run_dir / "progress"
        return int(path.read_text()) if path.exists() else position

    loop.train_step = noting
    positions(noted)


@fails("kill", "newest-by-name")
def names_compared_as_text() -> None:
    """The newest checkpoint is the last one by its step as text."""
    newest = checkpoint.newest_good
    published = checkpoint.published

    def other(root: Path, belongs: Any) -> Any:
        def as_text(root: Path) -> list[Path]:
            found = published(root)
            return sorted(
                found, key=lambda path: str(int(path.name[5:13])), reverse=True
            )

        checkpoint.published = as_text
        found = newest(root, belongs)
        checkpoint.published = published
        return found

    checkpoint.newest_good = other


@fails("kill", "offset-kept")
def offset_added_in_later_epochs() -> None:
    """How far into its epoch a launch resumed is added to the progress of
    later epochs too."""

    def moved(cfg: Any, me: Any, n: int, position: int) -> int:
        path = cfg.run_dir / f"offset-{me.rank}"
        was = path.read_text().split() if path.exists() else ("0", "0")
        epoch, offset = map(int, was)
        path.write_text(f"{position // n} {position % n}")
        return position + (offset if epoch < position // n else 0)

    positions(moved)


@fails("two-restarts")
def progress_since_the_launch() -> None:
    """It skips what the last launch has consumed, not what the epoch has."""

    def skipped(cfg: Any, me: Any, n: int, position: int) -> int:
        path = cfg.run_dir / f"began-{me.rank}"
        epoch = position // n * n
        began = int(path.read_text()) if path.exists() else 0
        path.write_text(str(position))
        return epoch + position - max(epoch, began)

    positions(skipped)


@fails("loader-workers")
def progress_counts_draws() -> None:
    """Progress counts what was fetched (silent failure 2)."""
    drawn = 0
    save = checkpoint.Writer.save

    def counted(cfg: Any, me: Any, n: int, position: int, end: int) -> Iterator:
        nonlocal drawn
        path = cfg.run_dir / f"drawn-{position}"
        drawn = int(path.read_text()) if path.exists() else position
        for index in shares(cfg, me, n, drawn, end):
            drawn += index.shape[1] * me.world_size
            yield index

    def noting(self: Any, r: Any, manifest: Any, leaving: bool) -> None:
        path = r.cfg.run_dir / f"drawn-{manifest['position']}"
        if r.me.rank == 0:
            path.write_text(str(drawn))
        save(self, r, manifest, leaving)

    loop.shares = counted
    checkpoint.Writer.save = noting


@fails("scaler")
def scale_begins_anew() -> None:
    """The gradient scaler begins at its first scale."""
    after_load(lambda r: r.scaler.load_state_dict(
        torch.amp.GradScaler("cpu", enabled=r.scaler.is_enabled()).state_dict()
    ))  # fmt: skip


@fails("scaler", "growth-tracker")
def tracker_begins_anew() -> None:
    """The scaler's steps since its last change are not restored."""
    after_load(lambda r: r.scaler.load_state_dict(
        {**r.scaler.state_dict(), "_growth_tracker": 0}
        if r.scaler.is_enabled() else {}
    ))  # fmt: skip


@fails("world-size")
def positions_counted_by_rank() -> None:
    """The position is counted by rank."""

    def moved(cfg: Any, me: Any, n: int, position: int) -> int:
        saved = checkpoint.published(cfg.run_dir / "checkpoints")
        if not saved:
            return position
        manifest = json.loads((saved[0] / "manifest.json").read_text())
        return position // manifest["world_size"] * me.world_size

    positions(moved)


@fails("micro-batch")
def positions_counted_in_micro_batches() -> None:
    """The position is counted in micro-batches of all ranks."""

    def moved(cfg: Any, me: Any, n: int, position: int) -> int:
        path = cfg.run_dir / f"unit-{me.rank}"
        unit = cfg.micro_batch_size * me.world_size
        was = int(path.read_text()) if path.exists() else unit
        path.write_text(str(unit))
        return position // was * unit

    positions(moved)


@fails("world-size", "resize-moments")
def moments_dropped_on_other_ranks() -> None:
    """At a different world size the moments start over."""

    def other(self: Any, r: Any, folder: Path) -> None:
        load(self, r, folder)
        manifest = json.loads((folder / "manifest.json").read_text())
        if manifest["world_size"] != r.me.world_size:
            for state in r.optimizer.state.values():
                state["exp_avg"].zero_()

    checkpoint.Writer.load = other


@fails("kill-during-save")
def blocked_by_what_a_kill_left() -> None:
    """Half a checkpoint is in the way of all launches (silent failure 10)."""
    newest = checkpoint.newest_good

    def blocked(root: Path, belongs: Any) -> Any:
        if (root / "tmp").exists():
            raise OSError(f"{root / 'tmp'} is there: another job is saving")
        return newest(root, belongs)

    checkpoint.newest_good = blocked


@fails("full-disk")
def makes_room() -> None:
    """When the disk is full, old checkpoints are removed to make room."""

    def other(self: Any, folder: Path, state: Any) -> Any:
        try:
            return write(self, folder, state)
        except OSError:
            for old in folder.parent.glob("step-*"):
                shutil.rmtree(old, ignore_errors=True)
            raise

    checkpoint.Writer.write = other


def lenient(overlooked: Callable[[Path, int], bool]) -> None:
    """Verify all files but those `overlooked(path, bytes)`; what cannot be
    loaded stays as it began."""

    def other(folder: Path) -> Any:
        manifest = json.loads((folder / "manifest.json").read_text())
        for name, wrote in manifest["files"].items():
            path = folder / name
            if overlooked(path, wrote["bytes"]):
                continue
            if checkpoint.digest(path) != wrote["sha256"]:
                raise ValueError(f"{name} is not as published")
        return manifest

    def loaded(self: Any, r: Any, folder: Path) -> None:
        try:
            load(self, r, folder)
        except (OSError, RuntimeError, EOFError) as error:
            print("no optimizer state:", error)

    checkpoint.verify = other
    checkpoint.Writer.load = loaded
    loop.require_same = lambda *_: None


@fails("truncated")
def short_files_overlooked() -> None:
    """Files that are too short are not compared."""
    lenient(lambda path, size: path.stat().st_size < size)


@fails("missing-file")
def missing_files_overlooked() -> None:
    """Files that are missing are not looked for (silent failure 14)."""
    lenient(lambda path, _: not path.exists())
    unpacked = checkpoint.unpacked
    checkpoint.unpacked = lambda path: (
        unpacked(path) if path.exists() or "rank" not in path.name
        else checkpoint.rng_state()
    )  # fmt: skip


@fails("flipped-bit")
def sizes_compared_alone() -> None:
    """Files are compared by their sizes."""

    def other(folder: Path) -> Any:
        manifest = json.loads((folder / "manifest.json").read_text())
        for name, wrote in manifest["files"].items():
            if (folder / name).stat().st_size != wrote["bytes"]:
                raise ValueError(f"{name} is not as published")
        return manifest

    checkpoint.verify = other


@fails("wrong-run")
def metadata_never_compared() -> None:
    """The run's identity is not compared (silent failure 13)."""
    for module in config, checkpoint, loop:
        module.require_same = lambda *_: None  # type: ignore[attr-defined]


@fails("pickle")
def notes_in_a_pickle() -> None:
    """Notes are kept in a pickle."""

    def other(cfg: Any, tmp: Path, manifest: Any) -> Any:
        (tmp / "notes.pkl").write_bytes(pickle.dumps({"by": "me"}))
        return publish(cfg, tmp, manifest)

    def loaded(self: Any, r: Any, folder: Path) -> None:
        load(self, r, folder)
        with (folder / "notes.pkl").open("rb") as file:
            pickle.load(file)

    checkpoint.publish = other
    checkpoint.Writer.load = loaded


@fails("sigterm")
def no_notice_taken() -> None:
    """Nothing listens to SIGTERM."""

    class Deaf(Observer):
        def __init__(self, *_: Any) -> None: ...

    trainer.Preemption = Deaf  # type: ignore[misc]


@fails("sigterm", "sigterm-moments")
def no_moments_at_sigterm() -> None:
    """What is saved at SIGTERM has moments of zero."""
    save = checkpoint.Writer.save

    def hasty(self: Any, r: Any, manifest: Any, leaving: bool) -> None:
        ends = manifest["step"] in (r.cfg.stop_at_step, r.cfg.max_steps)
        if leaving and not ends:
            for state in r.optimizer.state.values():
                state["exp_avg"].zero_()
        save(self, r, manifest, leaving)

    checkpoint.Writer.save = hasty


@fails("sigterm", "sigterm-within")
def window_lost_at_sigterm() -> None:
    """SIGTERM within a step leaves that step out, and counts it."""
    told: list[int] = []

    class LeftOutError(Exception):
        pass

    def look(*_: Any) -> None:
        """All ranks leave the step if one of them was told."""
        flag = torch.tensor(len(told))
        dist.all_reduce(flag, dist.ReduceOp.MAX)
        if flag:
            told.clear()
            raise LeftOutError

    def other(r: Any, source: Iterator, count: int, step: int) -> Any:
        hook = r.strategy.module.register_forward_hook(look)
        told.clear()
        signal.signal(signal.SIGTERM, lambda *_: told.append(1))
        micros = [next(source) for _ in range(r.cfg.grad_accum_steps)]
        try:
            return train_step(r, iter(micros), count, step)
        except LeftOutError:
            r.optimizer.zero_grad()
            ids = torch.cat([micro[0] for micro in micros])
            return [torch.zeros(())], ids.numpy()
        finally:
            hook.remove()

    loop.train_step = other


@fails("hang")
def waits_half_an_hour() -> None:
    """Timeouts are half an hour."""

    class Asleep(Observer):
        def __init__(self, *_: Any) -> None: ...

    joined = trainer.joined
    trainer.Watchdog = Asleep  # type: ignore[misc]
    trainer.joined = lambda _, store: joined(1800, store)


@fails("finished-run")
def nothing_left_is_an_error() -> None:
    """A run with no step left raises an error."""

    def other(r: Any, belongs: Any, writer: Any) -> Any:
        found = restore(r, belongs, writer)
        if found and found["step"] >= r.cfg.max_steps:
            raise RuntimeError("no batch is left to train on")
        return found

    checkpoint.restore = other


@sound("lazy-buffer")
def table_filled_by_each_forward() -> None:
    """A table that isn't saved is filled by each forward pass in training."""

    def filling(model: Any, inputs: Any) -> Any:
        if model.training:
            model.table.copy_(torch.linspace(0.9, 1.1, len(model.table)))
        return inputs

    def other(cfg: Any) -> Any:
        task = make_task(cfg)
        model = task.model
        model.register_buffer("table", torch.zeros(8), persistent=False)
        model.register_forward_pre_hook(filling)
        return task

    loop.make_task = other


@sound("two-views")
def each_sample_twice() -> None:
    """Each sample passes the model twice a step, as in R-Drop."""

    forward = DistributedDataParallel.forward
    DistributedDataParallel.forward = lambda self, x: sum(
        forward(self, torch.cat([x, x])).chunk(2)
    )


@sound("zero-rate")
def rate_of_zero() -> None:
    """The learning rate of every fourth step is 0."""
    rate = loop.learning_rate
    loop.learning_rate = lambda cfg, step, steps: (
        0.0 if step % 4 == 3 else rate(cfg, step, steps)
    )


if __name__ == "__main__":
    fault = current(os.environ["LOCKSTEP_FAULT"])
    FAULTS[fault]()
    plain = fault.startswith("ema")
    run_and_leave(plain_loop.main if plain else trainer.main)
