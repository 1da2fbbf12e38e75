"""What several calculators make of one question, Llama 3 8B on 64 GPUs, and
what FSDP2 holds.

Each formula is that of a project's own source, at the commit or release that
is named, as read in November 2026. What they count of activations and buffers
is left out.
"""

import gc
from typing import NamedTuple

import torch
import torch._dynamo  # here, or each rank's first optimizer step would
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
)

from lockstep.instruments.forked import in_a_group
from lockstep.planner.figures import Formula
from lockstep.planner.models import params
from lockstep.planner.presets import preset

DP, SEQUENCE = 64, 8192


class Peer(NamedTuple):
    """Bytes of state on one GPU, by ZeRO stage from 0 to 3, None where there
    is no such estimate; or operations of a token."""

    name: str
    formulas: tuple[str | None, ...]
    source: str


# --8<-- [start:peers]
STATE = [
    Peer(
        "ZeRO paper",
        (
            "16 * params",
            "4 * params + 12 * params / dp",
            "2 * params + 14 * params / dp",
            "16 * params / dp",
        ),
        "arxiv.org/abs/1910.02054, figure 1",
    ),
    Peer(
        "Megatron-LM",
        ("18 * params", "6 * params + 12 * params / dp", None, None),
        "NVIDIA/Megatron-LM d98e8a64, theoretical_memory_usage.py",
    ),
    Peer(
        "DeepSpeed",
        (
            None,
            None,
            "2 * params + 18 * params / dp",
            "4 * table + 18 * params / dp",  # the largest module, gathered
        ),
        "deepspeedai/DeepSpeed edaa7221, zero/stage_1_and_2.py and stage3.py",
    ),
    Peer(
        "Accelerate",  # the largest of four moments, and not their sum
        ("max(4, 4 + 2, 2 * 4) * params", None, None, None),
        "accelerate 1.15.0, commands/estimate.py",
    ),
    Peer(
        "EleutherAI cookbook",
        (
            "18 * counted",
            "6 * counted + 12 * counted / dp",
            "2 * counted + 16 * counted / dp",
            "18 * counted / dp",
        ),
        "EleutherAI/cookbook 827ee3b2, calc_transformer_mem.py",
    ),
    Peer(
        "llm-analysis",  # takes input and output table for one
        (
            "18 * (params - table)",
            "6 * (params - table) + 12 * (params - table) / dp",
            "2 * (params - table) + 16 * (params - table) / dp",
            "18 * (params - table) / dp",
        ),
        "cli99/llm-analysis d841e40a, analysis.py",
    ),
    Peer(
        "mlsysim",
        (
            "16 * params",
            "4 * params + 12 * params / dp",
            "2 * params + 14 * params / dp",
            "16 * params / dp",
        ),
        "mlsysim 0.3.0, engine/solvers/training.py",
    ),
]
FLOPS = [
    Peer(
        "Megatron-LM",  # a causal mask: half of attention
        ("6 * (matrices + table) + 6 * layers * hidden * sequence",),
        "NVIDIA/Megatron-LM d98e8a64, training.py",
    ),
    Peer(
        "mlsysim",
        ("6 * params",),
        "mlsysim 0.3.0, physics/transformer.py",
    ),
    Peer(
        "llm-analysis",
        ("6 * (matrices + table) + 12 * layers * hidden * sequence",),
        "cli99/llm-analysis d841e40a, analysis.py",
    ),
    Peer(
        "torchtitan",
        ("6 * (params - table) + 12 * layers * hidden * sequence",),
        "pytorch/torchtitan b5bcd76c, models/utils.py",
    ),
    Peer(
        "6 N and attention",  # what --count-attention prints
        ("6 * params + 12 * layers * hidden * sequence",),
        "arxiv.org/abs/2204.02311, appendix B, with N all parameters",
    ),
]
# --8<-- [end:peers]


def scope() -> dict[str, float]:
    """What the formulas are of."""
    model = params(preset("llama3-8b"))
    layers, hidden, vocab = model["layers"], model["hidden"], model["vocab"]
    ratio = model["ffn"] / hidden
    return {
        "params": model["total"].value,
        "dp": DP,
        "sequence": SEQUENCE,
        "layers": layers,
        "hidden": hidden,
        "table": vocab * hidden,
        "matrices": model["attention"].value + model["mlp"].value,
        # The cookbook has a table of positions, and two norms with biases.
        "counted": 2 * vocab * hidden
        + hidden * SEQUENCE
        + 8 * hidden * layers
        + 2 * hidden
        + 2 * (1 + model["kv_heads"] / model["heads"]) * layers * hidden**2
        + 3 * ratio * layers * hidden**2,
    }


def found(peer: Peer) -> list[float | None]:
    """What a peer's formulas come to."""
    given = scope()
    return [
        Formula(peer.name, text, "B", peer.source)(given).value
        if text
        else None
        for text in peer.formulas
    ]


# What is true of FSDP2, by the width in which it sums gradients.
SUMS = {"FSDP2 holds, fp32 sums": torch.float32}
SUMS |= {"FSDP2 holds, bf16 sums": torch.bfloat16}
SIDE = 64


def held(stage: int, sums: torch.dtype) -> float:
    """Bytes of state for each parameter that this rank holds between two
    micro-batches, when FSDP2 shards what ZeRO's `stage` does."""
    model = nn.Sequential(*(nn.Linear(SIDE, SIDE, False) for _ in range(2)))
    policy = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=sums)
    ranks = dist.get_world_size()
    shape = (1, ranks) if stage else (ranks, 1)  # copies, shards
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("copy", "shard"))
    for module in (*model, model) if stage == 3 else (model,):
        fully_shard(
            module,
            mesh=mesh,
            mp_policy=policy,
            reshard_after_forward=stage == 3,
        )
    assert isinstance(model, FSDPModule)
    optimizer = torch.optim.Adam(model.parameters())
    for last in (True, False):
        model.set_requires_gradient_sync(stage > 1 or last)
        model.set_reshard_after_backward(stage == 3 or last)
        model(torch.ones(1, SIDE)).sum().backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
    return alive() / sum(p.numel() for p in model.parameters())


def alive() -> int:
    """Bytes of this process's matrices: weights, gradients, moments. Flat are
    the buffers that a thread of gloo's may hold for a moment longer."""
    gc.collect()
    plain = [t for t in gc.get_objects() if type(t) in (Tensor, nn.Parameter)]
    plain += [t.grad for t in plain if t.grad is not None]
    storages = [t.untyped_storage() for t in plain if t.dim() == 2]
    return sum({s.data_ptr(): s.nbytes() for s in storages}.values())


def by_stage(sums: torch.dtype) -> list[float]:
    """For each stage what this rank holds."""
    gc.freeze()  # what was there before is none of it, nor looked through
    return [held(stage, sums) for stage in range(4)]


def measured(sums: torch.dtype) -> list[tuple[float, float]]:
    """For each stage, bytes of a parameter that every rank holds, and those
    that its ranks share: what 2 and 4 ranks hold, solved for both."""
    two, four = (in_a_group(ranks, by_stage, sums)[0] for ranks in (2, 4))
    shared = [4 * (a - b) for a, b in zip(two, four, strict=True)]
    return [(a - s / 2, s) for a, s in zip(two, shared, strict=True)]


def main() -> None:
    """GiB of state by stage, and GFLOP for a token."""
    total = scope()["params"]
    rows = {
        name: [total * (whole + part / DP) for whole, part in measured(sums)]
        for name, sums in SUMS.items()
    } | {peer.name: found(peer) for peer in STATE}
    names = ("none", "ZeRO-1", "ZeRO-2", "ZeRO-3")
    print(f"{'GiB of state':22}" + "".join(f"{name:>8}" for name in names))
    for name, row in rows.items():
        cells = (f"{n / 2**30:8.2f}" if n else " " * 8 for n in row)
        print(f"{name:22}{''.join(cells)}".rstrip())
    print("\nGFLOP for a token")
    for peer in FLOPS:
        (flops,) = found(peer)
        print(f"{peer.name:22}{(flops or 0) / 1e9:8.2f}")


if __name__ == "__main__":
    main()
