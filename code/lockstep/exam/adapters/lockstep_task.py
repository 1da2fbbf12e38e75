"""Lockstep's trainer on the exam's samples and model."""

from typing import Any

import lockstep.trainer.loop as loop
import torch
from lockstep.exam.task import Model, Samples
from lockstep.trainer import __main__ as trainer
from lockstep.trainer import data as data_module
from lockstep.trainer.extensions.launcher import run_and_leave


def load(cfg: Any) -> Any:
    s = Samples()
    import dataclasses
    cfg = dataclasses.replace(cfg, feature_dropout=0.0)
    made = data_module.Samples(s.x.numpy(), s.labels.numpy(), cfg)
    return made, made


def build(cfg: Any, *_: int) -> Any:
    torch.manual_seed(cfg.seed)
    return Model()


loop.load_dataset = load
loop.build_model = build
if __name__ == "__main__":
    run_and_leave(trainer.main)
