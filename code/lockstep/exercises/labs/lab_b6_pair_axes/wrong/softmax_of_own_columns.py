"""An edge attends to the columns that this rank has."""

import torch
from torch import Tensor

from lockstep.exercises.labs.lab_b6_pair_axes.solution import *
from lockstep.parallel.collectives import place

FAILS = {"attention"}


def attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, mesh: Mesh
) -> Tensor:
    """A softmax over part of a row sums to 1 on every rank."""
    whole = gather(bias, 0, mesh.down)
    rank, ranks = place(mesh.across)
    size = q.shape[1]
    ours = gather(whole, 1, mesh.across).chunk(ranks)[rank]
    ours = ours[:, rank * size : (rank + 1) * size]
    scores = torch.einsum("ijhd,ikhd->ihjk", q, k) * q.shape[-1] ** -0.5
    weights = (scores + ours.movedim(-1, 0)).softmax(-1)
    return torch.einsum("ihjk,ikhd->ijhd", weights, v)
