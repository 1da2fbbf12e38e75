"""What the checks look through: launches of the trainer, and hooks that see
what any trainer does, Lockstep's and the faulty copies' alike.

Hooks are global and stay: they belong into ranks, which end with their test.
"""

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from lockstep.drills.silent.toy import FEATURES
from lockstep.trainer.__main__ import launch
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions.events import read_events
from lockstep.trainer.extensions.record import read_samples
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


def count_samples_per_step() -> list[int]:
    """Grows by one number for each optimizer step: the samples it is of."""
    steps: list[int] = []
    since = 0

    def forward(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        nonlocal since
        first = getattr(module, "in_features", None) == FEATURES
        if first and module.training:
            since += len(inputs[0])

    def step(*_: Any) -> None:
        nonlocal since
        steps.append(since)
        since = 0

    register_module_forward_pre_hook(forward)
    register_optimizer_step_post_hook(step)
    return steps


def see_output_dtypes() -> set[str]:
    """Grows by the number format of each linear layer's output."""
    seen: set[str] = set()

    def forward(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(module, nn.Linear):
            seen.add(str(output.dtype))

    register_module_forward_hook(forward)
    return seen


def see_dropout_masks() -> list[bytes]:
    """Grows by the mask of each dropout layer's call, as it will be drawn."""
    masks: list[bytes] = []

    def forward(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if isinstance(module, nn.Dropout) and module.training:
            with torch.random.fork_rng(devices=[]):  # draw it, undraw it
                mask = F.dropout(torch.ones_like(inputs[0]), module.p)
            masks.append((mask != 0).numpy().tobytes())

    register_module_forward_pre_hook(forward)
    return masks


READS = "item", "tolist", "cpu", "__float__", "__int__", "__bool__"


def count_host_reads_per_step() -> list[int]:
    """Grows by one number for each optimizer step: the tensors that the host
    read since the one before, each of which would wait for a GPU.

    Inside `optimizer.step()` none is counted: what it reads are its own step
    counters, which lie on the host whatever the parameters' device.
    """
    steps: list[int] = []
    since, inside = 0, False

    def counting(read: Any) -> Any:
        def counted(self: Tensor, *args: Any, **options: Any) -> Any:
            nonlocal since
            since += not inside
            return read(self, *args, **options)

        return counted

    def before(*_: Any) -> None:
        nonlocal inside
        inside = True

    def after(*_: Any) -> None:
        nonlocal since, inside
        steps.append(since)
        since, inside = 0, False

    for name in READS:
        setattr(torch.Tensor, name, counting(getattr(torch.Tensor, name)))
    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)
    return steps
