"""Ranks for tests: the graders', whose lines coverage keeps."""

from collections.abc import Callable
from typing import Any

from lockstep.grading import ranks as grading
from lockstep.grading.ranks import RankError, store

__all__ = ["PRELOAD", "RankError", "Ranks", "run_ranks", "store"]

# What a rank imports that is not ours, until its first checkpoint.
PRELOAD = [
    "torch",
    "torch.distributed",
    "torch.nn.parallel",
    "torch.optim",
    "torch.distributed.checkpoint.staging",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.fsdp",
    "torch._dynamo",  # an optimizer's first step imports it
    "sklearn.datasets",
    "safetensors.torch",
    "tyro",
    "rich.progress",
]
grading.SERVER.set_forkserver_preload(PRELOAD)


class Ranks(grading.Ranks):
    """`world` processes that run `work(*args)` as the ranks of one group."""

    def __init__(
        self, world: int, work: Callable[..., Any], *args: Any
    ) -> None:
        super().__init__(world, counted, work, *args)


def run_ranks(
    world: int, work: Callable[..., Any], *args: Any, timeout: float = 60
) -> list[Any]:
    """`work(*args)` on `world` ranks; what each returned."""
    return Ranks(world, work, *args).results(timeout)


def counted(work: Callable[..., Any], *args: Any) -> Any:
    """`work(*args)`. A forked rank leaves by os._exit, past the hook that would
    save what coverage has seen."""
    try:
        return work(*args)
    finally:
        save_coverage()


def save_coverage() -> None:
    """If it is measured."""
    try:
        from coverage import Coverage
    except ImportError:
        return
    if measuring := Coverage.current():
        measuring.stop()
        measuring.save()
