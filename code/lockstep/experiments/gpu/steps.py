"""Steps of a decoder: time and memory by format, batch and recomputation, the
optimizer's kernels, and a model so small that launches are what takes time."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)

from lockstep.experiments.gpu.clock import device, peak, seconds, wait
from lockstep.experiments.gpu.decoder import Decoder
from lockstep.experiments.gpu.settings import FSDP2, SMALL, Shape

Row = dict[str, Any]
CASTS = {"bf16": torch.bfloat16, "fp16": torch.float16}  # by autocast


@contextmanager
def alone() -> Iterator[None]:
    """A process group of this process."""
    place = device()
    dist.init_process_group(
        "nccl" if place.type == "cuda" else "gloo",
        store=dist.HashStore(),
        rank=0,
        world_size=1,
        device_id=torch.device("cuda", 0) if place.type == "cuda" else None,
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


def made(
    shape: Shape,
    recompute: str = "none",
    precision: str = "",
    compiled: bool = False,
    offload: bool = False,
) -> Decoder:
    """On the device, in fp32; FSDP2 casts a block's weights as it gathers
    them, and with `offload` keeps weights, gradients and optimizer on the
    host."""
    torch.manual_seed(0)
    with device():
        model = Decoder(shape, recompute)
    if compiled:
        for block in model.blocks:
            block.compile()
    if precision == FSDP2:
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
        place = CPUOffloadPolicy() if offload else OffloadPolicy()
        for part in (*model.blocks, model):
            fully_shard(part, mp_policy=policy, offload_policy=place)
    return model


def drawn(shape: Shape, batch: int, s: int) -> Tensor:
    """Token ids, (batch, s)."""
    return torch.randint(shape.vocab, (batch, s), device=device())


class Step:
    """Forward, backward and update; fp16 with a scaler of the loss."""

    def __init__(
        self,
        model: Any,  # a module, or what torch.compile makes of one
        ids: Tensor,
        precision: str = "bf16",
    ) -> None:
        self.model, self.ids, self.precision = model, ids, precision
        kind, place = CASTS.get(precision), device().type
        self.cast = (
            torch.autocast(place, kind) if kind is not None else nullcontext()
        )
        self.scaler = torch.amp.GradScaler(place, enabled=precision == "fp16")
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=1e-4, fused=True
        )

    def backward(self) -> None:
        """Gradients alone."""
        with self.cast:
            loss = self.model(self.ids)
        self.scaler.scale(loss).backward()

    def __call__(self) -> None:
        torch.backends.cuda.matmul.allow_tf32 = self.precision == "tf32"
        self.backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        torch.backends.cuda.matmul.allow_tf32 = False


def measured(
    shape: Shape,
    batch: int,
    s: int,
    recompute: str = "none",
    precision: str = FSDP2,
    compiled: bool = False,
    offload: bool = False,
    repeats: int = 4,
) -> Row:
    """Seconds of a step, its peak, and what weights, gradients and optimizer
    take of it."""
    row: Row = {
        "batch": batch,
        "tokens": batch * s,
        "sequence": s,
        "recompute": recompute,
        "precision": precision,
        "compiled": compiled,
        "offload": offload,
    }
    try:
        with peak() as held:
            model = made(shape, recompute, precision, compiled, offload)
            step = Step(model, drawn(shape, batch, s), precision)
            step()
            row["seconds"] = seconds(step, repeats, 1)
        row["params"] = sum(p.numel() for p in model.parameters())
        row["peak"] = held.bytes
        wait()
    except torch.cuda.OutOfMemoryError:
        row["refused"] = "out of memory"
    return row


def kept(
    shape: Shape, batch: int, s: int, recompute: str, layers: tuple[int, int]
) -> Row:
    """What the backward pass keeps of one block, as the difference between a
    decoder of more layers and one of fewer, when the forward pass has ended."""
    found = []
    for count in layers:
        given = {**vars(shape), "layers": count}
        model = made(Shape(**given), recompute, FSDP2)
        ids = drawn(shape, batch, s)
        model(ids).backward()  # workspaces exist now
        model.zero_grad(set_to_none=True)
        wait()
        gc.collect()  # of the model before, whose parts refer to each other
        before = allocated()
        out = model(ids)
        found.append(allocated() - before)
        del model, out
    fewer, more = found
    return {
        "batch": batch,
        "sequence": s,
        "recompute": recompute,
        "bytes_per_block": (more - fewer) / (layers[1] - layers[0]),
    }


def allocated() -> int:
    """Bytes that tensors hold on the GPU now."""
    return torch.cuda.memory_allocated() if torch.cuda.is_available() else 0


def updates(shape: Shape) -> list[Row]:
    """AdamW's update of all weights: one kernel for each operation and tensor,
    operations on lists of tensors, and one kernel for all of it."""
    model = made(shape)
    for p in model.parameters():
        p.grad = torch.randn_like(p) * 1e-3
    found = []
    for name, foreach, fused in (
        ("for-loop", False, False),
        ("foreach", True, False),
        ("fused", False, True),
    ):
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=1e-4, foreach=foreach, fused=fused
        )
        with peak() as held:
            optimizer.step()
        state = sum(2 * p.numel() * 4 for p in model.parameters())
        found.append(
            {
                "how": name,
                "params": sum(p.numel() for p in model.parameters()),
                "seconds": seconds(optimizer.step, 5, 1),
                "beyond_state": held.bytes - state,
            }
        )
        del optimizer
    return found


def launches(shape: Shape = SMALL, s: int = 512) -> list[Row]:
    """A small model: eager, compiled, and as CUDA graphs, which launch all
    kernels of a pass at once. The share of a step in which kernels run."""
    found = []
    for name, mode in (
        ("eager", None),
        ("compiled", "default"),
        ("CUDA graphs", "reduce-overhead"),
    ):
        torch._dynamo.reset()
        model = made(shape)
        run = torch.compile(model, mode=mode) if mode else model
        row: Row = {"how": name, "tokens": s}
        for batch in (1, 64):
            step = Step(run, drawn(shape, batch, s))
            for _ in range(3):
                step()
            row[f"seconds_{batch}"] = seconds(step, 10, 2)
            row[f"kernels_{batch}"], row[f"busy_{batch}"] = in_kernels(step)
        found.append(row)
    return found


def in_kernels(step: Callable[[], None], steps: int = 3) -> tuple[float, float]:
    """Kernels of a step, and the seconds in which one ran."""
    if not torch.cuda.is_available():
        return 0.0, 0.0
    kinds = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as traced:
        for _ in range(steps):
            step()
        wait()
    spans = [
        event.time_range.elapsed_us() * 1e-6
        for event in traced.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    ]
    return len(spans) / steps, sum(spans) / steps


def fragments() -> list[Row]:
    """What the allocator reserves for batches of changing length, with fixed
    segments and with segments that grow. Each in a process of its own."""
    found = []
    for setting in ("expandable_segments:False", "expandable_segments:True"):
        given = os.environ | {
            "PYTORCH_CUDA_ALLOC_CONF": setting,
            "PYTORCH_ALLOC_CONF": setting,
        }
        command = [sys.executable, "-m", __spec__.name]
        out = subprocess.run(
            command, env=given, capture_output=True, text=True, check=True
        ).stdout.split()
        found.append(
            {
                "setting": setting,
                "allocated": int(out[-2]),
                "reserved": int(out[-1]),
            }
        )
    return found


def of_changing_length(steps: int = 60) -> tuple[int, int]:
    """Most allocated and most reserved over steps with lengths drawn by
    chance."""
    shape = Shape(layers=8, vocab=32768)
    model = made(shape)
    chance = torch.Generator().manual_seed(0)
    for _ in range(steps):
        s = int(torch.randint(256, 4097, (), generator=chance))
        Step(model, drawn(shape, 2, s)).backward()
        model.zero_grad(set_to_none=True)
    return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()


if __name__ == "__main__":
    print(*of_changing_length())
