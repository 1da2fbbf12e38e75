"""Defect 13: metadata are saved with a checkpoint, and never compared."""

from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

from lockstep.debugging.silent.toy import small_model


# --8<-- [start:copy]
@dataclass(frozen=True)
class TrainConfig:
    """What a run is."""

    seed: int = 0
    learning_rate: float = 3e-3
    global_batch_size: int = 64
    max_steps: int = 12
    precision: str = "fp32"
    dropout: float = 0.1


def save_checkpoint(
    path: Path, model: nn.Module, cfg: TrainConfig, step: int
) -> None:
    """Save the state, and a description of its run."""
    state = {
        "model": model.state_dict(),
        "step": step,
        "metadata": {"config": asdict(cfg), "torch": str(torch.__version__)},
    }
    torch.save(state, path)


def load_checkpoint(path: Path, model: nn.Module, cfg: TrainConfig) -> int:
    """Restore `model` for a run with `cfg`; the step to go on from."""
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    return int(state["step"])


# --8<-- [end:copy]
def demonstrate() -> None:
    """Restore a run's checkpoint in a different run."""
    model = small_model()
    saved, mine = TrainConfig(), TrainConfig(1, 0.1, 32, precision="bf16")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ckpt.pt"
        save_checkpoint(path, model, saved, step=4)
        step = load_checkpoint(path, model, mine)
    for name, was in asdict(saved).items():
        if (now := getattr(mine, name)) != was:
            print(f"saved with {name} {was}, restored with {now}")
    print(f"goes on from step {step}")
