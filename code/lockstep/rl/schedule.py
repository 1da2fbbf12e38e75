"""Which prompt is asked when, and what becomes of it. No tensor, no process."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from lockstep.trainer.config import ConfigError
from lockstep.trainer.order import GlobalOrder

# Rounds that an answer takes, for twenty prompts: the tail is by design.
ROUNDS = (*(1,) * 12, *(2,) * 5, *(4,) * 2, 12)
SYMBOLS = 4
PROMPTS = len(ROUNDS) * SYMBOLS


@dataclass(frozen=True)
class Run:
    """What a run is.

    Attributes:
        steps: optimizer steps, each of which publishes a version.
        max_lag: versions that a rollout's oldest token may be behind; with 0
            the roles take turns.
        batch: prompts of a step.
        slots: prompts that one sampler answers at a time.
        trainers: ranks that train.
        samplers: ranks that sample.
        save_every: steps between checkpoints.
        temperature: divides the logits that the sampler draws from.
        trainer_scales: whether the trainer divides its logits by it, too.
        logprobs: of the distribution sampled from, or of the raw logits.
        sampler_dtype: of the sampler's weights.
        resume_by: what a new launch takes from the checkpoint: the prompts in
            flight, or the counts that are tempting instead.
        seed: of the order of prompts, the weights and the sampling.
    """

    steps: int = 40
    max_lag: int = 2
    batch: int = 8
    slots: int = 8
    trainers: int = 2
    samplers: int = 1
    save_every: int = 10
    temperature: float = 1.0
    trainer_scales: bool = True
    logprobs: Literal["processed", "raw"] = "processed"
    sampler_dtype: Literal["float32", "bfloat16"] = "float32"
    resume_by: Literal["in-flight", "asked", "settled"] = "in-flight"
    seed: int = 1

    def __post_init__(self) -> None:
        least = {"max_lag": 0, "seed": 0}
        for name, value in vars(self).items():
            if type(value) is int and value < least.get(name, 1):
                raise ConfigError(
                    f"{name}={value}: it is at least {least.get(name, 1)}"
                )
        if self.batch < self.trainers:
            raise ConfigError(f"batch={self.batch}: each trainer needs one")
        if not self.temperature > 0:
            raise ConfigError(f"temperature={self.temperature}: it is above 0")


class Prompt(NamedTuple):
    """One pass over one prompt: its place in the run's order names it."""

    position: int
    key: int  # of the rule that its answer has to follow
    rounds: int  # that its answer takes


@cache
def prompt(cfg: Run, position: int) -> Prompt:
    """Return the prompt at a position, the same on every rank and in every
    launch."""
    order = GlobalOrder(PROMPTS, cfg.seed)
    index = int(order(np.array([position]))[0])
    return Prompt(position, index % SYMBOLS, ROUNDS[index // SYMBOLS])


class Running(NamedTuple):
    """A prompt that a sampler answers."""

    sampler: int
    version: int  # of its first token
    ends: int  # the round


class Schedule:
    """Where each prompt is, on rank 0.

    A round is the time of one optimizer step and of one chunk of tokens in
    every slot. `cursor` counts prompts ever asked; each is then in `again`
    (a killed launch had asked it), `running`, `queue` or settled.
    """

    def __init__(
        self, cfg: Run, cursor: int = 0, again: Iterable[int] = ()
    ) -> None:
        self.cfg, self.cursor, self.again = cfg, cursor, [*again]
        self.running: dict[int, Running] = {}
        self.queue: list[tuple[int, int]] = []  # position, oldest version
        self.refused: list[int] = []  # since the last step
        self.round = self.busy = 0

    def in_flight(self) -> list[int]:
        """Asked, but neither trained nor refused."""
        queued = [position for position, _ in self.queue]
        return sorted([*self.again, *self.running, *queued])

    # --8<-- [start:schedule]
    def ask(self, version: int) -> list[tuple[int, int]]:
        """(sampler, position) for slots that are free, while no more is in
        flight than `max_lag + 1` steps will train."""
        cfg, asked = self.cfg, []
        room = (cfg.max_lag + 1) * cfg.batch
        room -= len(self.running) + len(self.queue)
        free = cfg.samplers * cfg.slots - len(self.running)
        for _ in range(min(room, free)):
            load = Counter(one.sampler for one in self.running.values())
            sampler = min(range(cfg.samplers), key=load.__getitem__)
            position = self.again.pop(0) if self.again else self.cursor
            self.cursor = max(self.cursor, position + 1)
            ends = self.round + prompt(cfg, position).rounds
            self.running[position] = Running(sampler, version, ends)
            asked.append((sampler, position))
        return asked

    def take(self, version: int) -> list[int]:
        """Positions of a batch in the order they came, or none yet. What is
        too old for the weights of `version` is refused."""
        fresh = []
        for position, oldest in self.queue:
            if version - oldest > self.cfg.max_lag:
                self.refused.append(position)
            else:
                fresh.append((position, oldest))
        size = self.cfg.batch if len(fresh) >= self.cfg.batch else 0
        self.queue = fresh[size:]
        return [position for position, _ in fresh[:size]]

    # --8<-- [end:schedule]
    def advance(self) -> dict[int, int]:
        """End a round; return the answers that ended in it, with their oldest
        version."""
        self.busy += len(self.running)
        self.round += 1
        ended = {
            position: one.version
            for position, one in self.running.items()
            if one.ends == self.round
        }
        for position in ended:
            del self.running[position]
        return ended


def simulate(cfg: Run) -> dict[str, Any]:
    """Simulate the schedule of a whole run without its tensors: shares of
    rounds and slots idle, and by rounds of an answer what was trained and
    refused."""
    schedule, version = Schedule(cfg), 0
    trained, refused = Counter[int](), Counter[int]()
    while version < cfg.steps:
        schedule.ask(version)
        batch = schedule.take(version)
        trained.update(prompt(cfg, position).rounds for position in batch)
        version += bool(batch)
        schedule.queue += schedule.advance().items()
    refused.update(prompt(cfg, p).rounds for p in schedule.refused)
    slots = schedule.round * cfg.samplers * cfg.slots
    return {
        "rounds": schedule.round,
        "sampler idle": 1 - schedule.busy / slots,
        "trainer idle": 1 - version / schedule.round,
        "trained": trained,
        "refused": refused,
    }
