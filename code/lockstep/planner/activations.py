"""What the backward pass keeps of a block, 16 bits a number.

Twice: of the block of Korthikanti et al., with dropout and all attention
scores, and of one as it is built now, with flash attention and no dropout.
"""

from .figures import Formula, PlanError, derive, divides, one_of, whole

KORTHIKANTI = "Korthikanti et al. 2022, table 2"
SBH = "sequence * micro_batch * hidden"
SCORES = "5 * heads * sequence / hidden"
# By what is recomputed, and whether sequence parallelism splits the rest.
PER_LAYER = {
    ("none", False): f"{SBH} * (10 + 24 / tp + {SCORES} / tp)",
    ("none", True): f"{SBH} * (34 + {SCORES}) / tp",
    ("selective", False): f"{SBH} * (10 + 24 / tp)",
    ("selective", True): f"34 * {SBH} / tp",
    ("full", False): f"2 * {SBH}",
    ("full", True): f"2 * {SBH} / tp",
}
LAYER = {
    case: Formula("bytes_per_layer", text, "B", KORTHIKANTI)
    for case, text in PER_LAYER.items()
}
# Of each token: input and output of both norms, all that a fused norm keeps (an
# RMS norm without a fused kernel keeps 4 to 6 bytes a number more); queries,
# keys, values and attention's output; what gate, activation and their product
# keep, or the activation alone: 4 copies, of which a fused kernel keeps 3 (and
# the product and the norms' outputs in 8 bits, where the next matrix product
# takes them so); for each
# head the logarithm of a sum, in 32
# bits. Sequence parallelism is Megatron-LM's: the norms' outputs are kept
# split, and gathered again for the backward pass, where torch keeps them as
# they were gathered.
BLOCK = Formula(
    "block_bytes",
    "sequence / cp * micro_batch"
    " * ((4 + 2 * norm_bytes) * hidden / (tp if sequence_parallel else 1)"
    " + (2 * (2 * heads + 2 * kv_heads) * head_dim"
    " + 2 * (mlp_copies if gated_mlp else 2) * width + 4 * heads) / tp)",
    "B",
    "a count of saved tensors; Dao et al. 2022, section 3.1",
)
KEPT = {
    "none": Formula("kept_per_layer", "block_bytes", "B", "all of it"),
    "moe": Formula(
        "kept_per_layer",
        "sequence / cp * micro_batch"
        " * (2 * 2 * hidden / (tp if sequence_parallel else 1)"
        " + (2 * (2 * heads + 2 * kv_heads) * head_dim + 4 * heads) / tp)",
        "B",
        "attention's, without the norms' outputs: Megatron-LM's recompute"
        " modules layernorm and moe",
    ),
    "torch": Formula(
        "kept_per_layer",
        "sequence / cp * micro_batch"
        " * (2 * hidden * (2 if gated_mlp else 1)"
        " / (tp if sequence_parallel else 1)"
        " + (2 * (2 * heads + kv_heads) * head_dim + 2 * width + 4 * heads)"
        " / tp)",
        "B",
        "the block's input, attention's output, and of the other products every"
        " second one: torchtitan's selective recomputation by operator",
    ),
    "fused": Formula(
        "kept_per_layer",
        "sequence / cp * micro_batch"
        " * (2 * 2 * hidden / (tp if sequence_parallel else 1)"
        " + 2 * (q_rank + kv_rank + rope_dim)"
        " + (2 * (heads + (0 if kv_rank else heads + 2 * kv_heads)) * head_dim"
        " + 2 * (2 if gated_mlp else 1) * width + 4 * heads) / tp)",
        "B",
        "without the norms' outputs and the activation's, and of latent"
        " attention only latent vectors and its output: Megatron-LM's recompute"
        " modules layernorm, mlp, moe_act and mla_up_proj",
    ),
    "full": Formula(
        "kept_per_layer",
        "sequence / cp * micro_batch"
        " * 2 * hidden / (tp if sequence_parallel else 1)",
        "B",
        "the block's input; " + KORTHIKANTI,
    ),
}
SOME_LAYERS = Formula(
    "kept_per_layer",
    "recompute_share * kept_per_layer + (1 - recompute_share) * block_bytes",
    "B",
    "of layers that are recomputed and of others, on average",
)
OFFLOADED = Formula(
    "kept_per_layer",
    "(1 - offload_layers / layers) * kept_per_layer",
    "B",
    "of layers whose activations stay on the GPU, on average over all",
)
WIDTH = Formula(
    "width",
    "(experts_per_token + shared_experts) * expert_ffn if experts else ffn",
    "",
    "what one token goes through",
)
TOTAL = Formula(
    "total_bytes",
    "layers * bytes_per_layer",
    "B",
    "one micro-batch, all layers; embedding, logits and loss are left out",
)


def activations(given: dict) -> dict:
    """`given` and the figures bytes_per_layer and total_bytes. It has layers,
    hidden, heads, sequence, micro_batch, tp, sequence_parallel, recompute."""
    for name in ("layers", "hidden", "heads", "sequence", "micro_batch", "tp"):
        whole(name, given[name])
    divides("heads", given["heads"], "hidden", given["hidden"])
    divides("tp", given["tp"], "heads", given["heads"])
    one_of("recompute", given["recompute"], ("none", "selective", "full"))
    split = bool(given["sequence_parallel"])
    if split and given["tp"] == 1:
        raise PlanError(
            "--sequence-parallel splits what tensor parallelism leaves whole;"
            " it needs --tp of 2 or more"
        )
    if split:
        divides("tp", given["tp"], "sequence", given["sequence"])
    return derive(given, [LAYER[given["recompute"], split], TOTAL])
