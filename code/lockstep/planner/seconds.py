"""The time of a step: a model, stated in its formulas.

Computing is the slowest stage's, layer by layer: matrix products, attention,
elementwise kernels, and a gap for each layer. To it come the pipeline's bubble,
the communication that computing doesn't hide, the optimizer's pass over its
state, and the wait for the slowest rank.
"""

from .constants import CONSTANTS, FAMILIES
from .figures import Formula, derive, one_of
from .flops import HFU, MFU, MFU_CAUSAL
from .hardware import HARDWARE

MODEL = "this planner's model"
KERNELS = "torch", "fused"
PRECISIONS = "bf16", "fp8", "fp4"


def from_constant(name: str, constant: str) -> Formula:
    """One of the constants, under the name that the formulas use."""
    _, source, what = CONSTANTS[constant]
    return Formula(name, constant, "", what + "; " + source)


SHARES = {
    constant: from_constant(name, constant)
    for name, beginning in (
        ("matmul_share", "matmul_"),
        ("attention_share", "attention_"),
        ("tensor_exposure", "exposed_tensor"),
    )
    for constant in CONSTANTS
    if constant.startswith(beginning)
}


def product(name: str, m: str, n: str, what: str) -> Formula:
    """How much longer than at the peak a matrix product takes whose third
    dimension is the model's width."""
    return Formula(
        name,
        "1 / matmul_share + operand_passes * intensity"
        f" * (1 / ({m}) + 1 / ({n}) + 1 / hidden)",
        "times its operations at the peak",
        what + ": operations, and reading and writing of operands, as a sum;"
        " Williams et al. 2009 (roofline); " + MODEL,
    )


LAYER = [
    Formula(
        "rank_tokens",
        "micro_batch * sequence / cp",
        "tokens",
        "of a micro-batch, on one rank",
    ),
    Formula(
        "intensity",
        "half_peak / memory_bandwidth",
        "FLOP/B",
        "operations in the time of a byte",
    ),
    product(
        "projection_slowdown",
        "rank_tokens",
        "heads * head_dim / tp",
        "queries, keys, values and output",
    ),
    product("mlp_slowdown", "rank_tokens", "ffn / tp", "the MLP"),
    Formula(
        "expert_tokens",
        "max(1, rank_tokens * experts_per_token * ep * expert_tp"
        " / (tp * max(1, experts)))",
        "tokens",
        "of a micro-batch for one expert, if all get as many",
    ),
    product(
        "expert_slowdown",
        "expert_tokens",
        "expert_ffn / expert_tp",
        "one expert",
    ),
    product("head_slowdown", "rank_tokens", "vocab / tp", "the output layer"),
    Formula(
        "expert_layers",
        "(layers - dense_layers) / layers if experts else 0",
        "of the layers",
        "that have experts",
    ),
    Formula(
        "matmul_seconds",
        "2 * rank_tokens / tp / peak_flops"
        " * ((products + recompute_products)"
        " * (attention_per_layer * projection_slowdown"
        " + (1 - expert_layers) * mlp_per_layer * mlp_slowdown)"
        " + (products + recompute_experts)"
        " * expert_layers * (experts_per_token + shared_experts) * expert"
        " * expert_slowdown)",
        "s",
        "a layer's matrix products, for a micro-batch: one forward, two"
        " backward or one for frozen weights, and what is computed again",
    ),
    Formula(
        "scores_seconds",
        "(3 + recompute_attention) / 3 * rank_tokens / tp"
        " * attention_flops / layers"
        " * (0.5 if causal else 1) / (half_peak * attention_share)",
        "s",
        "a layer's attention, for a micro-batch; a causal kernel skips half",
    ),
    Formula(
        "elementwise_seconds",
        "elementwise_passes * (3 + recompute_elementwise) / 3"
        " / memory_bandwidth"
        " * (block_bytes + expert_layers * 4 * experts_per_token * hidden"
        " * rank_tokens / (tp if sequence_parallel else 1))",
        "s",
        "a layer's norms, activations, rotations, residuals, and copies for"
        " experts, for a micro-batch",
    ),
    Formula(
        "gap_seconds",
        "layer_gap + expert_layers * expert_gap",
        "s",
        "a layer's time without a kernel, for a micro-batch",
    ),
    Formula(
        "layer_compute",
        "matmul_seconds + scores_seconds + elementwise_seconds + gap_seconds",
        "s",
        "a layer, for a micro-batch, forward and backward",
    ),
    Formula(
        "head_compute",
        "(1 + mtp) * (2 * products * rank_tokens * hidden * vocab / tp"
        " / half_peak * head_slowdown"
        " + 24 * rank_tokens * vocab / tp / memory_bandwidth)",
        "s",
        "the output layer, and the loss, which reads and writes 12 bytes of a"
        " logit; the embedding's table is looked up, not multiplied",
    ),
    Formula(
        "stage_compute",
        "max(ceil(layers / (pp * virtual_stages)) * virtual_stages"
        " * layer_compute, layers // pp * layer_compute + head_compute)",
        "s",
        "the slowest stage, for a micro-batch: the one with most layers, or the"
        " last one, with the output layer",
    ),
]
WIRE = [
    Formula(
        "expert_nodes",
        "max(1, ep * expert_reach / gpus_per_node) if ep > 1 else 1",
        "nodes",
        "that share the experts",
    ),
    Formula(
        "expert_seconds",
        "expert_bytes / node_bandwidth if expert_nodes == 1 else expert_bytes"
        " * max(1 / node_bandwidth, ep / (ep - 1) * (expert_nodes - 1)"
        " * (1 - (1 - 1 / expert_nodes) ** experts_per_token)"
        " / experts_per_token / network_bandwidth)",
        "s",
        "a token goes once to each node that has experts for it, as DeepEP"
        " sends it; the node's own links work at the same time",
    ),
    Formula(
        "layer_seconds",
        "tensor_exposure * tensor_bytes / tensor_bandwidth"
        " + exposed_expert * expert_seconds"
        " + pipeline_bytes / pipeline_bandwidth",
        "s",
        "communication in the layers that nothing hides; " + MODEL,
    ),
]
TOKENS = Formula("tokens_step", "global_batch * sequence", "tokens", "one step")
COMPUTE = Formula(
    "compute_seconds",
    "microbatches * stage_compute",
    "s",
    "every micro-batch, on the slowest stage; " + MODEL,
)
ATTENTION = Formula(
    "attention_seconds",
    "microbatches * layers / pp * scores_seconds",
    "s",
    "attention of all layers and micro-batches",
)
GIVEN_ATTENTION = Formula(
    "attention_seconds",
    "tokens_step * attention_flops / (gpus * peak_flops * efficiency)",
    "s",
    "at the given efficiency",
)
GIVEN_COMPUTE = Formula(
    "compute_seconds",
    "tokens_step * (flops_per_token + recomputed_flops)"
    " / (gpus * peak_flops * efficiency)",
    "s",
    "at the given efficiency",
)
TIME = [
    Formula(
        "bubble_seconds",
        "(compute_seconds + layer_seconds) * bubble_overhead",
        "s",
        MODEL,
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
        "backward_share",
        "(2 / 3 * flops_per_token + recomputed_flops)"
        " / (flops_per_token + recomputed_flops)",
        "",
        "of computing: two products for each of the forward pass",
    ),
    Formula(
        "optimizer_seconds",
        "optimizer_bytes / bytes_optimizer"
        " * (2 * bytes_optimizer + bytes_gradient + bytes_parameter)"
        " / memory_bandwidth if bytes_optimizer and not efficiency else 0",
        "s",
        "reads the gradients, reads and writes its state, writes parameters;"
        " a given efficiency has it",
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
        "straggler_seconds",
        "straggling * log2(max(1, gpus / gpus_per_node))"
        " * (compute_seconds + exposed_seconds)",
        "s",
        "the more ranks, the later the slowest one; " + MODEL,
    ),
    Formula(
        "step_seconds",
        "compute_seconds + bubble_seconds + exposed_seconds"
        " + optimizer_seconds + straggler_seconds",
        "s",
        MODEL,
    ),
    Formula(
        "tokens_per_second", "tokens_step / step_seconds", "tokens/s", MODEL
    ),
    Formula(
        "tokens_per_second_gpu", "tokens_per_second / gpus", "tokens/s", "each"
    ),
    Formula(
        "flops_gpu",
        "tokens_per_second_gpu * flops_per_token",
        "FLOP/s",
        "of the model, without what is computed again",
    ),
    MFU,
    MFU_CAUSAL,
    HFU,
]


def accelerator(given: dict) -> str:
    """Whose peak it is: the named hardware's, or another one's whose peak was
    given in its place."""
    named, peak = given["hardware"], given["peak_flops"]
    for name in [named] + list(HARDWARE):
        if HARDWARE[name]["peak_flops"] == peak:
            return name
    return named


def rates(s: dict) -> dict:
    """`s`, with its accelerator, its precision, its kernels, and what the
    formulas take from them."""
    s["accelerator"] = accelerator(s)
    usual = HARDWARE[s["accelerator"]]
    times = s["peak_flops"] / usual["peak_flops"]
    if not s["precision"]:
        s["precision"] = PRECISIONS[
            0 if times < 1.5 else 1 if times < 3.5 else 2
        ]
    one_of("precision", s["precision"], PRECISIONS)
    s["half_peak"] = usual["peak_flops"] if times > 1.5 else s["peak_flops"]
    if not s["memory_bandwidth"]:
        s["memory_bandwidth"] = usual["memory_bandwidth"]
    if not s["kernels"]:
        # PyTorch's FSDP keeps parameters in 32 bits and no second copy.
        bare = s["bytes_parameter"] + s["bytes_optimizer"] <= 12
        on_gpu = not s["accelerator"].startswith("tpu")
        s["kernels"] = "torch" if bare and on_gpu else "fused"
    one_of("kernels", s["kernels"], KERNELS)
    s["by_weight"] = s["accelerator"].startswith("tpu")
    s["mlp_copies"], s["norm_bytes"] = 4, 2
    if s["kernels"] == "fused":
        s["mlp_copies"] = 3
        if s["precision"] != "bf16":
            s["mlp_copies"], s["norm_bytes"] = 2.5, 1
    return s


def timed(s: dict) -> dict:
    """A layout with its step's time."""
    family = FAMILIES.get(s["accelerator"], "")
    if s["offload"] or (not family and not s["efficiency"]):
        return s
    s = dict(s)
    family = family or "h100"
    fused = family in ("h100", "b200") and s["kernels"] == "fused"
    attention = "attention_" + family
    if s["kernels"] == "torch" and attention + "_torch" in CONSTANTS:
        attention += "_torch"
    matmul = "matmul_" + family
    if f"{matmul}_{s['precision']}" in CONSTANTS:
        matmul += "_" + s["precision"]
    full, selective = (
        int(s["recompute"] == name) for name in ("full", "selective")
    )
    every_second = selective if s["kernels"] == "torch" else 0
    share = s["recompute_share"]
    again = share * (full + every_second * s["selective_share"])
    moe = int(s["recompute"] == "moe")
    s["products"] = 2 if s["lora_rank"] else 3
    s["recompute_products"] = again
    s["recompute_experts"] = share if moe else again
    s["recompute_attention"] = share * full
    s["recompute_elementwise"] = share * (full + selective + moe)
    s["ring"] = int(s["context"] == "ring")
    s["overlap"] = s["overlap"] or s["hidden_share"]
    if s["efficiency"]:  # no constant that was fitted with another computing
        s.update(exposed_tensor=1, exposed_tensor_fused=1, exposed_expert=1)
        s.update(straggling=0)
    # In a pipeline, ZeRO-2 reduces with the last micro-batch, as ZeRO-1 does.
    late = s["zero_stage"] == 2 and s["pp"] > 1 and not s["reduce_each"]
    one_expert_rank = s["expert_tp"] < s["tp"]
    s["expert_reach"] = 1 if one_expert_rank else s["tp"] * s["cp"]
    s.update(bandwidths(s))
    if s["efficiency"]:
        computing = [GIVEN_COMPUTE, GIVEN_ATTENTION]
    else:
        computing = [SHARES[matmul], SHARES[attention]] + LAYER
        computing += [COMPUTE, ATTENTION]
    return derive(
        s,
        [
            SHARES["exposed_tensor_fused" if fused else "exposed_tensor"],
            TOKENS,
        ]
        + WIRE
        + computing
        + TIME
        + [COVER[1 if late else s["zero_stage"]]]
        + STEP,
    )


def bandwidths(s: dict) -> dict:
    """Bytes a second for each kind of group. Ranks lie in the order tp, cp, dp
    (ep inside it), pp, and a group that fits into a node has its bandwidth.
    Beyond it, rings leave a node by as many NICs as the group has
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
