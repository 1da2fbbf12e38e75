"""Defect 8: autocast is switched by `scaler is not None`, and a disabled
scaler is not None."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.amp import GradScaler

from lockstep.debugging.silent.toy import small_model, toy


# --8<-- [start:copy]
def make_scaler(device: torch.device, use_amp: bool) -> GradScaler:
    """Mixed precision where there is a GPU for it."""
    return GradScaler(device.type, enabled=use_amp and device.type == "cuda")


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: GradScaler | None,
    x: Tensor,
    y: Tensor,
) -> Tensor:
    """One optimizer step; its loss."""
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(x.device.type, enabled=scaler is not None):
        loss = F.cross_entropy(model(x), y)
    if scaler is not None:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        optimizer.step()
    return loss.detach()


# --8<-- [end:copy]
def run(model: nn.Module) -> Tensor:
    """One step, with mixed precision switched off; its loss."""
    x, y = toy()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = make_scaler(x.device, use_amp=False)
    return train_step(model, optimizer, scaler, x, y)


def demonstrate() -> None:
    """Print the number formats of a step that should be fp32."""
    model = small_model()
    dtypes: list[torch.dtype] = []
    model.register_forward_hook(lambda _, ins, out: dtypes.append(out.dtype))
    loss = run(model)
    print("use_amp=False")
    print(f"weights {next(model.parameters()).dtype}, loss {loss.dtype}")
    print(f"logits {dtypes[0]}")
