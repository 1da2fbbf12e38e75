"""A masked language model of real proteins.

    torchrun --nproc-per-node=2 -m lockstep.trainer \\
        --task lockstep.examples.protein:task --run-dir runs/protein

The model is the one of the chapter on proteins, and the data the proteome that
the package ships, so there is nothing to prepare and nothing to name.
"""

import hashlib

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from lockstep.bio.datasets import proteome
from lockstep.bio.protein_lm import ProteinLM, Settings, whole
from lockstep.bio.tokens import IGNORED, drawn, encode, masked
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.data import Batch
from lockstep.trainer.model import Task


# --8<-- [start:crops]
class Crops:
    """A crop of each protein, of which some residues are hidden.

    Where it begins and what is hidden is a function of (seed, epoch, id), so
    no rank, worker or restart can change it.
    """

    def __init__(self, sequences: list[str], length: int, seed: int) -> None:
        text = f"{length} {' '.join(sequences)}"
        self.fingerprint = hashlib.sha256(text.encode()).hexdigest()
        self.proteins = [encode(one) for one in sequences]
        self.length, self.seed = length, seed

    def __len__(self) -> int:
        return len(self.proteins)

    def __getitem__(self, index: np.ndarray) -> Batch:
        epochs, ids = index
        if not len(ids):
            none = torch.zeros(0, self.length, dtype=torch.int64)
            return torch.from_numpy(ids), none, none
        draws = drawn(self.seed, epochs, ids, self.length)
        crop = masked([self.proteins[i] for i in ids], draws, self.length)
        return torch.from_numpy(ids), crop.inputs, crop.labels


# --8<-- [end:crops]
class Model(ProteinLM):
    """The encoder where one rank has the whole crop."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """Return [samples * positions, 20] for int64 [samples, positions]."""
        return super().forward(x, torch.arange(x.shape[1], device=x.device))


# --8<-- [start:loss]
def each(values: Tensor, y: Tensor) -> Tensor:
    """Average over each protein's hidden residues, and sum over proteins, so
    that each protein counts once however many residues are hidden."""
    asked = (y != IGNORED).sum(1).clamp(min=1)
    return (values.view(y.shape).sum(1) / asked).sum()


def loss(logits: Tensor, y: Tensor) -> Tensor:
    """Sum for logits [samples * positions, 20], labels [samples, positions]."""
    labels = y.flatten()
    nats = cross_entropy(logits, labels, ignore_index=IGNORED, reduction="none")
    return each(nats, y)


def accuracy(logits: Tensor, y: Tensor) -> Tensor:
    """Sum the share of correct answers, as `loss` sums."""
    return each((logits.argmax(1) == y.flatten()).float(), y)


# --8<-- [end:loss]
# --8<-- [start:task]
def task(cfg: TrainConfig, length: int = 64) -> Task:
    """Every tenth protein is held out. Relatives of it are not, so accuracy
    says that the model learns, and not what it knows of other families."""
    given = [one for one in proteome().values() if len(one) >= length]
    train = [one for i, one in enumerate(given) if i % 10]
    sizes = Settings(cfg.hidden_size, length=length, seed=cfg.seed)
    return Task(
        Model(sizes, whole),
        data=Crops(train, length, cfg.seed),
        held_out=Crops(given[::10], length, cfg.seed),
        loss=loss,
        metrics={"accuracy": accuracy},
    )


# --8<-- [end:task]
