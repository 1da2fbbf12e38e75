"""Defect 6: `DistributedSampler` pads, in training and in evaluation."""

from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    TensorDataset,
)

from lockstep.instruments.forked import in_a_group


# --8<-- [start:copy]
def make_sampler(
    dataset: Dataset, num_replicas: int, rank: int
) -> DistributedSampler:
    """Return a sampler for this rank's share of every epoch."""
    return DistributedSampler(dataset, num_replicas, rank, shuffle=True)


@torch.no_grad()
def evaluate(model: nn.Module, dataset: TensorDataset) -> float:
    """Accuracy over all ranks."""
    model.eval()
    sampler: DistributedSampler = DistributedSampler(dataset, shuffle=False)
    right_and_seen = torch.zeros(2)
    for x, y in DataLoader(dataset, batch_size=64, sampler=sampler):
        right_and_seen[0] += (model(x).argmax(dim=1) == y).sum()
        right_and_seen[1] += len(y)
    dist.all_reduce(right_and_seen)
    right, seen = right_and_seen.tolist()
    return float(right / seen)


# --8<-- [end:copy]
ODD = 1001  # samples that two ranks cannot share evenly


class RightOnSampleZero(nn.Module):
    """Answers 1, which is right, for the sample that is marked with a 1."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([torch.full_like(x[:, 0], 0.5), x[:, 0]], dim=1)


def one_right_of(n: int) -> tuple[Tensor, Tensor]:
    """Features and labels of which RightOnSampleZero has one right."""
    x = torch.zeros(n, 1)
    x[0] = 1
    return x, torch.ones(n, dtype=torch.int64)


def accuracy() -> float:
    """Return `evaluate`'s result on this rank: one right answer in 1,001."""
    return evaluate(RightOnSampleZero(), TensorDataset(*one_right_of(ODD)))


def demonstrate() -> None:
    """Run an epoch of 1,001 samples on two ranks, and an evaluation."""
    data = cast(Dataset, range(ODD))
    ids = [i for rank in range(2) for i in make_sampler(data, 2, rank)]
    twice = len(ids) - len(set(ids))
    print(f"{ODD} samples: two ranks train on {len(ids)}, {twice} twice")
    found = in_a_group(2, accuracy)[0]
    print(f"1 right of {ODD}: {1 / ODD:.6f}; evaluated: {found:.6f}")
