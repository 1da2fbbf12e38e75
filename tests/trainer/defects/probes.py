"""What the checks look through: launches of the trainer. Hooks that see what
any trainer does are in `lockstep.exercises.bugs.probes`."""

from pathlib import Path
from typing import Any

from lockstep.trainer.__main__ import launch
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions.events import read_events
from lockstep.trainer.extensions.sample_record import read_samples
from lockstep.trainer.process import Process, joined
from tests import ranks

Event = dict[str, Any]

SAMPLES = 4000  # of the toy set, for training
SMALL: dict[str, Any] = {
    "dataset": "toy",
    "global_batch_size": 64,
    "hidden_size": 48,  # unlike FEATURES, so that layers can be told apart
    "timeout_seconds": 30.0,
}


never_left: list[Any] = []


def group() -> Process:
    """This rank among the others of its test, to the end of its process.

    A DDP model holds the group. Were it freed after the group was left, it
    would join gloo's threads with the interpreter's lock held, for which they
    may be waiting; and a function's local model is freed when it returns.
    """
    context = joined(30, ranks.store())
    never_left.append(context)
    return context.__enter__()


def launch_rank(settings: dict[str, Any]) -> Event:
    """What a rank of `launch_on` does."""
    return launch(TrainConfig(**settings), ranks.store())


def settings_for(world: int, run_dir: Path, **settings: Any) -> dict[str, Any]:
    """SMALL, on `world` ranks without accumulation, but for `settings`."""
    micro = SMALL["global_batch_size"] // world
    fits = {"run_dir": run_dir, "micro_batch_size": micro}
    return SMALL | fits | settings


def launch_on(world: int, run_dir: Path, **settings: Any) -> list[Event]:
    """Every rank's last event of the whole trainer, its rooms attached."""
    return ranks.run_ranks(
        world, launch_rank, settings_for(world, run_dir, **settings)
    )


def events(run_dir: Path, rank: int, attempt: int, kind: str) -> list[Event]:
    """What a rank logged of one kind."""
    path = run_dir / f"events/attempt-{attempt}-rank-{rank}.jsonl"
    return [e for e in read_events(path) if e["event"] == kind]


def stream(run_dir: Path, world: int, attempt: int) -> list[int]:
    """The sample ids that one attempt trained on, in order of position."""
    ids: dict[int, int] = {}
    for rank in range(world):
        path = run_dir / f"samples/attempt-{attempt}-rank-{rank}.bin"
        for trained in read_samples(path):
            begin = (trained.step - 1) * SMALL["global_batch_size"]
            own = range(begin + rank, trained.position, world)
            ids |= dict(zip(own, trained.ids.tolist(), strict=True))
    return [ids[position] for position in sorted(ids)]
