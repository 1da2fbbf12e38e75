"""Bytes that a rank sends in one optimizer step, by kind of parallelism.

Every collective is a ring's, so a rank sends what it would with the most even
share. Point to point counts for a rank in the middle of the pipeline.
"""

from .figures import Formula, derive, divides, flag, one_of, refuse, whole
from .memory import shards

ZERO = "Rajbhandari et al. 2020 (ZeRO), section 7"
MEGATRON = "Shoeybi et al. 2019, section 3; Korthikanti et al. 2022, 4.2.2"
# What one rank holds, or gathers a layer at a time, before data parallelism.
PARAMS_RANK = Formula(
    "params_rank",
    "params / (tp * pp)",
    "parameters",
    "an even split; experts are split over ep besides",
)
# Context parallelism splits a sequence, so its ranks too hold all parameters
# of their part of the model, and gradients of their part of the tokens.
COPIES = [
    Formula("replicas", "dp * cp", "ranks", "whose gradients are one sum"),
    Formula("sharers", "shard * cp", "ranks", "that share one copy of state"),
    Formula(
        "expert_copies",
        "max(1, sharers * tp / (expert_tp * ep))",
        "ranks",
        "of them, those with the same experts",
    ),
]
REDUCTIONS = Formula(
    "reductions",
    "1 if pp > 1 and not reduce_each else microbatches",
    "a step",
    "FSDP2 and ZeRO-2 reduce-scatter each micro-batch's gradients; in a"
    " pipeline, only the last one's: torch 2.13, pipelining/stage.py",
)
# Experts that ranks share have fewer copies, or one: nothing to exchange.
EXCHANGED = Formula(
    "exchanged",
    "(params_rank - routed_rank) * (1 - 1 / sharers)"
    " + routed_rank * (1 - 1 / expert_copies)",
    "parameters",
    "that a rank sends when each of its copies gives or takes a share",
)
DATA = {
    0: Formula(
        "data_bytes",
        "2 * exchanged * trained_share * bytes_reduced",
        "B",
        "all-reduce of gradients; " + ZERO,
    ),
    1: Formula(
        "data_bytes",
        "exchanged * trained_share * (bytes_reduced + bytes_gathered)",
        "B",
        "reduce-scatter of gradients, all-gather of parameters; " + ZERO,
    ),
    2: Formula(
        "data_bytes",
        "exchanged * trained_share"
        " * (reductions * bytes_reduced + bytes_gathered)",
        "B",
        "reduce-scatters, which leave gradients split; an all-gather; " + ZERO,
    ),
    3: Formula(
        "data_bytes",
        "exchanged"
        " * (gathers * bytes_gathered"
        " + reductions * trained_share * bytes_reduced)"
        " + replica_bytes",
        "B",
        "all-gathers, reduce-scatter, and what replicas send; " + ZERO,
    ),
}
# With fewer shards than ranks, each shard's gradients have replicas.
REPLICAS = Formula(
    "replica_bytes",
    "2 * (1 - sharers / replicas) * bytes_reduced * trained_share"
    " * ((params_rank - routed_rank) / sharers"
    " + routed_rank / expert_copies) if zero_stage >= 3 else 0",
    "B",
    "an all-reduce among replicas, once a step; Zhao et al. 2023 (FSDP),"
    " section 3.2.2",
)
GATHERS = Formula(
    "gathers",
    "(1 if pp > 1 else microbatches) if keep_gathered else 2 * microbatches",
    "",
    "forward and backward of each micro-batch: FSDP, reshard_after_forward;"
    " once if it keeps them, and in a pipeline once a step",
)
# One tensor of the block's input, of a micro-batch.
ACTIVATION = Formula(
    "activation_bytes",
    "micro_batch * sequence / cp * hidden * bytes_activation",
    "B",
    "shape (micro-batch, sequence, hidden)",
)
BLOCKS = Formula(
    "tensor_blocks",
    "2 * ceil(layers / pp) - (ceil((layers - dense_layers) / pp)"
    " if experts and expert_tp < tp and not shared_experts else 0)",
    "",
    "attention and MLP of each layer; whole experts take a rank's own tokens",
)
TENSOR = Formula(
    "tensor_bytes",
    "microbatches * tensor_blocks * (tensor_forwards + 1)"
    " * 2 * (tp - 1) / tp * activation_bytes",
    "B",
    "an all-reduce in each forward and each backward pass of a block; with"
    " sequence parallelism as many pairs of all-gather and reduce-scatter; "
    + MEGATRON,
)
REGATHERED = Formula(
    "regathered_bytes",
    "microbatches * ceil(layers / pp) * 2"
    " * (tp - 1) / tp * activation_bytes if sequence_parallel else 0",
    "B",
    "two all-gathers backward of what was kept split, behind the products of"
    " weight gradients; Korthikanti et al. 2022, 4.2.2. torch keeps it whole",
)
CONTEXT = {
    "ring": Formula(
        "context_bytes",
        "microbatches * ceil(layers / pp) * 2"
        " * ((forwards + 1) * (cp - 1) * bytes_activation + 4 * cp)"
        " * micro_batch * sequence / cp * kv_heads * head_dim / tp"
        " if cp > 1 else 0",
        "B",
        "keys and values to all others, each forward and backward; their"
        " gradients, summed in 32 bits, all the way home; Liu et al. 2023 (ring"
        " attention), as torch's context_parallel does it",
    ),
    "ulysses": Formula(
        "context_bytes",
        "microbatches * ceil(layers / pp) * (forwards + 1) * (cp - 1) / cp"
        " * micro_batch * sequence / cp * (2 * heads + 2 * kv_heads)"
        " * head_dim / tp * bytes_activation",
        "B",
        "all-to-all of queries, keys, values and outputs, each forward"
        " and backward; Jacobs et al. 2023 (Ulysses)",
    ),
}
PIPELINE = Formula(
    "pipeline_bytes",
    "microbatches * virtual_stages * 2 * activation_bytes"
    " / (tp if sequence_parallel else 1) if pp > 1 else 0",
    "B",
    "an activation forward, its gradient backward; Narayanan et al. 2021, 2.2",
)
EXPERT = Formula(
    "expert_bytes",
    "microbatches * ceil((layers - dense_layers) / pp)"
    " * 2 * (expert_forwards + 1)"
    " * (ep - 1) / ep * experts_per_token * activation_bytes"
    " / (tp if sequence_parallel else 1)",
    "B",
    "all-to-all to the experts and back, each forward and backward, tokens"
    " evenly spread; with sequence parallelism, each rank its own part of the"
    " sequence; Lepikhin et al. 2021 (GShard)",
)
TOTAL = Formula(
    "sent_bytes",
    "data_bytes + tensor_bytes + regathered_bytes + context_bytes"
    " + pipeline_bytes + expert_bytes",
    "B",
    "sum",
)
DEFAULTS: dict = {
    "zero_stage": 0,
    "dp": 1,
    "shard": 0,  # ranks that share a copy; dp
    "tp": 1,
    "sequence_parallel": False,
    "cp": 1,
    "context": "ring",
    "pp": 1,
    "virtual_stages": 1,
    "ep": 1,
    "expert_tp": 0,  # tp, if ep divides dp, and else 1
    "shared_experts": 0,
    "reduce_each": False,  # gradients in every micro-batch of a pipeline
    "forwards": 1,  # of a layer, for each micro-batch; recomputing adds one
    "tensor_forwards": 1,  # the same, of tensor parallelism's collectives
    "expert_forwards": 1,  # the same, of experts' all-to-alls
    "routed_rank": 0,  # experts of this rank, as a layout counts them
    "micro_batch": 1,
    "microbatches": 1,
    "bytes_parameter": 2,
    "bytes_gradient": 2,
    "bytes_gathered": 0,  # of a weight, as ZeRO sends it; bytes_parameter
    "bytes_reduced": 0,  # of a gradient, as it is summed; bytes_gradient
    "bytes_activation": 2,
    "keep_gathered": False,  # not FSDP's reshard_after_forward
    "trained_share": 1,  # of a rank's parameters, those with gradients
    "lora_rank": 0,
    "bytes_frozen": 0,  # of a weight that a LoRA freezes; bytes_parameter
}


def communication(given: dict) -> dict:
    """`given` and the figures *_bytes that a rank sends in a step. It has a
    model's shape, params, sequence, and what differs from DEFAULTS."""
    s = dict(DEFAULTS)
    s.update(given)
    for name in ("dp", "tp", "cp", "pp", "ep", "virtual_stages"):
        whole(name, s[name])
    for name in ("sequence", "micro_batch", "microbatches"):
        whole(name, s[name])
    one_of("zero_stage", s["zero_stage"], (0, 1, 2, 3))
    one_of("context", s["context"], tuple(sorted(CONTEXT)))
    s["shard"] = shards(s)
    s.update(sent_as(s))
    s["expert_tp"] = s["expert_tp"] or s["tp"]
    divides("tp", s["tp"], "heads", s["heads"])
    if s["pp"] > s["layers"]:
        refuse("pp", s["pp"], f"at most {flag('layers')}, {s['layers']}")
    divides("cp", s["cp"], "sequence", s["sequence"])
    if s["context"] == "ulysses":
        divides("cp", s["cp"], "heads", s["heads"] // s["tp"])
    if s["experts"]:
        divides("ep", s["ep"], "experts", s["experts"])
    if "params_rank" not in s:  # a layout knows it better
        s = derive(s, [PARAMS_RANK])
    return derive(
        s,
        COPIES
        + [
            REDUCTIONS,
            EXCHANGED,
            REPLICAS,
            GATHERS,
            DATA[s["zero_stage"]],
            ACTIVATION,
            BLOCKS,
            TENSOR,
            REGATHERED,
            CONTEXT[s["context"]],
            PIPELINE,
            EXPERT,
            TOTAL,
        ],
    )


def sent_as(s: dict) -> dict:
    """Bytes of a weight and of a gradient on the wire, and of a frozen weight,
    unless a format is given for them."""
    frozen = s["bytes_frozen"] or s["bytes_parameter"]
    held = frozen if s["lora_rank"] else s["bytes_parameter"]
    return {
        "bytes_frozen": frozen,
        "bytes_gathered": s["bytes_gathered"] or held,
        "bytes_reduced": s["bytes_reduced"] or s["bytes_gradient"],
    }
