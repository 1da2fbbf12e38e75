"""The trainer on a store: another data set and another model, and no more.

    LOCKSTEP_STORE=STORE torchrun --nproc-per-node=2 -m lockstep.trainer \
        --task lockstep.bio.smiles.train:task --run-dir …

Order, kill, resume and audit are the trainer's own. A sample is a molecule,
and its loss the sum over its tokens, so that the trainer's mean over samples
needs no count of tokens.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from lockstep.trainer.config import ConfigError, TrainConfig
from lockstep.trainer.model import Task, right

from .store import IGNORED, Molecules
from .tokens import VOCAB

STORE = "LOCKSTEP_STORE"  # of the environment: the folder of a store
HELD = 512  # molecules of the other store on which accuracy is measured


# --8<-- [start:train]
class Next(nn.Module):
    """The next token of each: a recurrent network, as MOSES' CharRNN."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, hidden)
        self.read = nn.GRU(hidden, hidden, batch_first=True)
        self.tell = nn.Linear(hidden, VOCAB)

    def forward(self, inputs: Tensor) -> Tensor:
        """[molecules, VOCAB, longest] of uint8 [molecules, longest]."""
        states, _ = self.read(self.embed(inputs.long()))
        return self.tell(states).mT


class Held(Molecules):
    """The first molecules of a store."""

    def __len__(self) -> int:
        return min(HELD, super().__len__())


def task(cfg: TrainConfig) -> Task:
    """Predict the next token of molecules; the accuracy counts all tokens.

    Raises:
        ConfigError: LOCKSTEP_STORE does not name a store.
    """
    store = Path(os.environ.get(STORE, ""))
    try:
        data, held = Molecules(store / "train"), Held(store / "test")
    except OSError:
        why = f"{STORE} has to name the folder of a store"
        raise ConfigError(why) from None
    ids = np.arange(len(held))
    _, _, y = held[np.stack([0 * ids, ids])]
    tokens = (y != IGNORED).sum() / len(held)  # of a molecule, on average

    def accuracy(logits: Tensor, y: Tensor) -> Tensor:
        return right(logits, y) / tokens

    return Task(
        Next(cfg.hidden_size), data, held, metrics={"accuracy": accuracy}
    )


# --8<-- [end:train]
