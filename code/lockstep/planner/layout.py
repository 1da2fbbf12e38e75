"""One layout of a run: memory of the fullest rank, bytes, and the step's time.

The step's time is a model, stated in its formulas: matrix products at a given
share of the peak, the pipeline's bubble, and what communication does not hide
behind a given share of the computing.
"""

from .activations import BLOCK, KEPT, WIDTH
from .communication import DEFAULTS, communication
from .figures import (
    Formula,
    PlanError,
    above,
    derive,
    divides,
    flag,
    one_of,
    refuse,
    whole,
)
from .flops import HFU, MFU, costs, per_token
from .memory import shards
from .models import params
from .pipeline import pipeline

ZERO = "Rajbhandari et al. 2020 (ZeRO), section 5"
MODEL = "this planner's model"
RUN: dict = {
    "recompute": "none",
    "schedule": "1f1b",
    "bytes_optimizer": 12,
    "gpus_per_node": 8,
    "efficiency": 0.6,  # of the peak, that matrix products reach
    "overlap": 0.8,  # of computing, that communication can hide behind
    "count_embeddings": 1,
    "count_attention": 1,
    "bucket_copies": False,  # of gradients: not gradient_as_bucket_view
    "tokens": 0,
    "price_gpu_hour": 0,
    "watts_gpu": 0,
    "pue": 1,
}


def state(name: str, each: str, stage: int) -> Formula:
    """Bytes of one kind of state; a router's experts have fewer copies."""
    shared = f"if zero_stage >= {stage} else 1"
    return Formula(
        f"{name}_bytes",
        f"{each} * ((dense_rank + embedding_rank) / (shard * cp {shared})"
        f" + routed_rank / (max(1, shard * cp / ep) {shared}))",
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
        "routed / layers * ceil(layers / pp) / (tp * ep)",
        "parameters",
        "Lepikhin et al. 2021 (GShard)",
    ),
    Formula(
        "params_rank",
        "dense_rank + embedding_rank + routed_rank",
        "parameters",
        "sum",
    ),
    state("parameters", "bytes_parameter", 3),
    state("gradients", "bytes_gradient", 2),
    state("optimizer", "bytes_optimizer", 1),
    WIDTH,
    BLOCK,
]
SUM = [
    Formula(
        "activations_bytes",
        "kept_per_layer * ceil(layers / pp) * in_flight_microbatches"
        " + (block_bytes if kept_per_layer < block_bytes else 0)",
        "B",
        "Korthikanti et al. 2022, section 4.2.3, on the first stage; and the"
        " layer that is recomputed",
    ),
    Formula(
        "logits_bytes",
        "micro_batch * sequence / cp * vocab / tp * 6 if pp == 1 else 0",
        "B",
        "in 16 bits, and in 32 for the loss, which overwrites them as in"
        " Megatron-LM, where an eager one peaks at twice that; with a pipeline"
        " they lie on the last stage, which holds fewer micro-batches",
    ),
    Formula(
        "layer_rank",
        "(dense_rank + routed_rank) / ceil(layers / pp)",
        "parameters",
        "an average layer",
    ),
    Formula(
        "buffers_bytes",
        "bytes_parameter * max(2 * layer_rank,"
        " embedding_rank / (1 if tied_embeddings or pp > 1 else 2))"
        " if zero_stage >= 3 else params_rank * bytes_gradient * bucket_copies",
        "B",
        "ZeRO-3: one layer gathered, and the next one under way, or at the loss"
        " the output layer; else DDP's buckets, unless gradients are views of"
        " them",
    ),
    Formula(
        "reducing_bytes",
        "(bytes_parameter + bytes_gradient) * layer_rank"
        " if zero_stage >= 3 else 0",
        "B",
        "a layer's whole gradient, and the one before it, which FSDP2 holds for"
        " its reduce-scatter until the next layer's is done: torch 2.13,"
        " _fsdp_param_group.py",
    ),
    Formula(
        "total_bytes",
        "parameters_bytes + gradients_bytes + optimizer_bytes"
        " + activations_bytes + max(logits_bytes, reducing_bytes)"
        " + buffers_bytes",
        "B",
        "sum; left out: CUDA's context, NCCL's buffers, what a kernel needs"
        " while it runs, fragmentation",
    ),
]
TIME = [
    Formula("tokens_step", "global_batch * sequence", "tokens", "one step"),
    Formula(
        "compute_seconds",
        "tokens_step * (flops_per_token + recomputed_flops)"
        " / (gpus * peak_flops * efficiency)",
        "s",
        MODEL,
    ),
    Formula("bubble_seconds", "compute_seconds * bubble_overhead", "s", MODEL),
    Formula(
        "layer_seconds",
        "tensor_bytes / tensor_bandwidth + expert_bytes / expert_bandwidth"
        " + pipeline_bytes / pipeline_bandwidth",
        "s",
        "nothing of it hides; " + MODEL,
    ),
    Formula(
        "data_seconds",
        "(data_bytes - replica_bytes) / data_bandwidth"
        " + replica_bytes / replica_bandwidth",
        "s",
        MODEL,
    ),
    Formula("context_seconds", "context_bytes / context_bandwidth", "s", MODEL),
    Formula(
        "attention_seconds",
        "tokens_step * attention_flops / (gpus * peak_flops * efficiency)",
        "s",
        MODEL,
    ),
    Formula(
        "backward_share",
        "(2 / 3 * flops_per_token + recomputed_flops)"
        " / (flops_per_token + recomputed_flops)",
        "",
        "of computing: two products for each of the forward pass",
    ),
]
# What gradients and parameters can hide behind, by the ZeRO stage.
COVER = {
    stage: Formula("cover_seconds", text, "s", why + "; " + MODEL)
    for stage, text, why in (
        (
            0,
            "compute_seconds * backward_share / microbatches",
            "gradients: the last micro-batch's backward pass",
        ),
        (
            1,
            "compute_seconds / microbatches",
            "gradients: the last micro-batch's backward pass; parameters: the"
            " next forward pass",
        ),
        (
            2,
            "compute_seconds"
            " * (backward_share + (1 - backward_share) / microbatches)",
            "gradients: every backward pass; parameters: one forward pass",
        ),
        (3, "compute_seconds", "every micro-batch communicates"),
    )
}
STEP = [
    Formula(
        "exposed_seconds",
        "layer_seconds + max(0, data_seconds - overlap * cover_seconds)"
        " + max(0, context_seconds - ring * overlap * attention_seconds)",
        "s",
        "keys and values that go round a ring hide behind attention; " + MODEL,
    ),
    Formula(
        "step_seconds",
        "compute_seconds + bubble_seconds + exposed_seconds",
        "s",
        MODEL,
    ),
    Formula(
        "tokens_per_second", "tokens_step / step_seconds", "tokens/s", MODEL
    ),
    MFU,
    HFU,
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
        if not 0 < s[name] <= 1:
            refuse(name, s[name], "above 0 and at most 1")
    if s["recompute"] == "selective":
        refuse(
            "recompute",
            s["recompute"],
            "none or full: a layout's blocks have flash attention, which keeps"
            " no scores to compute again; the plan activations counts a block"
            " that keeps them",
        )
    one_of("recompute", s["recompute"], ("none", "full"))
    ways = s["tp"] * s["cp"] * s["pp"]
    if s["gpus"] % ways:
        refuse("gpus", s["gpus"], f"a multiple of tp x cp x pp, {ways}")
    dp = s["gpus"] // ways
    if given.get("dp", dp) != dp:
        refuse("dp", given["dp"], f"{dp}, what tp x cp x pp leaves")
    s["dp"] = dp
    divides("ep", s["ep"], "dp", dp)
    if s["ep"] > 1 and not s["experts"]:
        raise PlanError(f"{flag('ep')} needs a model with experts")
    samples = dp * s["micro_batch"]
    if whole("global_batch", s["global_batch"]) % samples:
        refuse(
            "global_batch",
            s["global_batch"],
            f"a multiple of dp x micro-batch, {samples}",
        )
    s["microbatches"] = s["global_batch"] // samples
    s["shard"] = shards(s)
    s = communication(derive(s, MEMORY))
    s = pipeline(dict(s, stages=s["pp"]))
    s = derive(s, [KEPT[s["recompute"]]])
    s = derive(s, SUM)
    s = derive(s, per_token(s))
    s["ring"] = int(s["context"] == "ring")
    s.update(bandwidths(s))
    return costs(derive(s, TIME + [COVER[s["zero_stage"]]] + STEP))


def bandwidths(s: dict) -> dict:
    """Bytes a second for each kind of group. Ranks lie in the order tp, cp, dp
    (ep inside it), pp, and a group that fits into a node has its bandwidth.
    Beyond it, rings leave a node by as many network cards as the group has
    members there; what goes from rank to rank leaves by one."""
    node, inner = s["gpus_per_node"], s["tp"] * s["cp"]
    found = {}
    for name, extent, members in (
        ("tensor", s["tp"], node),
        ("context", inner, 1),
        ("expert", inner * s["ep"], 1),
        ("data", inner * s["shard"], node // (s["tp"] * s["ep"])),
        ("replica", inner * s["dp"], node // (inner * s["shard"])),
        ("pipeline", inner * s["dp"] * s["pp"], 1),
    ):
        link = s["node_bandwidth"]
        if extent > node:
            link = min(link, max(1, members) * s["network_bandwidth"])
        found[name + "_bandwidth"] = link
    return found
