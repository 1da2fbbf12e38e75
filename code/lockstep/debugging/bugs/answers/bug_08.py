"""Autocast is switched by an object that is there, enabled or not."""

from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from lockstep.debugging.bugs.rig import launch

SYMPTOM = "The linear layers compute in bfloat16 though fp32 is asked for."


def dtypes(module: ModuleType) -> set[str]:
    """Grows by the format of each linear layer's output."""
    seen: set[str] = set()

    def look(layer: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(layer, nn.Linear):
            seen.add(str(output.dtype))

    register_module_forward_hook(look)
    return seen


def prove(trainer: Path, folder: Path) -> None:
    """One step on one rank."""
    asked: dict[str, Any] = {"precision": "fp32", "max_steps": 1}
    run = launch(trainer, folder, world=1, watch=dtypes, **asked)
    found = sorted(run.seen[0])
    assert found == ["torch.float32"], f"asked: fp32; seen: {found}"
