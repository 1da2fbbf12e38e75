"""In which number format: what autocast scopes, what the scaler protects."""

from contextlib import AbstractContextManager, nullcontext

import torch


def autocast(precision: str, device: torch.device) -> AbstractContextManager:
    """The forward pass and the loss in `precision`; the weights stay fp32."""
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    return torch.autocast(device.type, dtype) if dtype else nullcontext()


def make_scaler(precision: str, device: torch.device) -> torch.amp.GradScaler:
    """Keeps small fp16 gradients from vanishing; disabled, changes nothing."""
    return torch.amp.GradScaler(device.type, enabled=precision == "fp16")
