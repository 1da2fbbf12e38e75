"""A sequence over two ranks: what each mistake does to loss and gradients.

    python -m lockstep.experiments.demos.context_parallel_bugs

A small causal model reads two sequences of 32 tokens, of which the last six
are padding. Each rank has half of each, in zig-zag order, and attention goes
round a ring. Whatever one process computes, two must.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from lockstep.bio.protein_lm import rotary, turned
from lockstep.instruments.forked import in_a_group
from lockstep.parallel.collectives import Group
from lockstep.parallel.context_parallel import (
    gathered,
    ring_attention,
    zigzag_positions,
)
from lockstep.parallel.tensor_parallel import enter

RANKS = 2
LENGTH, PADDING, WORDS, HIDDEN, HEADS = 32, 6, 16, 32, 2
NO_LABEL = -100  # what a loss leaves out
MISTAKES = (
    "none",
    "positions count from 0 on each rank",
    "labels are shifted on each rank",
    "each rank's own mean, averaged",
    "gradients averaged, not summed",
)


class Reader(nn.Module):
    """One layer of causal attention with rotary positions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(WORDS, HIDDEN)
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = nn.Linear(HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, WORDS)

    # --8<-- [start:forward]
    def forward(
        self, tokens: Tensor, turned_by: Tensor, places: Tensor | None
    ) -> Tensor:
        """(batch, sequence, words) for this rank's tokens.

        Args:
            tokens: (batch, sequence).
            turned_by: (sequence,), the positions that the angles follow.
            places: (sequence,), where the tokens stand; None for all of them.
        """
        x = self.embed(tokens)
        q, k, v = (
            one.unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for one in self.qkv(x).chunk(3, -1)
        )
        by = rotary(turned_by, HIDDEN // HEADS)
        q, k = turned(q, by), turned(k, by)
        if places is None:
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            seen = ring_attention(q, k, v, places)
        return self.head(x + self.out(seen.transpose(1, 2).flatten(2)))

    # --8<-- [end:forward]


def sequences() -> Tensor:
    """(batch, LENGTH), whose end is padding."""
    drawn = torch.Generator().manual_seed(1)
    return torch.randint(WORDS, (2, LENGTH), generator=drawn)


# --8<-- [start:gathered]
def gathered_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    group: Group = None,
) -> Tensor:
    """Causal attention of this rank's queries to the keys and values of all
    ranks, gathered first (Llama 3, https://arxiv.org/abs/2407.21783, 3.3.2).
    `k` and `v` may have fewer heads than `q`.

    Returns:
        (batch, heads, local sequence, head_dim), in the dtype of `q`.
    """
    positions = positions.to(q.device)
    places = gathered(positions, group).flatten()
    # Backward, each rank sums the gradients of its own keys.
    k, v = enter(torch.stack((k, v)), group, sequence_parallel=True)
    earlier = places <= positions[:, None]
    return F.scaled_dot_product_attention(q, k, v, earlier, enable_gqa=True)


# --8<-- [end:gathered]
# --8<-- [start:labels]
def labels_of(tokens: Tensor) -> Tensor:
    """What follows each token, of whole sequences: shift first, then divide."""
    labels = tokens.roll(-1, 1)
    labels[:, -1 - PADDING :] = NO_LABEL
    return labels


# --8<-- [end:labels]
def alone() -> tuple[float, Tensor]:
    """Loss and gradients of one process with whole sequences."""
    model, tokens = Reader(), sequences()
    found = model(tokens, torch.arange(LENGTH), None)
    loss = F.cross_entropy(found.flatten(0, 1), labels_of(tokens).flatten())
    loss.backward()
    return loss.item(), flat(model)


def flat(model: nn.Module) -> Tensor:
    """All gradients in one vector."""
    found = (p.grad for p in model.parameters())
    return torch.cat([one.flatten() for one in found if one is not None])


# --8<-- [start:together]
def together(mistake: str = "none") -> tuple[float, Tensor]:
    """Loss and gradients of a group, each rank with a part of each sequence."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model, tokens = Reader(), sequences()
    places = zigzag_positions(LENGTH, rank, ranks)
    labels = labels_of(tokens)[:, places]
    tokens, turned_by = tokens[:, places], places
    if mistake == MISTAKES[1]:
        turned_by = torch.arange(len(places))
    if mistake == MISTAKES[2]:
        kept = places < LENGTH - 1 - PADDING
        labels = tokens.roll(-1, 1).where(kept, NO_LABEL)
        labels[:, -1] = NO_LABEL
    found = model(tokens, turned_by, places).flatten(0, 1)
    loss = F.cross_entropy(found, labels.flatten(), reduction="sum")
    count = (labels != NO_LABEL).sum()
    if mistake == MISTAKES[3]:
        loss = loss / count / ranks
    else:
        dist.all_reduce(count)
        loss = loss / count  # of all ranks: their losses add up to the mean
    loss.backward()
    gradients, told = flat(model), loss.detach()
    dist.all_reduce(told)
    dist.all_reduce(gradients)  # a parameter has seen only this rank's tokens
    if mistake == MISTAKES[4]:
        gradients /= ranks
    return told.item(), gradients


# --8<-- [end:together]
def every_mistake() -> dict[str, tuple[float, Tensor]]:
    """The same batch with each of them."""
    return {mistake: together(mistake) for mistake in MISTAKES}


def main() -> None:
    """Loss, the gradient's length over one process's, and how far off it is."""
    loss, right = alone()
    print(f"{'mistake':37}loss  length  off by")
    print(f"{'(one process)':37}{loss:.3f}   1.00     0 %")
    for mistake, (told, got) in in_a_group(RANKS, every_mistake)[0].items():
        length = float(got.norm() / right.norm())
        off = 100 * float((got - right).norm() / right.norm())
        print(f"{mistake:37}{told:.3f}   {length:.2f}  {off:4.0f} %")


if __name__ == "__main__":
    main()
