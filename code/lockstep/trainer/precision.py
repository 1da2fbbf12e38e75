"""The number format: autocast for the forward pass, a scaler for fp16."""

from contextlib import AbstractContextManager, nullcontext

import torch


def autocast(precision: str, device: torch.device) -> AbstractContextManager:
    """Run the forward pass and the loss in `precision`; weights stay fp32."""
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    return torch.autocast(device.type, dtype) if dtype else nullcontext()


def make_scaler(precision: str, device: torch.device) -> torch.amp.GradScaler:
    """Return the loss scaler that fp16 needs; otherwise it changes nothing."""
    return torch.amp.GradScaler(device.type, enabled=precision == "fp16")
