"""Muon on sharded matrices: each is made orthogonal once, by its owner.

Muon's update needs a matrix whole (Jordan et al. 2024,
https://kellerjordan.github.io/posts/muon/), and sharding cuts matrices by
rows. So the ranks take turns: for every group of as many matrices as there are
ranks, one all-to-all brings each matrix to one rank, and a second one brings
the rows of its update back.
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lockstep.parallel.collectives import Group, place


# --8<-- [start:orthogonal]
def orthogonal(matrix: Tensor, steps: int = 5) -> Tensor:
    """About the nearest matrix whose singular values are all 1, in bf16.

    Five steps of a polynomial in `matrix` that moves each singular value
    towards 1: the coefficients are Jordan's, and leave them between about 0.7
    and 1.2. Any (m, n).
    """
    x = matrix.bfloat16()
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / x.norm().clamp(min=1e-7)  # no singular value is above 1 now
    for _ in range(steps):
        gram = x @ x.T
        change = torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315)
        x = torch.addmm(x, change, x, beta=3.4445)
    return x.T if tall else x


# --8<-- [end:orthogonal]
# --8<-- [start:owners]
class OwnedMuon:
    """Muon for matrices of which each rank has some rows.

    Args:
        shards: this rank's rows, (m / n, k) of each matrix; all of one shape.
        rate: of the step.
        momentum: of the gradients, kept in shards.
    """

    def __init__(
        self,
        shards: Iterable[nn.Parameter],
        rate: float,
        momentum: float = 0.95,
        group: Group = None,
    ) -> None:
        self.shards, self.group = list(shards), group
        self.rate, self.momentum = rate, momentum
        self.means = [torch.zeros_like(shard) for shard in self.shards]

    @torch.no_grad()
    def step(self) -> None:
        """One step. Element by element on shards, and whole at the owner."""
        ranks = place(self.group)[1]
        for first in range(0, len(self.shards), ranks):
            turn = range(first, min(first + ranks, len(self.shards)))
            rows = [self._averaged(at) for at in turn]
            # The last group may leave ranks without a matrix: zeros travel.
            rows += [torch.zeros_like(rows[0])] * (ranks - len(rows))
            sent = torch.stack(rows)
            whole = torch.empty_like(sent)
            # Of every rank the rows of my matrix, for mine of theirs.
            dist.all_to_all_single(whole, sent, group=self.group)
            update = orthogonal(whole.flatten(0, 1)).to(sent.dtype)
            dist.all_to_all_single(
                sent, update.view_as(whole).contiguous(), group=self.group
            )
            for at, change in zip(turn, sent, strict=False):
                self.shards[at].sub_(self.rate * change)

    def _averaged(self, at: int) -> Tensor:
        """Nesterov momentum, of this rank's rows alone."""
        gradient, mean = self.shards[at].grad, self.means[at]
        assert gradient is not None
        mean.lerp_(gradient, 1 - self.momentum)
        return gradient.lerp(mean, self.momentum)


# --8<-- [end:owners]
