"""A small encoder of proteins, trained on any mesh of data and context ranks.

Pre-norm blocks with rotary positions (Su et al. 2021,
https://arxiv.org/abs/2104.09864), as ESM-2's. A sequence lies on `cp` ranks, a
contiguous part on each, and `dp` such groups share a step's samples. Losses
and gradients are those of one process, whichever mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

from lockstep.parallel.collectives import Group
from lockstep.parallel.context_parallel import ring_attention, ulysses_attention
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.data import uniform
from lockstep.trainer.model import DataParallel
from lockstep.trainer.order import GlobalOrder
from lockstep.trainer.step import learning_rate

from .global_mean import everywhere, part_of_mean
from .tokens import IGNORED, MASK, VOCAB, drawn, masked

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Settings:
    """Of the model and its training."""

    hidden: int = 64
    layers: int = 2
    heads: int = 4
    length: int = 128  # residues of a crop
    batch: int = 32  # crops of a step, over all ranks
    rate: float = 3e-3  # of learning, at most
    steps: int = 200
    dropout: float = 0.0
    seed: int = 0


class Place(NamedTuple):
    """This rank's, in a mesh of data by context ranks."""

    dp: int = 1  # ranks
    dp_rank: int = 0
    cp: int = 1
    cp_rank: int = 0
    group: Group = None  # the ranks of one sequence


# --8<-- [start:place]
def place(cp: int) -> Place:
    """Ranks of one sequence are neighbors.

    Raises:
        ValueError: `cp` does not divide the ranks.
    """
    world = dist.get_world_size()
    if world % cp:
        raise ValueError(f"{cp} ranks a sequence do not divide {world} ranks")
    mesh = init_device_mesh("cpu", (world // cp, cp), mesh_dim_names=("d", "c"))
    d, c = mesh["d"], mesh["c"]
    return Place(
        d.size(), d.get_local_rank(), cp, c.get_local_rank(), c.get_group()
    )


# --8<-- [end:place]
def whole(q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> Tensor:
    """Attention where one rank has the sequence."""
    return F.scaled_dot_product_attention(q, k, v)


def attention(name: str, at: Place) -> Attend:
    """Attend from every residue to every other: ring, ulysses or whole."""
    if name == "whole":
        return whole
    kinds = {"ring": ring_attention, "ulysses": ulysses_attention}
    return partial(kinds[name], group=at.group, causal=False)


# --8<-- [start:rotary]
def rotary(positions: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines, each [positions, dim], by where a residue stands in
    the protein's crop, and not on its rank."""
    pairs = torch.arange(0, dim, 2, device=positions.device)
    rates = 10_000.0 ** (-pairs / dim)
    angles = positions[:, None] * torch.cat((rates, rates))
    return angles.cos(), angles.sin()


def turned(x: Tensor, by: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate queries or keys [..., positions, dim]."""
    left, right = x.chunk(2, -1)
    cos, sin = (one.to(x.dtype) for one in by)
    return x * cos + torch.cat((-right, left), -1) * sin


# --8<-- [end:rotary]
class Block(nn.Module):
    """Attention and an MLP, each behind a norm and beside the stream."""

    def __init__(self, s: Settings, attend: Attend) -> None:
        super().__init__()
        self.heads, self.attend = s.heads, attend
        self.before, self.between = (nn.LayerNorm(s.hidden) for _ in range(2))
        self.qkv = nn.Linear(s.hidden, 3 * s.hidden)
        self.out = nn.Linear(s.hidden, s.hidden)
        self.mlp = nn.Sequential(
            nn.Linear(s.hidden, 4 * s.hidden),
            nn.GELU(),
            nn.Linear(4 * s.hidden, s.hidden),
        )

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        by: tuple[Tensor, Tensor],
        kept: Tensor | None,
    ) -> Tensor:
        """Return [samples, positions, hidden], the shape of `x`."""
        q, k, v = (
            one.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for one in self.qkv(self.before(x)).chunk(3, -1)
        )
        seen = self.attend(turned(q, by), turned(k, by), v, positions)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        made = self.mlp(self.between(x))
        return x + (made if kept is None else made * kept)


class ProteinLM(nn.Module):
    """Residues to logits; the same weights wherever the seed is the same."""

    def __init__(self, s: Settings, attend: Attend) -> None:
        super().__init__()
        torch.manual_seed(s.seed)
        self.dim = s.hidden // s.heads
        self.embed = nn.Embedding(VOCAB, s.hidden)
        self.blocks = []
        for number in range(s.layers):  # children, for FSDP2 to gather by turns
            self.blocks.append(Block(s, attend))
            self.add_module(f"block{number}", self.blocks[-1])
        self.norm = nn.LayerNorm(s.hidden)
        self.head = nn.Linear(s.hidden, MASK)

    def forward(
        self, tokens: Tensor, positions: Tensor, kept: Tensor | None = None
    ) -> Tensor:
        """Return [samples * positions, 20]: flat, since FSDP2 warns of views.

        Args:
            tokens: int64 [samples, positions], this rank's.
            positions: int64 [positions], in the whole crop.
            kept: of the MLPs' outputs, [layers, samples, positions, hidden].
        """
        x, by = self.embed(tokens), rotary(positions, self.dim)
        for number, block in enumerate(self.blocks):
            one = None if kept is None else kept[number]
            x = block(x, positions, by, one)
        return self.head(self.norm(x).flatten(0, 1))


# --8<-- [start:dropped]
def dropped(
    s: Settings, ids: np.ndarray, epochs: np.ndarray, positions: Tensor
) -> Tensor | None:
    """Return dropout's factors, [layers, samples, positions, hidden]: equal for
    these positions on whichever rank. None without dropout."""
    if not s.dropout:
        return None
    here = positions.numpy()
    rows = (ids[:, None] * s.length + here).ravel()
    # A stream of its own, for masks draw from the seed itself.
    (seed,) = np.random.SeedSequence(s.seed, spawn_key=(1,)).generate_state(
        1, np.uint64
    )
    draws = uniform(
        int(seed), np.repeat(epochs, len(here)), rows, s.layers * s.hidden
    )
    kept = torch.from_numpy(draws >= s.dropout).to(torch.get_default_dtype())
    kept /= 1 - s.dropout
    shape = len(ids), len(here), s.layers, s.hidden
    return kept.view(shape).permute(2, 0, 1, 3)


# --8<-- [end:dropped]
class Batch(NamedTuple):
    """What a rank trains on in a step."""

    inputs: Tensor  # int64 [samples, positions]
    labels: Tensor  # int64 [samples, positions]
    positions: Tensor  # int64 [positions]
    kept: Tensor | None


# --8<-- [start:batches]
def mine(s: Settings, at: Place) -> slice:
    """Return the positions of a crop that this rank holds.

    Raises:
        ValueError: ranks do not divide the crop or the batch.
    """
    if s.length % at.cp or s.batch % at.dp:
        raise ValueError(
            f"{at.cp} ranks have to divide {s.length} residues, and {at.dp}"
            f" the batch of {s.batch}"
        )
    each = s.length // at.cp
    return slice(at.cp_rank * each, (at.cp_rank + 1) * each)


def batches(
    proteins: list[np.ndarray], s: Settings, at: Place, step: int = 0
) -> Iterator[Batch]:
    """Yield this rank's batches from `step` on, without an end."""
    order, here = GlobalOrder(len(proteins), s.seed), mine(s, at)
    positions = torch.arange(s.length)[here]
    while True:
        all_ranks = np.arange(step * s.batch, (step + 1) * s.batch)
        own = all_ranks[at.dp_rank :: at.dp]
        ids, epochs = order(own), own // len(proteins)
        draws = drawn(s.seed, epochs, ids, s.length)
        crop = masked([proteins[i] for i in ids], draws, s.length)
        yield Batch(
            crop.inputs[:, here],
            crop.labels[:, here],
            positions,
            dropped(s, ids, epochs, positions),
        )
        step += 1


# --8<-- [end:batches]
# --8<-- [start:step]
def loss_of(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Sum the loss over this rank's masked residues, and count those."""
    logits = model(batch.inputs, batch.positions, batch.kept)
    labels = batch.labels.flatten()
    total = F.cross_entropy(
        logits, labels, ignore_index=IGNORED, reduction="sum"
    )
    return total, (labels != IGNORED).sum()


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch
) -> float:
    """Update; return the earlier mean loss over all ranks' masked residues."""
    total, count = loss_of(model, batch)
    part_of_mean(total, count).backward()
    optimizer.step()
    optimizer.zero_grad()
    sums = everywhere(torch.stack((total.detach(), count)), total.device)
    return float(sums[0] / sums[1])


# --8<-- [end:step]
def train(
    proteins: list[np.ndarray],
    s: Settings,
    at: Place = Place(),  # noqa: B008 (a tuple)
    attend: str = "whole",
    strategy: DataParallel | None = None,
    after: Callable[[int, float, nn.Module], None] | None = None,
    source: Iterator[Batch] | None = None,
) -> nn.Module:
    """Return the trained model, as the strategy has it.

    Args:
        strategy: wraps the model for more than one rank.
        after: called after each step with its number, loss and model.
        source: in place of `batches`.
    """
    model: nn.Module = ProteinLM(s, attention(attend, at))
    if strategy:
        model = strategy.wrap(model, torch.device("cpu"))
    optimizer = torch.optim.AdamW(model.parameters(), s.rate, (0.9, 0.98))
    cfg = TrainConfig(Path(), learning_rate=s.rate, warmup_steps=s.steps // 10)
    source = source or batches(proteins, s, at)
    for step, batch in zip(range(s.steps), source, strict=False):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(cfg, step, s.steps)
        loss = train_step(model, optimizer, batch)
        if after:
            after(step, loss, model)
    return model


class Held(NamedTuple):
    """Losses on held-out proteins, float64 [proteins, 2], and their counts:
    of residues that were hidden, and of those that were asked for and shown,
    as they are or another in their place."""

    sums: np.ndarray
    counts: np.ndarray

    def means(self) -> np.ndarray:
        """Over all proteins, [2]."""
        return self.sums.sum(0) / self.counts.sum(0)


@torch.no_grad()
def held(
    score: Callable[[Tensor, Tensor], Tensor],
    proteins: list[np.ndarray],
    s: Settings,
    rounds: int = 1,
) -> Held:
    """Score by masks of as many epochs, on one rank, without dropout.

    Args:
        score: logits of inputs at positions, as a model's.
    """
    ids, positions = np.arange(len(proteins)), torch.arange(s.length)
    sums, counts = np.zeros((2, len(proteins), 2))
    for number in range(rounds):
        draws = drawn(s.seed, np.full_like(ids, number), ids, s.length)
        inputs, labels = masked(proteins, draws, s.length)
        each = F.cross_entropy(
            score(inputs, positions).double(),
            labels.flatten(),
            ignore_index=IGNORED,
            reduction="none",
        ).view(labels.shape)
        hidden = inputs == MASK
        for kind, here in enumerate((hidden, (labels != IGNORED) & ~hidden)):
            sums[:, kind] += (each * here).sum(1).numpy()
            counts[:, kind] += here.sum(1).numpy()
    return Held(sums, counts)


def unigram(proteins: list[np.ndarray]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a score that knows how often each residue occurs, and nothing
    else."""
    counts = np.bincount(np.concatenate(proteins), minlength=MASK)
    logits = torch.from_numpy(counts / counts.sum()).log()
    return lambda inputs, _: logits.expand(inputs.numel(), MASK)
