"""Every rank takes the first rows of the bias, whichever columns it has."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b6_pair_axes.solution import *

FAILS = {"attention"}


def attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, mesh: Mesh
) -> Tensor:
    """Right, for the ranks whose columns are the first."""
    k, v = gather(k, 1, mesh.across), gather(v, 1, mesh.across)
    whole = gather(gather(bias, 1, mesh.across), 0, mesh.down)
    scores = torch.einsum("ijhd,ikhd->ihjk", q, k) * q.shape[-1] ** -0.5
    ours = whole[: q.shape[1]]
    weights = (scores + ours.movedim(-1, 0)).softmax(-1)
    return torch.einsum("ihjk,ikhd->ijhd", weights, v)
