"""Where a NaN came from, and which rank computes wrongly.

The step is found by bisection, the layer by hooks, the rank before the
all-reduce, which would give the NaN to every rank. A rank that computes wrong
but finite numbers is found by checksums of what should be equal bit for bit.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (
    allreduce_hook,
)
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle


# --8<-- [start:steps]
def first_bad(good: int, bad: int, sound: Callable[[int], bool]) -> int:
    """The first step whose result is not sound, by bisection.

    Args:
        good: a step that is known to be sound.
        bad: a later step that is known not to be.
        sound: replays up to a step, from the newest checkpoint before it, and
            says whether all weights are finite then.
    """
    while bad - good > 1:
        middle = (good + bad) // 2
        if sound(middle):
            good = middle
        else:
            bad = middle
    return bad


# --8<-- [end:steps]
# --8<-- [start:layers]
class NotFinite(ArithmeticError):
    """A module made a NaN or an infinity of finite inputs."""


def guard(model: nn.Module) -> list[RemovableHandle]:
    """Raise at the first module of a forward pass whose output is not finite.

    A module's hook runs after those of the modules inside it, so the first to
    raise is the innermost. The check waits for the GPU: guard a replay, not
    the run.
    """

    def hook(name: str) -> Callable[..., None]:
        def check(module: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and not output.isfinite().all():
                kind = type(module).__name__
                raise NotFinite(f"{name or 'model'} ({kind})")

        return check

    return [
        module.register_forward_hook(hook(name))
        for name, module in model.named_modules()
    ]


# --8<-- [end:layers]
# --8<-- [start:ranks]
class BeforeReduce:
    """Looks at a rank's own gradients before DDP averages them.

    Attributes:
        found: names of the parameters whose own gradient is not finite.
    """

    def __init__(self, model: DistributedDataParallel) -> None:
        self.found: list[str] = []
        self.names = {p: n for n, p in model.module.named_parameters()}
        self.group = model.process_group
        model.register_comm_hook(self, BeforeReduce.look)

    def look(self, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        """Check the bucket, then average it as DDP would."""
        for param, gradient in zip(
            bucket.parameters(), bucket.gradients(), strict=True
        ):
            if not gradient.isfinite().all():
                self.found.append(self.names[param])
        return allreduce_hook(self.group, bucket)

    def everywhere(self) -> dict[int, list[str]]:
        """What each rank found, by rank; a collective."""
        told: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(told, self.found)
        return {rank: names for rank, names in enumerate(told) if names}


# --8<-- [end:ranks]
# --8<-- [start:checksum]
def checksum(tensors: Iterable[Tensor]) -> int:
    """Return the sum of the tensors' values, with their bits read as int32.

    A sum of integers is exact in any order, and one bit that differs always
    changes it. The tensors hold 32-bit floats. The sum takes 8 bytes.
    """
    return sum(
        int(t.detach().contiguous().view(torch.int32).sum(dtype=torch.int64))
        for t in tensors
    )


def odd_ranks(mine: int, group: dist.ProcessGroup | None = None) -> list[int]:
    """Return the ranks whose checksum differs from the majority's.

    This is a collective of the group.

    Args:
        mine: this rank's checksum.
        group: three or more replicas of the same weights. Default: all ranks.

    Raises:
        ValueError: no checksum has a majority.
    """
    ranks = dist.get_process_group_ranks(group)
    told: list[Any] = [None] * len(ranks)
    dist.all_gather_object(told, mine, group)
    usual, count = Counter(told).most_common(1)[0]
    if 2 * count <= len(told):
        raise ValueError(f"no majority among ranks {ranks}: {told}")
    return [r for r, one in zip(ranks, told, strict=True) if one != usual]


# --8<-- [end:checksum]
# --8<-- [start:replay]
def wrong_ranks(gradient_of: Callable[[int], Sequence[Tensor]]) -> list[int]:
    """Return the ranks that may compute wrong gradients; a collective.

    Each rank computes the gradient of its own samples, and again that of the
    rank before it. If rank r computes wrongly, two comparisons fail: that of
    r's samples with rank r + 1, and that of the samples of r - 1. If only one
    fails, the fault comes and goes, and both ranks of that pair are suspects.

    Args:
        gradient_of: this rank's gradient for the samples of a given rank.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    before = (rank - 1) % ranks
    mine = checksum(gradient_of(rank)), checksum(gradient_of(before))
    told: list[Any] = [None] * ranks
    dist.all_gather_object(told, mine)
    differ = [told[r][0] != told[(r + 1) % ranks][1] for r in range(ranks)]
    both = [r for r in range(ranks) if differ[r] and differ[r - 1]]
    pairs = ((r, (r + 1) % ranks) for r in range(ranks) if differ[r])
    return both or sorted({rank for pair in pairs for rank in pair})


# --8<-- [end:replay]
def flip(tensor: Tensor, at: int, bit: int) -> None:
    """Turn one bit of one element of a float tensor, in place. Bit 31 is the
    sign, 23 to 30 are the exponent, 0 to 22 the mantissa."""
    raw = tensor.detach().view(torch.int32).view(-1)
    mask = torch.tensor(1 << bit, dtype=torch.int64).to(torch.int32)
    raw[at] ^= mask
