"""A sound trainer that shares no code with Lockstep's, and its variants.

It has its own model, data, order, loop, launcher and checkpoints: gradient
accumulation, BatchNorm whose statistics differ by rank and whose momentum
follows a schedule, AdamW with two groups, warm-up and cosine, averaged weights,
an fp16 scaler, a file per rank, and a save at SIGTERM. LOCKSTEP_FAULT names a
variant of `FAULTS`, which replaces one piece. Only `observe` is the exam's.
"""

import copy
import hashlib
import json
import math
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from lockstep.exam.observe import observe

FEATURES, WIDTH, CLASSES = 24, 48, 5
ACCUMULATE = 2  # micro-batches in a step, unless a launch says otherwise
KEEP = 3  # checkpoints
RATES = 4e-3, 2e-3  # of the weights, and of everything else


class Net(nn.Module):
    """Rows (m, 24) to logits (m, 5)."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Linear(FEATURES, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(WIDTH, CLASSES)

    def forward(self, rows: Tensor) -> Tensor:
        return self.out(self.drop(self.norm(self.inside(rows)).relu()))


class Average:
    """An average of a model's weights that forgets faster at first."""

    def __init__(self, net: nn.Module) -> None:
        self.net, self.updates = copy.deepcopy(net), 0

    @torch.no_grad()
    def update(self, net: nn.Module) -> None:
        self.updates += 1
        share = max(0.01, 9 / (self.updates + 9))
        pairs = zip(self.net.parameters(), net.parameters(), strict=True)
        for mine, new in pairs:
            mine.lerp_(new, share)

    def state_dict(self) -> dict[str, Any]:
        return {"net": self.net.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.net.load_state_dict(state["net"])
        self.updates = state["updates"]


class Run:
    """One rank's part of a run."""

    def __init__(self, settings: SimpleNamespace, rank: int) -> None:
        self.s, self.rank, self.world = settings, rank, settings.ranks
        self.root = Path(settings.run_dir) / "saved"
        self.taken = self.here = 0  # steps of the run, and of this launch
        self.told = False  # to save and leave
        share = settings.global_batch // settings.ranks
        micro = settings.micro_batch or share // ACCUMULATE
        self.accumulate = share // micro
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "told", True))
        self.build()
        self.seed()

    def build(self) -> None:
        """The model and everything that goes with it, alike on all ranks."""
        torch.manual_seed(self.s.seed)
        self.net = Net()
        self.average = Average(self.net)
        self.optimizer = self.make_optimizer()
        half = self.s.precision == "fp16"
        self.scaler = torch.amp.GradScaler("cpu", 1024.0, enabled=half)
        self.half = torch.autocast("cpu", torch.float16, enabled=half)
        observe(self.net, self.optimizer, average=self.average)
        self.replica = DistributedDataParallel(
            self.net, forward_sync_buffers=False
        )

    def make_optimizer(self) -> torch.optim.Optimizer:
        plain = [p for p in self.net.parameters() if p.dim() < 2]
        large = [p for p in self.net.parameters() if p.dim() > 1]
        return torch.optim.AdamW(
            [{"params": large, "weight_decay": 0.05}, {"params": plain}],
            weight_decay=0.0,
        )

    def seed(self) -> None:
        """Each rank draws other dropout."""
        torch.manual_seed(9973 * self.s.seed + 101 * self.taken + self.rank)

    def data(self) -> TensorDataset:
        """Rows of class centers and noise, with their classes."""
        draw = torch.Generator().manual_seed(31 + self.s.variant)
        classes = torch.arange(self.s.samples) % CLASSES
        centers = torch.randn(CLASSES, FEATURES, generator=draw)
        noise = torch.randn(self.s.samples, FEATURES, generator=draw)
        return TensorDataset(centers[classes] + noise, classes)

    def order(self, epoch: int) -> list[int]:
        draw = torch.Generator().manual_seed(7 * self.s.seed + 1000 + epoch)
        return torch.randperm(self.s.samples, generator=draw).tolist()

    def batch(self, step: int) -> list[int]:
        """The global batch of a step; one may reach into the next epoch."""
        size, n = self.s.global_batch, self.s.samples
        places = range(step * size, (step + 1) * size)
        return [self.order(place // n)[place % n] for place in places]

    def mine(self, batch: list[int]) -> list[int]:
        return batch[self.rank :: self.world]

    def plan(self) -> Iterator[list[int]]:
        """The micro-batches from here on."""
        for step in range(self.taken, self.s.steps):
            rows = self.mine(self.batch(step))
            size = len(rows) // self.accumulate
            yield from (
                rows[k * size : (k + 1) * size] for k in range(self.accumulate)
            )

    def rate(self) -> float:
        """Relative to the highest: warm up, then a cosine."""
        if self.taken < 4:
            return (self.taken + 1) / 4
        return 0.55 + 0.45 * math.cos(math.pi * (self.taken - 3) / 16)

    def momentum(self) -> float:
        """Of the running statistics."""
        return max(0.02, 0.3 * 0.85**self.taken)

    def loss(self, rows: Tensor, classes: Tensor) -> Tensor:
        with self.half:
            return cross_entropy(self.replica(rows).float(), classes)

    def step(self, batches: Iterator[Any]) -> None:
        """One optimizer step."""
        self.net.norm.momentum = self.momentum()
        for group, rate in zip(self.optimizer.param_groups, RATES, strict=True):
            group["lr"] = rate * self.rate()
        self.gradients(batches)
        self.update()
        self.taken, self.here = self.taken + 1, self.here + 1

    def gradients(self, batches: Iterator[Any]) -> None:
        """Those of a step, from its micro-batches."""
        for k in range(self.accumulate):
            last = k == self.accumulate - 1
            with nullcontext() if last else self.replica.no_sync():
                loss = self.loss(*next(batches)) / self.accumulate
                self.scaler.scale(loss).backward()

    def update(self) -> None:
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self.average.update(self.net)

    def shared(self) -> dict[str, Any]:
        """What all ranks have in common."""
        return {
            "net": dict(self.net.named_parameters()),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "taken": self.taken,
        }

    def own(self) -> dict[str, Any]:
        """What each rank has for itself."""
        weights = {*dict(self.net.named_parameters())}
        state = self.net.state_dict().items()
        return {
            "buffers": {n: b for n, b in state if n not in weights},
            "random": torch.get_rng_state(),
        }

    def put_back(self, shared: dict[str, Any], own: dict[str, Any]) -> None:
        self.net.load_state_dict({**shared["net"], **own["buffers"]})
        self.average.load_state_dict(shared["average"])
        self.optimizer.load_state_dict(shared["optimizer"])
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(shared["scaler"])
        self.taken = shared["taken"]

    def belongs(self) -> dict[str, Any]:
        """What must never change in a run."""
        names = "seed", "variant", "samples", "global_batch"
        return {name: getattr(self.s, name) for name in names}

    def save(self) -> None:
        """Every rank's file, then their digests, then a name."""
        folder = self.root / "unfinished"
        if self.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        dist.barrier()
        if self.rank == 0:
            torch.save(self.shared(), folder / "shared.pt")
        torch.save(self.own(), folder / f"rank{self.rank}.pt")
        dist.barrier()
        if self.rank == 0:
            self.publish(folder)
        dist.barrier()

    def publish(self, folder: Path) -> None:
        said = {
            "belongs": self.belongs(),
            "world": self.world,
            "files": {path.name: digest(path) for path in folder.iterdir()},
        }
        text = json.dumps(said)
        seal = hashlib.sha256(text.encode()).hexdigest()
        (folder / "seal.txt").write_text(f"{seal}\n{text}")
        folder.rename(self.root / f"{self.taken:06d}")
        for old in self.published()[:-KEEP]:
            shutil.rmtree(old)

    def published(self) -> list[Path]:
        """Oldest first."""
        return sorted(self.root.glob("[0-9]*"))

    def newest(self) -> tuple[Path, dict[str, Any]] | None:
        """The newest whole checkpoint; damaged ones are set aside."""
        for folder in reversed(self.published()):
            try:
                return folder, unsealed(folder)
            except (OSError, ValueError) as error:
                print(f"{folder} is damaged: {error}", flush=True)
                folder.rename(folder.with_name(f"damaged-{os.getpid()}"))
        return None

    def resume(self) -> None:
        """From what rank 0 finds, if it finds any."""
        found = [self.newest() if self.rank == 0 else None]
        dist.broadcast_object_list(found)
        if not found[0]:
            return
        folder, said = found[0]
        if said["belongs"] != self.belongs():
            raise ValueError(f"{folder} belongs to another run")
        rank = self.rank % said["world"]
        shared = torch.load(folder / "shared.pt", weights_only=True)
        own = torch.load(folder / f"rank{rank}.pt", weights_only=True)
        self.put_back(shared, own)
        if said["world"] == self.world:
            torch.set_rng_state(own["random"])
        else:
            self.seed()

    def leaving(self) -> bool:
        """Whether any rank was told to save and leave."""
        told = torch.tensor(int(self.told))
        dist.all_reduce(told, dist.ReduceOp.MAX)
        return bool(told)

    def train(self) -> None:
        self.resume()
        loader = DataLoader(
            self.data(),
            batch_sampler=self.plan(),  # type: ignore[arg-type]
            num_workers=self.s.workers,
            generator=torch.Generator().manual_seed(0),
        )
        batches = iter(loader)
        while self.taken < self.s.steps:
            self.step(batches)
            last = self.taken in (self.s.steps, self.s.stop_at)
            leaving = self.leaving() or last
            if leaving or self.taken % self.s.save_every == 0:
                self.save()
            if leaving:
                break


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unsealed(folder: Path) -> dict[str, Any]:
    """What a checkpoint says of itself; ValueError if it is not whole."""
    seal, _, text = (folder / "seal.txt").read_text().partition("\n")
    if hashlib.sha256(text.encode()).hexdigest() != seal:
        raise ValueError("its seal is broken")
    said = json.loads(text)
    for name, one in said["files"].items():
        if digest(folder / name) != one:
            raise ValueError(f"{name} is not as it was written")
    return said


def rank_process(settings: SimpleNamespace, rank: int, meet: Path) -> int:
    """Train one rank; its exit code."""
    try:
        torch.set_num_threads(1)
        dist.init_process_group(
            "gloo", f"file://{meet}", rank=rank, world_size=settings.ranks,
            timeout=timedelta(seconds=settings.timeout_seconds),
        )  # fmt: skip
        Run(settings, rank).train()
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def launch(settings: SimpleNamespace) -> int:
    """Fork a process for each rank; when one fails, end the others."""
    run_dir = Path(settings.run_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    meet = run_dir / f"meet-{os.getpid()}"
    ranks: set[int] = set()
    signal.signal(
        signal.SIGTERM, lambda *_: [os.kill(p, signal.SIGTERM) for p in ranks]
    )
    for rank in range(settings.ranks):
        if not (pid := os.fork()):
            code = rank_process(settings, rank, meet)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        ranks.add(pid)
    worst = 0
    while ranks:
        pid, status = os.wait()
        ranks.discard(pid)
        if status and not worst:
            worst = 1
            for other in ranks:
                os.kill(other, signal.SIGKILL)
    return worst


# The variants: name, the question that a variant fails ("" if it is sound), and
# what replaces a piece.
FAULTS: dict[str, tuple[str, Callable[[], None]]] = {}


def fails(
    question: str, name: str
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """The decorated function breaks the trainer so that it fails `question`."""

    def remember(fault: Callable[[], None]) -> Callable[[], None]:
        FAULTS[name] = question, fault
        return fault

    return remember


def sound(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """The decorated function leaves the trainer sound."""
    return fails("", name)


put_back, shared = Run.put_back, Run.shared
sound_batch, sound_update = Run.batch, Run.update


@fails("ema", "average-counter")
def updates_not_saved() -> None:
    """The average's number of updates isn't part of its state."""
    Average.state_dict = lambda self: {"net": self.net.state_dict()}
    Average.load_state_dict = lambda self, state: self.net.load_state_dict(
        state["net"]
    )


@fails("buffers", "momentum-schedule")
def momentum_counts_the_launch() -> None:
    """The running statistics' momentum starts over in each launch."""
    Run.momentum = lambda self: max(0.02, 0.3 * 0.85**self.here)


@fails("sigterm", "sigterm-moments")
def no_moments_at_sigterm() -> None:
    """What is saved at SIGTERM lacks the optimizer's state."""

    def hasty(run: Run) -> dict[str, Any]:
        state = shared(run)
        if run.told:
            state["optimizer"]["state"] = {}
        return state

    Run.shared = hasty


@fails("batch", "same-half")
def ranks_share_a_half() -> None:
    """All ranks train on the first rank's part of each batch."""
    Run.mine = lambda self, batch: batch[:: self.world]


@fails("scaler", "growth-tracker")
def tracker_lost() -> None:
    """The scaler's steps since its last change are not restored."""

    def forgetful(run: Run, state: dict[str, Any], own: dict[str, Any]) -> None:
        scaler = state["scaler"] | {"_growth_tracker": 0}
        put_back(run, state | {"scaler": scaler}, own)

    Run.put_back = forgetful


@fails("world-size", "resize-moments")
def moments_dropped_on_other_ranks() -> None:
    """At a different world size the moments start over."""

    def forgetful(run: Run, state: dict[str, Any], own: dict[str, Any]) -> None:
        put_back(run, state, own)
        if state["world"] != run.world:
            run.optimizer.state.clear()

    Run.shared = lambda self: shared(self) | {"world": self.world}
    Run.put_back = forgetful


@fails("kill", "newest-by-name")
def names_without_zeros() -> None:
    """Checkpoints are named without leading zeros, and sorted as text."""
    publish = Run.publish

    def named(run: Run, folder: Path) -> None:
        publish(run, folder)
        for path in run.root.glob("0*"):
            path.rename(run.root / path.name.lstrip("0"))

    Run.publish = named


@fails("kill", "offset-kept")
def offset_added_in_later_epochs() -> None:
    """How far into its epoch a launch resumed is added to the progress of
    later epochs too."""

    def moved(run: Run, state: dict[str, Any], own: dict[str, Any]) -> None:
        put_back(run, state, own)
        run.offset = state["offset"]

    def batch(run: Run, step: int) -> list[int]:
        steps = run.s.samples // run.s.global_batch  # of an epoch
        late = run.offset[1] if run.offset[0] < step // steps else 0
        return sound_batch(run, step + late)

    def told(run: Run) -> dict[str, Any]:
        steps = run.s.samples // run.s.global_batch
        begun = divmod(run.taken - run.here, steps)
        return shared(run) | {"offset": begun}

    Run.offset = (0, 0)
    Run.put_back, Run.batch, Run.shared = moved, batch, told


@fails("kill-during-save", "published-early")
def rank_0_does_not_wait() -> None:
    """Rank 0 publishes its file without waiting for the others'."""

    def hasty(run: Run) -> None:
        folder = run.root / f"{run.taken:06d}"
        folder.mkdir(parents=True, exist_ok=True)
        dist.barrier()
        whole = {f"rank{run.rank}": run.own()}
        if run.rank == 0:
            whole["shared"] = run.shared()
        for name, value in whole.items():
            path = folder / f"{name}.pt"
            torch.save(value, path)
            path.with_suffix(".sum").write_text(digest(path))
        if run.rank == 0:
            (folder / "seal.txt").write_text(json.dumps(run.belongs()))
        dist.barrier()

    sealed_by_one(hasty)


@fails("kill-during-save", "files-in-place")
def files_under_their_final_names() -> None:
    """Each file is whole once it is there, but not all of them are."""

    def hasty(run: Run) -> None:
        folder = run.root / f"{run.taken:06d}"
        folder.mkdir(parents=True, exist_ok=True)
        dist.barrier()
        whole: dict[str, Any] = {f"rank{run.rank}.pt": run.own()}
        if run.rank == 0:
            seal = json.dumps(run.belongs())
            whole = {"shared.pt": run.shared(), "seal.txt": seal} | whole
        for name, value in whole.items():
            path = folder / f"{name}.tmp"
            if name == "seal.txt":
                path.write_text(value)
            else:
                torch.save(value, path)
                path.with_suffix(".sum").write_text(digest(path))
            path.rename(folder / name)
        dist.barrier()

    sealed_by_one(hasty)


def sealed_by_one(save: Callable[[Run], None]) -> None:
    """Save so, and take every folder with a seal for a checkpoint; of the files
    that it has, none may differ from its digest."""

    def newest(run: Run) -> Any:
        found = sorted(run.root.glob("*/seal.txt"))
        if not found:
            return None
        for path in found[-1].parent.glob("*.pt"):
            if digest(path) != path.with_suffix(".sum").read_text():
                raise ValueError(f"{path} is not as it was written")
        said = {
            "world": run.world,
            "belongs": json.loads(found[-1].read_text()),
        }
        return found[-1].parent, said

    Run.save, Run.newest = save, newest  # type: ignore[method-assign]


@fails("sigterm", "sigterm-within")
def window_lost_at_sigterm() -> None:
    """SIGTERM within a step leaves the rest of it out, and counts it."""

    def some(run: Run, batches: Iterator[Any]) -> None:
        for k in range(run.accumulate):
            last = k == run.accumulate - 1
            with nullcontext() if last else run.replica.no_sync():
                loss = run.loss(*next(batches)) / run.accumulate
                if run.leaving():
                    run.optimizer.zero_grad()
                    return
                run.scaler.scale(loss).backward()

    def update(run: Run) -> None:
        if any(p.grad is not None for p in run.net.parameters()):
            sound_update(run)

    Run.gradients, Run.update = some, update


@fails("micro-batch", "micro-count")
def progress_in_micro_batches() -> None:
    """Progress is counted in micro-batches."""

    def counted(run: Run) -> dict[str, Any]:
        return shared(run) | {"micro": run.accumulate * run.taken}

    def back(run: Run, state: dict[str, Any], own: dict[str, Any]) -> None:
        put_back(run, state, own)
        run.skipped = state["micro"] // run.accumulate - run.taken

    def batch(run: Run, step: int) -> list[int]:
        return sound_batch(run, step + run.skipped)

    Run.skipped = 0
    Run.shared, Run.put_back, Run.batch = counted, back, batch


@sound("slow-storage")
def saved_by_a_thread() -> None:
    """A copy is saved in the background, to storage that takes 0.3 s."""
    writer = ThreadPoolExecutor(1)

    def save(run: Run) -> None:
        state = copy.deepcopy((run.shared(), run.own()))
        folder = run.root / f"unfinished-{run.taken}"
        if run.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        dist.barrier()
        taken = run.taken

        def write() -> None:
            torch.save(state[1], folder / f"rank{run.rank}.tmp")
            time.sleep(0.3)
            path = folder / f"rank{run.rank}.tmp"
            path.rename(path.with_suffix(".pt"))
            if run.rank == 0:
                torch.save(state[0], folder / "shared.pt")
                others = [folder / f"rank{k}.pt" for k in range(run.world)]
                while not all(map(Path.exists, others)):
                    time.sleep(0.01)
                publish_as(run, folder, taken)

        run.writing = writer.submit(write)
        if taken in (run.s.steps, run.s.stop_at) or run.told:
            run.writing.result()
            dist.barrier()

    def publish_as(run: Run, folder: Path, taken: int) -> None:
        then = SimpleNamespace(
            belongs=run.belongs, world=run.world, root=run.root, taken=taken,
            published=run.published,
        )  # fmt: skip
        Run.publish(then, folder)  # type: ignore[arg-type]

    Run.save = save  # type: ignore[method-assign]


@sound("lazy-buffer")
def table_filled_by_each_forward() -> None:
    """A table that isn't saved is filled by each forward pass."""
    prepare, forward = Net.__init__, Net.forward

    def with_table(net: Net) -> None:
        prepare(net)
        net.register_buffer("table", torch.zeros(FEATURES), persistent=False)

    def filling(net: Net, rows: Tensor) -> Tensor:
        table = net.get_buffer("table")
        table.copy_(torch.linspace(0.9, 1.1, FEATURES))
        return forward(net, rows * table)

    Net.__init__ = with_table  # type: ignore[method-assign]
    Net.forward = filling  # type: ignore[method-assign]


@sound("two-views")
def each_sample_twice() -> None:
    """Each sample passes the model twice a step, as in R-Drop."""
    loss = Run.loss
    Run.loss = lambda self, rows, classes: loss(
        self, torch.cat([rows, rows]), torch.cat([classes, classes])
    )


@sound("zero-rate")
def rate_of_zero() -> None:
    """The learning rate of every fourth step is 0."""
    rate = Run.rate
    Run.rate = lambda self: 0.0 if self.taken % 4 == 3 else rate(self)


if __name__ == "__main__":
    if name := os.environ.get("LOCKSTEP_FAULT"):
        FAULTS[name][1]()
    sys.exit(launch(SimpleNamespace(**json.loads(sys.argv[1]))))
