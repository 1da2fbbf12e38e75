"""One layout of a run: memory of the fullest rank, bytes, and the step's time.

The step's time is a model, stated in its formulas: matrix products at a given
share of the peak, the pipeline's bubble, and what communication does not hide
behind a given share of the computing.
"""

from .activations import BLOCK, KEPT, OFFLOADED, SOME_LAYERS, WIDTH
from .communication import DEFAULTS, communication, sent_as
from .constants import VALUES
from .figures import (
    Formula,
    PlanError,
    above,
    derive,
    divides,
    flag,
    one_of,
    plain,
    refuse,
    whole,
)
from .flops import RECOMPUTE, costs, per_token
from .memory import shards
from .models import params
from .pipeline import pipeline
from .seconds import rates, timed

ZERO = "Rajbhandari et al. 2020 (ZeRO), section 5"
MODEL = "this planner's model"
# Bytes of a logit: 16 bits, 32 bits for the loss, 16 and 32 of gradients.
LOSSES = {"eager": 12, "fused": 6, "chunked": 0}
RUN_RECOMPUTE = RECOMPUTE + ("moe",)
OFFLOAD = "", "optimizer", "state"
RUN: dict = {
    "recompute": "none",
    "recompute_layers": 0,  # all
    "offload_layers": 0,  # whose activations go to the host
    "offload": "",
    "schedule": "1f1b",
    "bytes_optimizer": 12,
    "gpus_per_node": 8,
    "efficiency": 0,  # of the peak; 0: by the model of a layer's time
    "overlap": 0,  # of computing; 0: by the model
    "hardware": "h100",
    "precision": "",  # fp8, if the peak is that of FP8
    "kernels": "",  # by the accelerator and the state's bytes
    "memory_bandwidth": 0,
    "causal": True,
    "loss": "",  # eager with PyTorch's kernels, else fused
    "count_embeddings": 1,
    "count_attention": 1,
    "bucket_copies": False,  # of gradients: not gradient_as_bucket_view
    "tokens": 0,
    "price_gpu_hour": 0,
    "watts_gpu": 0,
    "pue": 1,
}


# What the chapters compute with: round shares in place of the model of a
# layer's time, PyTorch's own kernels, logits as Megatron-LM keeps them, and no
# memory that the system takes.
WHITEBOARD: dict = {
    "efficiency": 0.6,
    "overlap": 0.8,
    "kernels": "torch",
    "loss": "fused",
    "recompute": "none",
    "context_memory": 0,
    "group_memory": 0,
    "fragmented": 0,
}


def state(name: str, each: str, stage: int) -> Formula:
    """Bytes of one kind of state; a router's experts have fewer copies."""
    shared = f"if zero_stage >= {stage} else 1"
    return Formula(
        f"{name}_bytes",
        f"{each} * ((dense_rank + embedding_rank) / (shard * cp {shared})"
        " + routed_rank / (max(1, shard * cp * tp / (expert_tp * ep))"
        f" {shared}))",
        "B",
        ZERO,
    )


MEMORY = [
    Formula(
        "routed",
        "(layers - dense_layers) * experts * expert if experts else 0",
        "parameters",
        "experts that a router chooses",
    ),
    Formula(
        "dense_rank",
        "(total - embedding - routed) / layers * ceil(layers / pp) / tp",
        "parameters",
        "the stage with most layers",
    ),
    Formula(
        "embedding_rank",
        "embedding / tp / (2 if pp > 1 and not tied_embeddings else 1)",
        "parameters",
        "the first stage has the table, the last the output layer",
    ),
    Formula(
        "routed_rank",
        "routed / layers * ceil(layers / pp) / (expert_tp * ep)",
        "parameters",
        "Lepikhin et al. 2021 (GShard)",
    ),
    Formula(
        "params_rank",
        "dense_rank + embedding_rank + routed_rank",
        "parameters",
        "sum",
    ),
    WIDTH,
    BLOCK,
]
TRAINED = [
    state("parameters", "bytes_parameter", 3),
    Formula(
        "gradients_bytes",
        "bytes_gradient * (params_rank"
        " if zero_stage < 2 or (pp > 1 and not reduce_each) else"
        " (dense_rank + embedding_rank) / (shard * cp)"
        " + routed_rank / max(1, shard * cp * tp / (expert_tp * ep)))",
        "B",
        ZERO + "; with a pipeline, whole until the last micro-batch: torch"
        " 2.13, pipelining/stage.py, sets requires_gradient_sync there",
    ),
    state("optimizer", "bytes_optimizer", 1),
]
ADAPTERS = [
    Formula(
        "adapters",
        "lora_rank * (layers * (4 * hidden + 2 * (heads + kv_heads) * head_dim)"
        " + (3 if gated_mlp else 2) * ((layers if not experts else"
        " dense_layers) * (hidden + ffn) + ((layers - dense_layers)"
        " * (experts + shared_experts) * (hidden + expert_ffn)"
        " if experts else 0)))",
        "parameters",
        "two matrices for each linear layer of a block; Hu et al. 2021, 4.1",
    ),
    Formula(
        "adapters_rank", "adapters / (tp * pp)", "parameters", "even split"
    ),
    Formula(
        "trained_share",
        "adapters_rank / params_rank",
        "of a rank's parameters",
        "those with gradients",
    ),
]
FROZEN = [
    state("frozen", "bytes_frozen", 3),
    Formula(
        "parameters_bytes",
        "frozen_bytes + bytes_parameter * adapters_rank"
        " / (shard * cp if zero_stage >= 3 else 1)",
        "B",
        "frozen weights, and adapters",
    ),
    Formula(
        "gradients_bytes",
        "bytes_gradient * adapters_rank"
        " / (shard * cp if zero_stage >= 2 else 1)",
        "B",
        "of the adapters; " + ZERO,
    ),
    Formula(
        "optimizer_bytes",
        "bytes_optimizer * adapters_rank"
        " / (shard * cp if zero_stage >= 1 else 1)",
        "B",
        "of the adapters; " + ZERO,
    ),
]
# What the host holds, by `offload`.
HOSTED = {
    "": (),
    "optimizer": ("optimizer_bytes",),
    "state": ("parameters_bytes", "gradients_bytes", "optimizer_bytes"),
}
SUM = [
    Formula(
        "first_bytes",
        "kept_per_layer * ceil(layers / pp) * in_flight_microbatches"
        " + (block_bytes if kept_per_layer < block_bytes else 0)",
        "B",
        "Korthikanti et al. 2022, section 4.2.3, on the first stage; and the"
        " layer that is recomputed",
    ),
    Formula(
        "last_bytes",
        "kept_per_layer * ceil(layers / pp) * last_in_flight"
        " + (block_bytes if kept_per_layer < block_bytes else 0)",
        "B",
        "the same on the last stage, which holds fewer micro-batches",
    ),
    Formula(
        "loss_bytes",
        "(1 + mtp) * micro_batch * sequence / cp * vocab / tp * bytes_logit",
        "B",
        "logits and what the loss keeps of them, on the last stage",
    ),
    Formula(
        "activations_bytes",
        "last_bytes if last_bytes + loss_bytes > first_bytes else first_bytes",
        "B",
        "of the stage that holds more",
    ),
    Formula(
        "logits_bytes",
        "loss_bytes if last_bytes + loss_bytes > first_bytes else 0",
        "B",
        "on the last stage, if that is the fullest",
    ),
    Formula(
        "layer_rank",
        "(dense_rank + routed_rank) / ceil(layers / pp)",
        "parameters",
        "an average layer",
    ),
    Formula(
        "unit_rank",
        "max(hidden * ffn / tp, routed_rank / ceil(layers / pp) / 3)"
        " if by_weight else layer_rank",
        "parameters",
        "what ZeRO-3 gathers at a time: a layer, or on a TPU one weight, where"
        " it is used (Xu et al. 2021, GSPMD)",
    ),
    Formula(
        "buffers_bytes",
        "bytes_gathered * (params_rank if keep_gathered"
        " else max(2 * unit_rank,"
        " embedding_rank / (1 if tied_embeddings or pp > 1 else 2)))"
        " if zero_stage >= 3 else params_rank * bytes_gradient * bucket_copies",
        "B",
        "ZeRO-3: one unit gathered, and the next one under way, or at the loss"
        " the output layer, or all layers that FSDP keeps; else DDP's buckets,"
        " unless gradients are views of them",
    ),
    Formula(
        "reducing_bytes",
        "(bytes_gathered + bytes_reduced) * unit_rank * trained_share"
        " if zero_stage >= 3 else 0",
        "B",
        "a unit's whole gradient, and the one before it, which FSDP2 holds for"
        " its reduce-scatter until the next layer's is done: torch 2.13,"
        " _fsdp_param_group.py",
    ),
    Formula(
        "transient_bytes",
        "activations_bytes + max(logits_bytes, reducing_bytes) + buffers_bytes",
        "B",
        "all that comes and goes in a step",
    ),
    Formula(
        "absent_bytes",
        "0 if gradients_stay else min(gradients_bytes, activations_bytes"
        " + max(0, logits_bytes - reducing_bytes) - block_bytes)",
        "B",
        "gradients that the fullest moment doesn't hold: none exist at the"
        " loss, and at the end of the backward pass one block's activations"
        " are left",
    ),
    Formula(
        "system_bytes",
        "context_memory + fragmented * transient_bytes + group_memory"
        " * ((dp > 1) + (tp > 1) + (pp > 1) + (cp > 1) + (ep > 1))",
        "B",
        "CUDA's context, NCCL's buffers, and memory that the allocator holds in"
        " pieces; " + MODEL,
    ),
    Formula(
        "total_bytes",
        "parameters_bytes + gradients_bytes - absent_bytes + optimizer_bytes"
        " + transient_bytes + system_bytes",
        "B",
        "sum, at the loss or at the end of the backward pass",
    ),
]


def layout(given: dict) -> dict:
    """`given` and all figures of one layout.

    It has a model's shape, or what `params` made of one, gpus, sequence,
    global_batch (sequences), the hardware's numbers, and what differs from RUN
    and from communication's DEFAULTS; dp is what tp, cp and pp leave.
    PlanError for what cannot be.
    """
    s = dict(DEFAULTS)
    s.update(RUN)
    s.update(VALUES)
    s.update(given)
    if "total" not in s:  # else it is known from another layout
        s = params(s)
    s["params"] = s["total"]
    for name in ("gpus", "tp", "cp", "pp", "ep", "sequence", "micro_batch"):
        s[name] = whole(name, s[name])
    for name in ("peak_flops", "node_bandwidth"):
        above(name, s[name])
    if s["gpus"] > s["gpus_per_node"]:
        above("network_bandwidth", s["network_bandwidth"])
    for name in ("efficiency", "overlap"):
        if not 0 <= s[name] <= 1:
            refuse(name, s[name], "above 0 and at most 1, or 0 for the model's")
    one_of("recompute", s["recompute"], RUN_RECOMPUTE)
    one_of("offload", s["offload"], OFFLOAD)
    if s["recompute"] == "moe" and not s["experts"]:
        raise PlanError("--recompute moe needs a model with experts")
    for name in ("recompute_layers", "offload_layers", "lora_rank"):
        s[name] = whole(name, s[name], 0)
        if name != "lora_rank" and s[name] > s["layers"]:
            refuse(name, s[name], f"at most {flag('layers')}, {s['layers']}")
    s["recompute_share"] = (s["recompute_layers"] or s["layers"]) / s["layers"]
    s = rates(s)
    ways = s["tp"] * s["cp"] * s["pp"]
    if s["gpus"] % ways:
        refuse("gpus", s["gpus"], f"a multiple of tp x cp x pp, {ways}")
    dp = s["gpus"] // ways
    if given.get("dp", dp) != dp:
        refuse("dp", given["dp"], f"{dp}, what tp x cp x pp leaves")
    s["dp"] = dp
    ranks = dp * s["cp"] * s["tp"]
    s["expert_tp"] = s["expert_tp"] or (1 if dp % s["ep"] else s["tp"])
    if s["expert_tp"] == s["tp"]:
        divides("ep", s["ep"], "dp", dp)
    elif ranks % s["ep"]:
        refuse("ep", s["ep"], f"a divisor of tp x cp x dp, {ranks}")
    if s["ep"] > 1 and not s["experts"]:
        raise PlanError(f"{flag('ep')} needs a model with experts")
    if s["kv_heads"] % s["tp"] and s["tp"] % s["kv_heads"]:
        refuse(
            "tp",
            s["tp"],
            f"a divisor or a multiple of {flag('kv_heads')}, {s['kv_heads']}:"
            " ranks split the heads of keys and values, or share one",
        )
    if s["sequence_parallel"] and s["tp"] == 1:
        raise PlanError(
            f"{flag('sequence_parallel')} splits what tensor parallelism leaves"
            f" whole; it needs {flag('tp')} of 2 or more"
        )
    if not s["loss"]:
        s["loss"] = "eager" if s["kernels"] == "torch" else "fused"
    one_of("loss", s["loss"], tuple(sorted(LOSSES)))
    samples = dp * s["micro_batch"]
    if whole("global_batch", s["global_batch"]) % samples:
        refuse(
            "global_batch",
            s["global_batch"],
            f"a multiple of dp x micro-batch, {samples}",
        )
    s["microbatches"] = s["global_batch"] // samples
    s["shard"] = shards(s)
    s.update(forwards(s))
    s.update(sent_as(s))
    trained = ADAPTERS + FROZEN if s["lora_rank"] else TRAINED
    s = communication(derive(s, MEMORY + trained))
    for name in HOSTED[s["offload"]]:
        s[name] = 0
    s["stages"] = s["pp"]
    s = pipeline(s)
    s["last_in_flight"] = last_in_flight(s)
    s["bytes_logit"] = LOSSES[s["loss"]]
    s["gradients_stay"] = stay(s)
    selective = s["recompute"] == "selective"
    kept = [KEPT[s["kernels"] if selective else s["recompute"]]]
    if s["recompute_share"] < 1:
        kept.append(SOME_LAYERS)
    if s["offload_layers"]:
        kept.append(OFFLOADED)
    s = timed(derive(s, kept + SUM + per_token(s)))
    return costs(s) if "step_seconds" in s else s


def forwards(s: dict) -> dict:
    """How often a micro-batch's forward passes send what they send.

    Full recomputation runs a layer's forward pass again, collectives included:
    CheckpointFunction in Megatron-LM, and torchtitan, whose early_stop is off.
    Torchtitan's selective recomputation keeps what a reduce-scatter returns and
    gathers again.
    """
    share, kind = s["recompute_share"], s["recompute"]
    full = share * int(kind == "full")
    gathers = kind == "selective" and s["kernels"] == "torch"
    return {
        "forwards": 1 + full,
        "tensor_forwards": 1 + (share / 2 if gathers else full),
        "expert_forwards": 1 + (share if kind == "moe" else full),
    }


def stay(s: dict) -> bool:
    """Return whether a step begins with its gradients in memory: Megatron-LM's
    buffer and DDP's buckets are always there. FSDP2's gradients, and those of a
    single rank, exist from the first backward pass until `zero_grad`, which
    sets them to None, so that later micro-batches find them."""
    if s["microbatches"] > 1:
        return True
    if s["kernels"] == "fused":
        return not s["by_weight"]  # XLA keeps no buffer either
    ddp = s["zero_stage"] < 2 and s["dp"] * s["cp"] > 1
    return ddp and not s["bucket_copies"]


def last_in_flight(s: dict) -> float:
    """Micro-batches whose activations the last stage holds."""
    first, parts = plain(s["in_flight_microbatches"]), s["virtual_stages"]
    if s["schedule"] == "1f1b":
        return 1
    if s["schedule"] == "interleaved":
        return max(1, first - 2 * (s["pp"] - 1) / parts)
    return first
