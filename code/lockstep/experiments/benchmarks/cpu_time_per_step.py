"""CPU time per step: the trainer and its competitors, in turns.

All train in one process group. In every round each takes the same number of
steps, in shuffled order, so what else the machine does meets all alike.
"""

import gc
import time
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
import torch.distributed as dist

from lockstep.experiments.benchmarks.loops import LOOPS, parts
from lockstep.experiments.benchmarks.observed_trainer import config, train
from lockstep.experiments.benchmarks.settings import STEPS
from lockstep.trainer.checkpoint import seed_rank
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.process import Process
from lockstep.trainer.telemetry import Observer

WARM_UP = 2  # rounds that are not counted
# On two ranks every sum has one order, and all weights came out equal bit for
# bit. The smallest error in weighting that the trainer's tests plant, in one
# step of four, is a hundred times this (tests/trainer/test_step.py).
ATOL = 1e-6

Round = dict[str, float]  # CPU seconds per step, by contestant


class Turns(Observer):
    """The others take their turns between two steps of the trainer."""

    def __init__(self, cfg: TrainConfig, me: Process) -> None:
        self.parts = {name: parts(cfg, me) for name in LOOPS}
        self.loops = {name: LOOPS[name](self.parts[name]) for name in LOOPS}
        seed_rank(cfg.seed, me.rank)  # as the trainer begins
        self.random = dict.fromkeys(LOOPS, torch.get_rng_state())
        self.shuffle = np.random.default_rng(cfg.seed).permutation
        self.rounds: list[Round] = [{}]
        self.begun = time.process_time()

    def committed(self, step: int, position: int, ids: np.ndarray) -> None:
        if step % STEPS:
            return
        self.note("lockstep")
        its_own = torch.get_rng_state()
        for name in self.shuffle(list(LOOPS)):
            torch.set_rng_state(self.random[name])
            self.begun = time.process_time()
            for _ in range(STEPS):
                next(self.loops[name])
            self.note(name)
            self.random[name] = torch.get_rng_state()
        torch.set_rng_state(its_own)
        self.rounds.append({})
        self.begun = time.process_time()

    def note(self, name: str) -> None:
        """A turn has ended: what it cost this process, all threads."""
        seconds = time.process_time() - self.begun
        self.rounds[-1][name] = seconds / STEPS


def contest(
    run_dir: Path,
    hidden_size: int,
    rounds: int,
    me: Process,
    store: dist.Store,
) -> list[Round]:
    """What each round cost on this rank.

    Raises RuntimeError if anyone's last weights are not the trainer's.
    """
    steps = (WARM_UP + rounds) * STEPS
    cfg = config(run_dir, hidden_size, steps, steps, me)
    turns = Turns(cfg, me)
    gc.collect()
    gc.freeze()  # what is there by now is no garbage of anyone's steps
    train(cfg, me, store, turns)
    require_same_weights(cfg, turns)
    return turns.rounds[WARM_UP:-1]


def require_same_weights(cfg: TrainConfig, turns: Turns) -> None:
    """RuntimeError unless all weights are those of the trainer's checkpoint."""
    newest = max(cfg.run_dir.glob("checkpoints/step-*/model.safetensors"))
    trained = safetensors.torch.load_file(newest)
    for name, its in turns.parts.items():
        for key, value in its.model.state_dict().items():
            apart = (value - trained[key]).abs().max().item()
            if not apart <= ATOL:
                raise RuntimeError(f"{name} is no match: {key} by {apart}")
