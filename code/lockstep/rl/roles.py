"""Two roles: ranks that train, and ranks that sample.

Rank 0 tells the samplers what to do in a round, trains meanwhile with the
other trainers, and then takes what the samplers have finished. So who is ahead
of whom follows from the seed, and not from the speed of a machine.
"""

import json
import os
import shutil
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.trainer.checkpoint import newest_good, sync, unpacked
from lockstep.trainer.config import ConfigError
from lockstep.trainer.process import on_rank0

from .policy import CLIP, Policy, Rollout, begin, extend, rewards, surrogate
from .schedule import Run, Schedule, prompt
from .weight_versions import load_verified, publish

WEIGHTS = "model.safetensors"
LAGS = 64  # rows of the statistics; a greater lag counts as the last


def play(cfg: Run, root: Path, kill_round: int = -1) -> None:
    """Play this rank's role until `cfg.steps` are made; the process group has
    `trainers + samplers` ranks. Rank 0 is killed before `kill_round`."""
    torch.manual_seed(cfg.seed)
    group = dist.new_group(range(cfg.trainers))
    if (rank := dist.get_rank()) >= cfg.trainers:
        sample(cfg, root)
    else:
        try:
            trainer = Trainer(cfg, root, group)
        except ConfigError:
            if rank == 0:
                dismiss(cfg)
            raise
        if rank == 0:
            lead(trainer, kill_round)
        else:
            while trainer.step(None):
                pass


# The sampler


def sample(cfg: Run, root: Path) -> None:
    """Answer prompts in rounds until the run ends."""
    policy = Policy().to(getattr(torch, cfg.sampler_dtype))
    version, slots = -1, dict[int, tuple[Rollout, torch.Generator]]()
    while (told := received(0)) is not None:
        newest, positions = told
        if newest != version:
            file = load_verified(root / "versions", newest, WEIGHTS)
            policy.load_state_dict(safetensors.torch.load_file(file))
            version = newest
        for position in positions:
            slots[position] = begin(prompt(cfg, position)), draws(cfg, position)
        ended = []
        for position, (rollout, rng) in [*slots.items()]:
            rollout = extend(policy, version, rollout, cfg, rng)
            slots[position] = rollout, rng
            if rollout.whole:
                ended.append(slots.pop(position)[0])
        send(ended, 0)


def draws(cfg: Run, position: int) -> torch.Generator:
    """Return the generator of an answer's tokens, which no other answer of this
    or of another seed shares."""
    # torch's CPU generator uses a seed's low 32 bits, so the run's seed must
    # not stand above them. The recorded runs are those of the default seed.
    offset = (cfg.seed - Run.seed) * 1_000_003
    return torch.Generator().manual_seed(offset + position)


def dismiss(cfg: Run) -> None:
    """Tell the samplers that there is no more to do."""
    for sampler in range(cfg.trainers, cfg.trainers + cfg.samplers):
        send(None, sampler)


def send(value: Any, to: int) -> None:
    """To one rank, which waits for it in `received`."""
    dist.send_object_list([value], to)


def received(source: int) -> Any:
    """Return what that rank sent."""
    dist.recv_object_list(box := [None], source)
    return box[0]


# The trainers


class Trainer:
    """One trainer rank: policy and optimizer, alike on all of them."""

    def __init__(self, cfg: Run, root: Path, group: Any) -> None:
        self.cfg, self.root, self.group, self.version = cfg, root, group, 0
        self.policy = Policy()
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=0.03)
        self.ledger: dict[str, Any] = {"cursor": 0, "in_flight": []}
        self.restore()

    def restore(self) -> None:
        """From the newest checkpoint, which rank 0 names."""
        folder = self.root / "checkpoints"
        found = on_rank0(
            lambda: newest_good(folder, {"config": self.identity()}),
            self.group,
        )
        if found:
            path, manifest = found
            self.version, self.ledger = manifest["step"], manifest["ledger"]
            weights = safetensors.torch.load_file(path / WEIGHTS)
            self.policy.load_state_dict(weights)
            self.optimizer.load_state_dict(unpacked(path / "optimizer.pt"))

    def identity(self) -> dict[str, Any]:
        """Return what a run keeps from launch to launch."""
        free = "steps", "resume_by"
        return {k: v for k, v in asdict(self.cfg).items() if k not in free}

    def step(self, batch: list[Rollout] | None) -> dict[str, Any]:
        """One optimizer step of all trainers on rank 0's batch, each on its
        part. What happened; nothing, once rank 0 has sent an empty batch."""
        dist.broadcast_object_list(box := [batch], 0, self.group)
        if not box[0]:
            return {}
        mine = box[0][dist.get_rank() :: self.cfg.trainers]
        loss, ratios = surrogate(self.policy, mine, self.cfg)
        loss.backward()
        tokens = sum(one.tokens.numel() for one in box[0])
        for weight in self.policy.parameters():
            assert weight.grad is not None
            dist.all_reduce(weight.grad, group=self.group)
            weight.grad /= tokens
        self.optimizer.step()
        self.optimizer.zero_grad()
        lags = [
            (self.version - one.versions).expand_as(one.tokens).flatten()
            for one in mine
        ]
        logprobs = torch.cat([one.logprobs.flatten() for one in mine])
        entropies = torch.cat([one.entropies.flatten() for one in mine])
        table = by_lag(torch.cat(lags), ratios, logprobs, entropies)
        dist.all_reduce(table, group=self.group)
        self.version += 1
        reward = torch.cat([rewards(one) for one in box[0]]).mean()
        rows = [[lag, *row] for lag, row in enumerate(table.tolist()) if row[0]]
        return {"step": self.version, "reward": reward.item(), "lags": rows}

    def save(self, schedule: Schedule) -> None:
        """Publish all that a new launch needs, in one piece."""
        ledger = {
            "cursor": schedule.cursor,
            "in_flight": schedule.in_flight(),
        }
        state = {
            WEIGHTS: self.policy.state_dict(),
            "optimizer.pt": self.optimizer.state_dict(),
        }
        publish(
            self.root / "checkpoints",
            self.version,
            state,
            config=self.identity(),
            ledger=ledger,
        )


def by_lag(
    lags: Tensor, ratios: Tensor, logprobs: Tensor, entropies: Tensor
) -> Tensor:
    """[LAGS, 6]: tokens; sums of ratios and of their squares; ratios clipped;
    sums of reported -log p and of the reported distribution's entropy."""
    clipped = (ratios - 1).abs() > CLIP
    ones = torch.ones_like(ratios)
    columns = ones, ratios, ratios**2, clipped, -logprobs, entropies
    rows = torch.stack([column.double() for column in columns], 1)
    empty = torch.zeros(LAGS, len(columns), dtype=torch.float64)
    return empty.index_add(0, lags.clamp(max=LAGS - 1), rows)


# --8<-- [start:resume]
def resumed(cfg: Run, ledger: dict[str, Any]) -> Schedule:
    """Resume the schedule, and ask again for everything that was in flight. Two
    other positions look right: the count of prompts asked, and of those
    settled."""
    cursor, waiting = ledger["cursor"], ledger["in_flight"]
    if cfg.resume_by == "in-flight":
        return Schedule(cfg, cursor, again=waiting)
    if cfg.resume_by == "asked":
        return Schedule(cfg, cursor)
    return Schedule(cfg, cursor - len(waiting))


# --8<-- [end:resume]
def lead(trainer: Trainer, kill_round: int) -> None:
    """Rank 0: the schedule, the record, versions and checkpoints."""
    cfg, root = trainer.cfg, trainer.root
    schedule = resumed(cfg, trainer.ledger)
    samplers = range(cfg.trainers, cfg.trainers + cfg.samplers)
    rollouts: dict[int, Rollout] = {}
    # A killed launch may have published versions that this one never makes.
    shutil.rmtree(versions := root / "versions", ignore_errors=True)
    publish(versions, trainer.version, {WEIGHTS: trainer.policy.state_dict()})
    with (root / "record.jsonl").open("a") as record:
        write(record, {"launch": trainer.version})
        while trainer.version < cfg.steps:
            if schedule.round == kill_round:
                os.kill(os.getpid(), signal.SIGKILL)
            asked = schedule.ask(trainer.version)
            for sampler in samplers:
                mine = [p for s, p in asked if s == sampler - cfg.trainers]
                send((trainer.version, mine), sampler)
            if batch := schedule.take(trainer.version):
                did = trainer.step([rollouts.pop(p) for p in batch])
                did |= {"trained": batch, "refused": [*schedule.refused]}
                write(record, did)
                schedule.refused.clear()
                weights = {WEIGHTS: trainer.policy.state_dict()}
                publish(versions, trainer.version, weights)
                if trainer.version % cfg.save_every == 0:
                    sync(root / "record.jsonl")  # first: it says what is in it
                    trainer.save(schedule)
            schedule.advance()
            for sampler in samplers:
                for one in received(sampler):
                    oldest = int(one.versions.min())
                    rollouts[one.prompt.position] = one
                    schedule.queue.append((one.prompt.position, oldest))
        write(record, {"end": schedule.in_flight(), "cursor": schedule.cursor})
    dismiss(cfg)
    trainer.step([])


def write(record: Any, line: dict[str, Any]) -> None:
    """One line, which outlives a kill of this process."""
    record.write(json.dumps(line) + "\n")
    record.flush()
