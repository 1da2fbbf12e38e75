"""What several calculators make of one question: Llama 3 8B on 64 GPUs.

Each formula is that of a project's own source, at the commit that is named, as
read in November 2026. What they count of activations and buffers is left out.
"""

from typing import NamedTuple

from lockstep.planner.figures import Formula
from lockstep.planner.models import params, preset

DP, SEQUENCE = 64, 8192


class Peer(NamedTuple):
    """Bytes of state on one GPU, by ZeRO stage, None where there is no such
    estimate; or operations of a token."""

    name: str
    formulas: tuple[str | None, ...]
    source: str


# --8<-- [start:peers]
STATE = [
    Peer(
        "ZeRO paper",
        (
            "4 * params + 12 * params / dp",
            "2 * params + 14 * params / dp",
            "16 * params / dp",
        ),
        "arxiv.org/abs/1910.02054, figure 1",
    ),
    Peer(
        "Megatron-LM",
        ("6 * params + 12 * params / dp", None, None),
        "NVIDIA/Megatron-LM d98e8a64, theoretical_memory_usage.py",
    ),
    Peer(
        "DeepSpeed",
        (
            None,
            "2 * params + 18 * params / dp",
            "4 * table + 18 * params / dp",  # the largest module, gathered
        ),
        "deepspeedai/DeepSpeed edaa7221, zero/stage_1_and_2.py and stage3.py",
    ),
    Peer(
        "EleutherAI cookbook",
        (
            "6 * counted + 12 * counted / dp",
            "2 * counted + 16 * counted / dp",
            "18 * counted / dp",
        ),
        "EleutherAI/cookbook 827ee3b2, calc_transformer_mem.py",
    ),
]
FLOPS = [
    Peer(
        "Megatron-LM",  # a causal mask: half of attention
        ("6 * (matrices + table) + 6 * layers * hidden * sequence",),
        "NVIDIA/Megatron-LM d98e8a64, training.py",
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


def main() -> None:
    """GiB of state by stage, and GFLOP for a token."""
    print(f"{'GiB of state':22}{'ZeRO-1':>8}{'ZeRO-2':>8}{'ZeRO-3':>8}")
    for peer in STATE:
        cells = (f"{n / 2**30:8.2f}" if n else " " * 8 for n in found(peer))
        print(f"{peer.name:22}{''.join(cells)}".rstrip())
    print()
    print(f"{'GFLOP for a token':22}")
    for peer in FLOPS:
        (flops,) = found(peer)
        print(f"{peer.name:22}{(flops or 0) / 1e9:8.2f}")


if __name__ == "__main__":
    main()
