"""q, k and v are one matrix, which is cut into n: rank 0 gets queries alone."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockstep.exercises.labs.lab_04_tensor_parallel.solution import *
from lockstep.parallel.collectives import Group, place

FAILS = {"attention"}


class ParallelAttention(nn.Module):
    """Each rank takes thirds of what it has for queries, keys and values."""

    def __init__(
        self,
        q: nn.Linear,
        k: nn.Linear,
        v: nn.Linear,
        o: nn.Linear,
        heads: int,
        causal: bool = False,
        group: Group = None,
        sequence_parallel: bool = False,
    ) -> None:
        super().__init__()
        fused = nn.Linear(q.in_features, 3 * q.out_features)
        for name in ("weight", "bias"):
            whole = torch.cat([getattr(one, name) for one in (q, k, v)])
            setattr(fused, name, nn.Parameter(whole.detach()))
        self.qkv = ColumnParallelLinear(fused, group, sequence_parallel)
        self.o = RowParallelLinear(o, group, sequence_parallel)
        self.heads = heads // place(group)[1]
        self.causal = causal

    def forward(self, x: Tensor) -> Tensor:
        """Attention among whatever rows came."""
        q, k, v = (
            one.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for one in self.qkv(x).chunk(3, -1)
        )
        found = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.o(found.transpose(1, 2).flatten(2))
