"""Lockstep's trainer on the exam's samples and model."""

from dataclasses import replace

import torch
from torch import nn

from lockstep.exam import task
from lockstep.trainer import __main__ as trainer
from lockstep.trainer import loop
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.data import Samples
from lockstep.trainer.extensions.launcher import run_and_leave


def load_dataset(cfg: TrainConfig) -> tuple[Samples, Samples]:
    """The exam's, for training and for evaluation."""
    whole = replace(cfg, feature_dropout=0.0)  # it would hide a number
    data = task.Samples()
    made = Samples(data.x.numpy(), data.labels.numpy(), whole)
    return made, made


def build_model(cfg: TrainConfig, *_: int) -> nn.Module:
    """The exam's."""
    torch.manual_seed(cfg.seed)
    return task.Model()


loop.load_dataset = load_dataset
loop.build_model = build_model

if __name__ == "__main__":
    run_and_leave(trainer.main)
