"""What the pathologies share: two loops to run, counters, and a table.

Seconds of a phase are a step's, on this rank. FLOPs and operations are counted
by torch's dispatcher, so that they come out alike on a busy machine.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from lockstep.instruments import slow_trainers as slow
from lockstep.instruments.phase_timer import Marks, PhaseTimer
from lockstep.trainer.checkpoint import Writer
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions.timers import PhaseTimers
from lockstep.trainer.loop import run
from lockstep.trainer.model import DataParallel
from lockstep.trainer.process import Process
from lockstep.trainer.telemetry import Observer, attach

Phases = dict[str, float]  # seconds of a step, by phase; they add up to it
COLUMNS = "load", "compute", "sync", "optimizer", "checkpoint", "other"


class Log(Observer):
    """Keeps the phases of each step, by step."""

    def __init__(self) -> None:
        self.steps: dict[int, Phases] = {}

    def event(self, record: dict[str, Any]) -> None:
        if record["event"] == "step" and "phases" in record:
            self.steps[record["step"]] = parted(record)


def parted(record: Mapping[str, Any]) -> Phases:
    """The phases of a `step` event, so that no moment counts twice: exposed
    sync is no part of `backward`, and what nobody named is `other`."""
    took = dict(record["phases"])
    took.pop("sync", None)  # which overlaps
    took["sync"] = min(took.pop("sync_exposed", 0.0), took["backward"])
    took["backward"] -= took["sync"]
    took["other"] = max(0.0, record["step_seconds"] - sum(took.values()))
    return took


def train(
    run_dir: Path,
    *rooms: Observer,
    strategy: DataParallel | None = None,
    writer: Writer | None = None,
    **settings: Any,
) -> dict[int, Phases]:
    """The reference trainer, in this group: its phases, step by step, from the
    second step on. All steps are logged."""
    world = dist.get_world_size()
    me = Process(dist.get_rank(), world, torch.device("cpu"))
    run_dir.mkdir(exist_ok=True)
    alike = {"log_every_steps": 1, "checkpoint_every_steps": 10**6}
    cfg = TrainConfig(run_dir, "toy", **(alike | settings))
    strategy = strategy or DataParallel()
    timers = PhaseTimers(me.device, strategy)
    attach(timers, log := Log(), *rooms)
    run(cfg.for_launch(world, {}), me, strategy=strategy, writer=writer)
    attach()
    return log.steps


def average(steps: Iterable[Phases]) -> Phases:
    """Of several steps."""
    total: Counter[str] = Counter()
    for count, step in enumerate(steps, 1):  # noqa: B007
        total.update(step)
    return {name: seconds / count for name, seconds in total.items()}


def lab(
    rows: Mapping[str, type[slow.Trainer]],
    clock: Callable[[], float] = perf_counter,
    turns: int = 4,
) -> dict[str, Phases]:
    """Lab 11's loop, whose samples differ in length: the phases of each of
    `rows` in the quickest of its turns. Whatever else runs can only add."""
    ones = {name: trainer(slow.Store(0)) for name, trainer in rows.items()}
    least = dict.fromkeys(rows, float("inf"))
    found: dict[str, Phases] = {}
    for turn in range(turns + 1):
        for name, one in ones.items():
            timer = PhaseTimer(clock)
            one.train(timer)
            total = torch.tensor(sum(timer.seconds.values()))
            dist.all_reduce(total, dist.ReduceOp.MAX)  # so that ranks agree
            if turn and total < least[name]:  # the first one warms up
                least[name] = total.item()
                every = timer.seconds.items()
                found[name] = {n: s / one.steps for n, s in every}
    return found


def flops(trainer: type[slow.Trainer]) -> list[int]:
    """What this rank multiplies and adds, step by step, in the same loop."""
    one = trainer(slow.Store(0))
    totals = [0]
    with FlopCounterMode(display=False) as counter:
        one.train(Marks(lambda: totals.append(counter.get_total_flops())))
    return [after - before for before, after in pairwise(totals)]


class Operations(TorchDispatchMode):
    """`with Operations() as found:` counts what reaches torch's dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.counts[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


class Committed(Observer):
    """Calls `then` at the end of each step."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.then = then

    def committed(self, step: int, position: int, ids: Any) -> None:
        self.then()


def columns(rank: Phases) -> Phases:
    """Forward and backward are what a rank computes; the rest is `other`."""
    own = dict(rank)
    own["compute"] = own.pop("forward") + own.pop("backward")
    rest = sum(own.pop(name) for name in {*own} - {*COLUMNS})
    return {
        **dict.fromkeys(COLUMNS, 0.0),
        **own,
        "other": own.get("other", 0) + rest,
    }


def leads(rank: Phases) -> str:
    """What takes most of a step."""
    return max(found := columns(rank), key=found.__getitem__)


def table(rows: Mapping[str, Phases], *without: str) -> list[str]:
    """Milliseconds of a step, for each of `rows`, in all columns but those."""
    shown = [name for name in COLUMNS if name not in without]
    wide = 3 + max(map(len, rows))
    lines = [" " * wide + "".join(f"{name:>11}" for name in shown)]
    for label, rank in rows.items():
        ms = (1e3 * columns(rank)[name] for name in shown)
        lines.append(label.ljust(wide) + "".join(f"{n:8.1f} ms" for n in ms))
    return lines


def by_rank(
    ranks: Sequence[Mapping[str, Phases]],
) -> dict[str, Phases]:
    """Rows of a table: each name, rank by rank."""
    return {
        f"{name} r{number}": rank[name]
        for name in ranks[0]
        for number, rank in enumerate(ranks)
    }
