"""Defect 15: data wait, gradient sync and checkpoint are never timed."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lockstep.debugging.silent.toy import small_model, toy
from lockstep.instruments.forked import in_a_group


# --8<-- [start:copy]
class PhaseTimers:
    """Seconds spent in each phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - start


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[tuple[Tensor, Tensor]],
    path: Path,
    timers: PhaseTimers,
) -> None:
    """One epoch under DDP, and a checkpoint at its end."""
    for x, y in batches:
        with timers.phase("h2d"):
            x, y = x.to("cpu"), y.to("cpu")
        with timers.phase("forward"):
            loss = F.cross_entropy(model(x), y)
        with timers.phase("backward"):
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
        with timers.phase("optimizer"):
            optimizer.step()
    torch.save(model.state_dict(), path)


# --8<-- [end:copy]
def run(folder: Path, delay: float = 0.0) -> dict[str, float]:
    """Four steps on this rank of two, by a loader that takes `delay` seconds
    for a batch; the seconds in each phase, and in the `epoch`."""
    rank, timers = dist.get_rank(), PhaseTimers()
    model = DistributedDataParallel(small_model())
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = (part[rank::2] for part in toy())

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        for batch in zip(x.split(32), y.split(32), strict=True):
            time.sleep(delay)
            yield batch

    start = time.perf_counter()
    train(model, optimizer, batches(), folder / f"model-{rank}.pt", timers)
    return timers.seconds | {"epoch": time.perf_counter() - start}


def run_with_a_slow_loader_on_rank_1(folder: Path) -> dict[str, float]:
    """`run`, where rank 0 has to wait for rank 1."""
    return run(folder, delay=0.2 * dist.get_rank())


def demonstrate() -> None:
    """Where two ranks say that their time went."""
    with TemporaryDirectory() as name:
        found = in_a_group(2, run_with_a_slow_loader_on_rank_1, Path(name))
    for rank, seconds in enumerate(found):
        said = ", ".join(f"{name} {s:.1f} s" for name, s in seconds.items())
        print(f"rank {rank}: {said}")
