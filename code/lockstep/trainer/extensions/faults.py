"""Faults on purpose: a rank dies, hangs or errs where it was told to."""

import errno
import os
import random
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from ..checkpoint import sync
from ..config import ConfigError, TrainConfig
from ..model import DataParallel
from ..process import Process
from ..telemetry import Observer, emit

Phases = tuple[str, ...]
KINDS: Phases = ("kill", "raise", "hang", "slow", "nan")
KINDS += ("sigterm", "enospc", "torn", "flip")
COMPUTING: Phases = "load", "h2d", "forward", "backward", "sync", "optimizer"
SAVING: Phases = "write", "fsync", "manifest", "rename", "prune"
PUBLISHING = "manifest", "rename", "prune"  # rank 0 does them
# Where a kind makes sense, if not everywhere.
PLACES = {
    "nan": ("forward", "backward", "sync", "optimizer"),
    "enospc": SAVING,
    "torn": ("write", "manifest"),
    "flip": ("prune",),  # the last stage: it strikes when that is over
}
FORM = "KIND:rank=R,step=S,phase=P[,attempt=A][,ms=M]"


class InjectedError(RuntimeError):
    """What a `raise` raises."""


# --8<-- [start:fault]
@dataclass(frozen=True)
class Fault:
    """What happens once in a run, on which rank, and when.

    `step` is the optimizer step under way; in a stage of a checkpoint, the
    step that is saved. It strikes as `phase` begins, but for two kinds: `torn`
    when that phase's file has just been written, `flip` once the checkpoint is
    published. `sync` lies between the last gradient of a step and its
    all-reduce. Without `attempt`, it is the first attempt that gets there.
    """

    kind: str
    rank: int
    step: int
    phase: str
    attempt: int | None = None
    ms: int | None = None

    def __str__(self) -> str:
        fields = list(asdict(self).items())[1:]
        given = [
            f"{name}={value}" for name, value in fields if value is not None
        ]
        return f"{self.kind}:{','.join(given)}"

    @property
    def moment(self) -> str:
        """When it strikes: a phase begins, or one of two others."""
        if self.kind == "torn":
            return f"{self.phase} half done"
        return "published" if self.kind == "flip" else self.phase

    @property
    def watched(self) -> set[str]:
        """The phases of which it has to be told."""
        if self.kind == "flip":
            return set()
        if self.kind == "torn":
            return {"checkpoint", "write", "manifest"}
        if self.phase in SAVING:
            return {"checkpoint", self.phase}
        return {"backward" if self.phase == "sync" else self.phase}


# --8<-- [end:fault]
def refused(text: str, wrong: str) -> NoReturn:
    """Raise ConfigError: what is wrong with `--fault text`."""
    raise ConfigError(f"--fault {text}: {wrong}")


def parsed(text: str) -> Fault:
    """`KIND:rank=R,step=S,phase=P[,attempt=A][,ms=M]`, taken apart.

    Raises ConfigError for what is not of that form.
    """
    kind, _, rest = text.partition(":")
    if kind not in KINDS:
        refused(text, f"the kind must be {' or '.join(KINDS)}")
    given: dict[str, Any] = {}
    for part in rest.split(","):
        name, _, value = part.partition("=")
        known = name in Fault.__dataclass_fields__ and name != "kind"
        if not known or not value or name in given:
            refused(text, f"{part!r} does not fit; it must be {FORM}")
        if name != "phase" and not (value.isascii() and value.isdecimal()):
            refused(text, f"{name} must be a whole number")
        given[name] = value if name == "phase" else int(value)
    for name in ("rank", "step", "phase"):
        if name not in given:
            refused(text, f"{name} is missing; it must be {FORM}")
    return Fault(kind, **given)


def checked(text: str, cfg: TrainConfig, world_size: int) -> Fault:
    """Return the fault that `text` asks for.

    Raises ConfigError, which names what is accepted, if this run can have no
    such fault.
    """
    fault = parsed(text)
    kind, phase = fault.kind, fault.phase
    places = PLACES.get(kind, COMPUTING + SAVING)
    if phase not in places:
        refused(text, f"the phase of {kind} must be {' or '.join(places)}")
    if phase in PUBLISHING and kind != "flip" and fault.rank:
        refused(text, f"{phase} is done by rank 0; it must be rank=0")
    if fault.rank >= world_size:
        refused(text, f"the rank must be from 0 to {world_size - 1}")
    last = cfg.stop_at_step or cfg.max_steps
    if not 1 <= fault.step <= (last or fault.step):
        refused(text, f"the step must be from 1 to {last or 'the last'}")
    every = cfg.checkpoint_every_steps
    if phase in SAVING and fault.step % every and fault.step != last:
        refused(text, f"what is saved is each step that {every} divides")
    if (kind == "slow") != bool(fault.ms):
        refused(text, "ms=M, at least 1, goes with slow and nothing else")
    if kind == "nan" and phase != "forward" and cfg.precision == "fp16":
        # Scaled gradients may overflow: the step is skipped, and all go on.
        refused(text, "with --precision fp16 it must be phase=forward")
    return fault


# --8<-- [start:faults]
class Faults(Observer):
    """Lets the faults of this rank strike, each once in the run.

    `RUN/faults/` remembers those that did, across attempts: a file each, on the
    disk before the strike, as is an event in the log.
    """

    phases: Phases = COMPUTING + SAVING  # of an instance: those that it needs

    def __init__(
        self,
        texts: tuple[str, ...],
        cfg: TrainConfig,
        me: Process,
        attempt: int,
        strategy: DataParallel,
    ) -> None:
        self.folder = cfg.run_dir / "faults"
        self.mine: list[Fault] = []
        for text in texts:
            fault = parsed(text)
            at = attempt if fault.attempt is None else fault.attempt
            if at < attempt or (self.folder / str(fault)).exists():
                continue  # over; there may be fewer ranks by now
            checked(text, cfg, me.world_size)
            if fault.rank == me.rank and at == attempt:
                self.mine.append(fault)
        self.phases = tuple(set().union(*(f.watched for f in self.mine)))
        self.cfg, self.strategy = cfg, strategy
        self.step = self.micro = self.gradients = 0
        self.saves: list[int] = []  # steps whose saving has begun, not ended
        self.sealing = self.poisoned = False
        self.published = Path()

    def begin(self, phase: str) -> None:
        if phase == "checkpoint":
            self.saves.append(self.step)
        elif phase == "manifest":
            self.sealing = True
        elif phase == "backward":
            self.micro, self.gradients = self.micro + 1, 0
        self.reached(phase, self.under_way(phase))

    def end(self, phase: str) -> None:
        if phase == "write":
            file = "manifest" if self.sealing else phase
            self.reached(f"{file} half done", self.under_way(phase))
        elif phase == "manifest":
            self.sealing = False

    def under_way(self, phase: str) -> int:
        """Return the step of `phase`: a thread may still be saving a step
        that the loop has finished."""
        in_saving = phase in SAVING and self.saves
        return self.saves[0] if in_saving else self.step + 1

    def committed(self, step: int, *_: Any) -> None:
        self.step, self.micro = step, 0

    def event(self, record: dict[str, Any]) -> None:
        kind = record["event"]
        if kind == "run_started" and "backward" in self.phases:
            for weight in self.strategy.module.parameters():
                weight.register_post_accumulate_grad_hook(self.gradient)
        elif kind == "checkpoint_restored":
            self.step = record["step"]
        elif (
            kind.startswith("checkpoint_") and record.get("step") in self.saves
        ):
            self.saves.remove(record["step"])  # saved, failed or skipped
        if kind == "checkpoint_saved":
            root = self.cfg.run_dir / "checkpoints"
            self.published = root / record["checkpoint"]
            self.reached("published", record["step"])

    def gradient(self, weight: Tensor) -> None:
        """`weight` has its gradient, which DDP has not reduced yet."""
        self.gradients += 1
        last = self.micro == (self.cfg.grad_accum_steps or 1)
        if last and self.gradients == len([*self.strategy.module.parameters()]):
            self.reached("sync", self.step + 1)
        if self.poisoned and weight.grad is not None:
            weight.grad.fill_(torch.nan)
            self.poisoned = False

    def reached(self, moment: str, step: int) -> None:
        """Let what is due at this moment of `step` strike."""
        for fault in self.mine:
            due = (fault.moment, fault.step) == (moment, step)
            if due and self.first(fault):
                said = {"kind": fault.kind, "step": step, "phase": fault.phase}
                emit("fault", fault=str(fault), ms=fault.ms, **said)
                self.strike(fault)

    def first(self, fault: Fault) -> bool:
        """Whether it never struck; from now on it did."""
        self.folder.mkdir(exist_ok=True)
        try:
            (self.folder / str(fault)).touch(exist_ok=False)
        except FileExistsError:
            return False
        sync(self.folder)
        sync(self.cfg.run_dir)
        return True

    def strike(self, fault: Fault) -> None:
        """Do it, to this process or to its files."""
        match fault.kind:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "raise":
                raise InjectedError(f"as told by --fault {fault}")
            case "hang":
                while True:  # a signal's handler would end a single sleep
                    time.sleep(3600)
            case "slow":
                time.sleep((fault.ms or 0) / 1e3)
            case "nan":
                self.poison(fault.phase)
            case "sigterm":
                os.kill(os.getpid(), signal.SIGTERM)
            case "enospc":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            case "torn":
                self.tear(fault.phase)
                os.kill(os.getpid(), signal.SIGKILL)
            case "flip":
                self.flip(random.Random(f"{self.cfg.seed} {fault}"))

    def poison(self, phase: str) -> None:
        """Turn into NaN: the activations, the gradient that comes next, or all
        gradients once they are reduced."""
        module = self.strategy.module
        if phase == "forward":

            def spoil(_: nn.Module, x: Any, y: Tensor) -> Tensor:
                handle.remove()
                return y * torch.nan

            handle = module.register_forward_hook(spoil)
        elif phase == "optimizer":
            for weight in module.parameters():
                if weight.grad is not None:
                    weight.grad.fill_(torch.nan)
        else:
            self.poisoned = True

    def tear(self, phase: str) -> None:
        """Leave half of the file just written on the disk."""
        folder = self.cfg.run_dir / "checkpoints" / "tmp"
        name = "manifest.json" if phase == "manifest" else "*"
        files = [file for file in folder.glob(name) if file.is_file()]
        newest = max(files, key=lambda file: file.stat().st_mtime_ns)
        os.truncate(newest, newest.stat().st_size // 2)
        sync(newest)

    def flip(self, chance: random.Random) -> None:
        """Change one byte of the checkpoint that has just been published."""
        files = sorted(f for f in self.published.iterdir() if f.stat().st_size)
        with chance.choice(files).open("r+b") as file:
            place = chance.randrange(os.fstat(file.fileno()).st_size)
            file.seek(place)
            (byte,) = file.read(1)
            file.seek(place)
            file.write(bytes([byte ^ 0xFF]))  # in JSON, no longer a character


# --8<-- [end:faults]
