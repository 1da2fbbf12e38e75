"""Settings of a run, which validate themselves, and the run's identity."""

import hashlib
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

LEAST = {"seed": 0, "warmup_steps": 0, "num_workers": 0, "weight_decay": 0.0}
LEAST |= {"learning_rate": 1e-9, "clip_norm": 1e-9, "timeout_seconds": 0.1}
LEAST |= {"dropout": 0.0, "feature_dropout": 0.0}  # 1 for every other number
MOST = {"seed": 2**63 - 1, "dropout": 0.99, "feature_dropout": 0.99}
# Place, topology and cadence may change at each launch; the rest may not.
OF_A_LAUNCH = {
    "run_dir", "micro_batch_size", "grad_accum_steps", "stop_at_step",
    "num_workers", "checkpoint_every_steps", "keep_checkpoints",
    "log_every_steps", "timeout_seconds"}


class ConfigError(Exception):
    """A setting that cannot be used; the message says how to fix it."""


@dataclass(frozen=True)
class TrainConfig:
    """One training run; each field is a command-line flag, with its help."""

    run_dir: Path  # Folder of the run
    dataset: Literal["digits", "toy"] = "digits"  # Built-in data set
    task: str = ""  # Your task, as module:factory
    seed: int = 0  # Seed of the run
    global_batch_size: int | None = None  # Samples per step, all ranks
    micro_batch_size: int = 32  # Samples in one forward pass
    grad_accum_steps: int | None = None  # Micro-batches per step
    max_epochs: int | None = None  # Epochs; 20 without --max-steps
    max_steps: int | None = None  # Steps, instead of --max-epochs
    stop_at_step: int | None = None  # Last step of this launch
    learning_rate: float = 3e-3  # Peak of the learning rate
    weight_decay: float = 0.01  # AdamW's weight decay
    warmup_steps: int = 20  # Steps of linear warm-up
    clip_norm: float = 1.0  # Largest norm of a step's gradient
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"  # Format of matmuls
    hidden_size: int = 128  # Width of the model
    dropout: float = 0.1  # Share of activations set to zero
    feature_dropout: float = 0.05  # Share of inputs set to zero
    num_workers: int = 0  # Loader processes per rank
    checkpoint_every_steps: int = 50  # Steps between checkpoints
    keep_checkpoints: int = 3  # Newest checkpoints that stay on disk
    log_every_steps: int = 10  # Steps between log lines
    timeout_seconds: float = 600.0  # Longest time of a collective

    def __post_init__(self) -> None:
        for f in fields(self):
            value, names = getattr(self, f.name), get_args(f.type)
            least, most = LEAST.get(f.name, 1), MOST.get(f.name, 10**9)
            if isinstance(value, str) and names and value not in names:
                refuse(f.name, value, " or ".join(names))
            if isinstance(value, int | float) and not least <= value <= most:
                refuse(f.name, value, f"from {least} to {most}")
        if self.max_epochs and self.max_steps:
            raise ConfigError("give --max-epochs or --max-steps, not both")
        if not self.max_epochs and not self.max_steps:
            object.__setattr__(self, "max_epochs", 20)

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide the training, by name."""
        return {k: v for k, v in vars(self).items() if k not in OF_A_LAUNCH}

    def digest(self) -> str:
        """Return the identity's SHA-256, which is equal in every process."""
        text = json.dumps(self.identity(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def for_launch(self, world: int, began: dict[str, Any]) -> "TrainConfig":
        """Return the settings for `world` ranks, with batch and accumulation.
        `began` is the identity that the first launch saved, or {}; a setting
        that contradicts it raises ConfigError, which says how to fix it."""
        micro, accum = self.micro_batch_size, self.grad_accum_steps
        batch = self.global_batch_size or began.get("global_batch_size")
        batch = batch or micro * (accum or 1) * world
        accum = accum or max(1, batch // (micro * world))
        cfg = replace(self, global_batch_size=batch, grad_accum_steps=accum)
        require_same(cfg.identity(), began)
        if micro * accum * world != batch:
            share, rest = divmod(batch, world)
            keep = f"a number of ranks that divides {batch}"
            if not rest:
                fits = max(m for m in range(1, min(micro, share) + 1)
                           if share % m == 0)
                keep = f"--micro-batch-size {fits} --grad-accum-steps"
                keep += f" {share // fits}"
            raise ConfigError(
                f"micro-batch {micro} x accumulation {accum} x {world} ranks is"
                f" not the run's global batch of {batch}; to keep it: {keep}")
        return cfg


def refuse(name: str, value: Any, accepted: str) -> NoReturn:
    """Raise a ConfigError that names the command-line flag."""
    flag = name.replace("dataset_", "dataset or --task: ").replace("_", "-")
    raise ConfigError(f"--{flag} is {value!r}; it must be {accepted}")


def require_same(now: dict[str, Any], began: dict[str, Any]) -> None:
    """Raise ConfigError for the first setting that differs from `began`."""
    for name, was in began.items():
        if now.get(name) != was:
            refuse(name, now.get(name), f"{was!r}, as when this run began")
