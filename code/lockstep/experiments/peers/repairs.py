"""What several mended scripts add to their trainers.

A script runs in its peer's environment, so this needs torch alone.
"""

import signal
from collections.abc import Callable, Iterator
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class Notice:
    """Whether any rank was told by SIGTERM to leave."""

    def __init__(self, device: str | torch.device = "cpu") -> None:
        self.given, self.device = 0.0, device
        signal.signal(signal.SIGTERM, self.on_signal)

    def on_signal(self, *_: object) -> None:
        """Note the signal, as a step may be under way."""
        self.given = 1.0

    def by_anyone(self) -> bool:
        """Return the same answer on all ranks."""
        return anyone(bool(self.given), self.device)


def anyone(yes: bool, device: str | torch.device = "cpu") -> bool:
    """Return whether any rank says yes."""
    votes = torch.tensor(float(yes), device=device)
    dist.all_reduce(votes, dist.ReduceOp.MAX)
    return bool(votes)


def random_states() -> list[Any]:
    """Gather each rank's states of torch's generators, the CPU's and its
    GPU's."""
    states: list[Any] = [None] * dist.get_world_size()
    mine = [torch.get_rng_state()]
    if torch.cuda.is_available():
        mine.append(torch.cuda.get_rng_state())
    dist.all_gather_object(states, mine)
    return states


def set_random_states(mine: list[Tensor]) -> None:
    """Set what `random_states` gathered from this rank."""
    cpu, *gpu = mine
    torch.set_rng_state(cpu)
    for own in gpu:
        torch.cuda.set_rng_state(own)


def digests(folder: Path, but: str = "") -> dict[str, str]:
    """Return a SHA-256 digest for each file of a folder but one, by name."""
    return {
        path.name: sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.name != but
    }


class Batches:
    """This rank's batches from where training is, for any number of ranks and
    of loader workers.

    Args:
        n: how many samples there are.
        batch: how many of them a step takes, over all ranks.
        step: returns how many steps training has taken.
    """

    def __init__(
        self, n: int, batch: int, seed: int, step: Callable[[], int]
    ) -> None:
        self.n, self.batch, self.seed, self.step = n, batch, seed, step

    def __len__(self) -> int:
        return ceil(self.n / self.batch)

    def __iter__(self) -> Iterator[list[int]]:
        mine = slice(dist.get_rank(), None, dist.get_world_size())
        epoch, done = divmod(self.step(), len(self))
        rng = torch.Generator().manual_seed(1000 * self.seed + epoch)
        order = torch.randperm(self.n, generator=rng).tolist()
        for k in range(done, len(self)):
            yield order[k * self.batch : (k + 1) * self.batch][mine]
