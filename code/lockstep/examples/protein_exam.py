"""The exam's adapter of the protein model, and the factory that it trains."""

import os

import numpy as np
import torch
from torch import Tensor, nn

from lockstep.bio.datasets import proteome
from lockstep.exam.adapter import Launch
from lockstep.exam.env_vars import SAMPLES, VARIANT
from lockstep.exam.observe import observe
from lockstep.examples import protein
from lockstep.examples.launched import LACKS, checkpoints, launched
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.data import Batch
from lockstep.trainer.model import Task

__all__ = ["checkpoints", "command", "lacks", "name"]
name = "A masked language model of proteins, by --task"
lacks = LACKS
LENGTH = 64  # of a crop


class Numbered(protein.Crops):
    """Each crop behind its protein's number: by its residues the exam would
    not know a protein again, since each epoch hides others."""

    def __getitem__(self, index: np.ndarray) -> Batch:
        ids, x, y = super().__getitem__(index)
        return ids, torch.cat([ids[:, None], x], 1), y


class Unnumbered(nn.Module):
    """What the model reads: all but the number."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 1:]


def task(cfg: TrainConfig) -> Task:
    """Return as many proteins as the exam asks for, others for each variant."""
    n, variant = int(os.environ[SAMPLES]), int(os.environ[VARIANT])
    given = [one for one in proteome().values() if len(one) >= LENGTH]
    data = Numbered(given[n * variant :][:n], LENGTH, cfg.seed)
    made = protein.task(cfg, LENGTH)
    model = nn.Sequential(Unnumbered(), made.model)
    observe(model, ids=lambda x: x[:, 0].tolist())
    return made._replace(model=model, data=data, held_out=data)


def command(launch: Launch) -> list[object]:
    """Return the command of the trainer with a small model."""
    train = launched(launch, "lockstep.examples.protein_exam:task")
    return [*train, "--hidden-size", 32]
