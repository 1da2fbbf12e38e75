"""Protein sequences as tokens, cropped and masked alike by whoever asks.

A crop and its mask are functions of (seed, epoch, sample): ranks that share a
sequence draw the same without a message, ranks with other samples draw others,
and a restart draws what it would have drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lockstep.trainer.data import uniform

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
MASK = len(RESIDUES)
VOCAB = MASK + 1
IGNORED = -100  # a label without a loss, as `cross_entropy` has it
# Devlin et al. 2019, 3.1: of all tokens, and of those that are chosen.
CHOSEN, HIDDEN, REPLACED = 0.15, 0.8, 0.1


class Masked(NamedTuple):
    """What is read, and what is to be told."""

    inputs: Tensor  # int64 [samples, length]
    labels: Tensor  # int64 [samples, length], IGNORED where nothing is asked


def encode(sequence: str) -> np.ndarray:
    """Ids of residues, uint8 [length].

    Raises:
        ValueError: a letter is none of the twenty.
    """
    ids = np.array([RESIDUES.find(residue) for residue in sequence])
    if (ids < 0).any():
        letter = sequence[int(np.argmin(ids))]
        raise ValueError(f"{letter!r} is none of the residues {RESIDUES}")
    return ids.astype(np.uint8)


# --8<-- [start:drawn]
def drawn(
    seed: int, epochs: np.ndarray, ids: np.ndarray, length: int
) -> np.ndarray:
    """Draw the numbers for crops and masks, float64 [samples, 1 + 3 length] in
    [0, 1): the same on every rank that has these samples."""
    return uniform(seed, epochs, ids, 1 + 3 * length)


# --8<-- [end:drawn]
def starts(
    proteins: Sequence[np.ndarray], draws: np.ndarray, length: int
) -> np.ndarray:
    """Where crops begin, int64 [samples]."""
    room = np.array([len(one) - length + 1 for one in proteins])
    return (draws[:, 0] * room).astype(np.int64)


def masked(
    proteins: Sequence[np.ndarray], draws: np.ndarray, length: int
) -> Masked:
    """Crop each protein to `length` residues, and mask it as BERT does."""
    rows = zip(proteins, starts(proteins, draws, length), strict=True)
    tokens = np.stack([one[at : at + length] for one, at in rows])
    tokens = tokens.astype(np.int64)
    chosen, kind, other = np.split(draws[:, 1:], 3, axis=1)
    asked = chosen < CHOSEN
    inputs = np.where(asked & (kind < HIDDEN), MASK, tokens)
    swapped = asked & (kind >= 1 - REPLACED)
    inputs = np.where(swapped, (other * MASK).astype(np.int64), inputs)
    labels = np.where(asked, tokens, IGNORED)
    return Masked(torch.from_numpy(inputs), torch.from_numpy(labels))
