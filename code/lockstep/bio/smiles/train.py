"""The trainer on a store: another data set and another model, and no more.

    torchrun --nproc-per-node=2 -m lockstep.bio.smiles.train STORE --run-dir …

Order, kill, resume and audit are the trainer's own. A sample is a molecule,
and its loss the sum over its tokens, so that the trainer's mean over samples
needs no count of tokens.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from lockstep.trainer import loop
from lockstep.trainer.__main__ import main as trainer
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions.launcher import run_and_leave

from .store import IGNORED, Molecules
from .tokens import VOCAB

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


class Training(Molecules):
    """...with one molecule at hand, for the loop to try the model on."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        _, self.x, self.y = self[np.zeros((2, 1), np.int64)]


class Held:
    """Molecules whose tokens are counted one by one."""

    def __init__(self, folder: Path) -> None:
        data = Molecules(folder)
        ids = np.arange(min(HELD, len(data)))
        _, self.x, self.y = data[np.stack([0 * ids, ids])]

    def __len__(self) -> int:
        return int((self.y != IGNORED).sum())


def load(store: Path, cfg: TrainConfig) -> tuple[Training, Held]:
    """In place of the trainer's `load_dataset`."""
    return Training(store / "train"), Held(store / "test")


def build(cfg: TrainConfig, features: int, classes: int) -> nn.Module:
    """In place of the trainer's `build_model`."""
    torch.manual_seed(cfg.seed)
    return Next(cfg.hidden_size)


def put(store: Path) -> None:
    """From now on the trainer trains this."""
    vars(loop).update(load_dataset=partial(load, store), build_model=build)


# --8<-- [end:train]
def main(args: list[str] | None = None) -> int:
    """A store, then what the trainer takes; its exit code."""
    given = sys.argv[1:] if args is None else args
    if not given or given[0].startswith("-"):
        print("error: the first argument is a store", file=sys.stderr)
        return 2
    put(Path(given[0]))
    return trainer(given[1:])


if __name__ == "__main__":
    run_and_leave(main)
