"""Floating-point operations: a token, a run, and the share of the peak."""

from .figures import Formula, at_least, derive, one_of, plain, whole

KAPLAN = "Kaplan et al. 2020, table 1 and section 2.1"
PALM = "Chowdhery et al. 2022 (PaLM), appendix B"
MATMULS = Formula(
    "matmul_flops",
    "6 * (active - (0 if count_embeddings else embedding))",
    "FLOP",
    KAPLAN,
)
MORE_TOKENS = Formula(
    "matmul_flops",
    "6 * (active + mtp * hidden * vocab"
    " - (0 if count_embeddings else embedding))",
    "FLOP",
    KAPLAN + "; each module predicts with the shared output layer",
)
# Two matrix products, forward and twice that backward. A causal kernel does
# about half of it; counts of MFU leave the half in.
ATTENTION = Formula(
    "attention_flops",
    "12 * layers * heads * head_dim * sequence",
    "FLOP",
    PALM,
)
# With a causal mask, s queries attend to s * s / 2 keys, and to
# (s - w) ** 2 / 2 fewer where a window of w hides older ones.
WINDOWED_ATTENTION = Formula(
    "attention_flops",
    "12 * heads * head_dim * (layers * sequence"
    " - windowed_layers * max(0, sequence - window) ** 2 / sequence)",
    "FLOP",
    PALM + "; sliding windows: Child et al. 2019, section 4.2",
)
# Queries and keys have rope_dim more numbers than values.
LATENT_ATTENTION = Formula(
    "attention_flops",
    "6 * layers * heads * (2 * head_dim + rope_dim) * sequence",
    "FLOP",
    PALM + "; DeepSeek-V2 2024, 2.1",
)
PER_TOKEN = Formula(
    "flops_per_token",
    "matmul_flops + (attention_flops if count_attention else 0)",
    "FLOP",
    PALM,
)
# What a GPU does besides, because the backward pass needs it again.
RECOMPUTED = {
    "none": Formula("recomputed_flops", "0", "FLOP", "nothing"),
    "selective": Formula(
        "recomputed_flops",
        "attention_flops / 3",
        "FLOP",
        "Korthikanti et al. 2022, appendix A: attention's forward pass",
    ),
    "full": Formula(
        "recomputed_flops",
        "flops_per_token / 3",
        "FLOP",
        "Korthikanti et al. 2022, appendix A: the forward pass",
    ),
}
# A layout's blocks have flash attention, which keeps no scores, so selective
# recomputation is of products there.
SELECTIVE = Formula(
    "recomputed_flops",
    "selective_share * matmul_flops / 3",
    "FLOP",
    "torchtitan's selective recomputation by operator",
)
# Experts and their router run again, attention doesn't.
EXPERTS = Formula(
    "recomputed_flops",
    "2 * (layers - dense_layers) * (experts_per_token + shared_experts)"
    " * expert",
    "FLOP",
    "Megatron-LM's recompute module moe: the experts' forward pass",
)
RECOMPUTE = "none", "selective", "full"
# Weights that a LoRA freezes have no gradient, so their backward pass is one
# product, not two.
FROZEN = [
    Formula(
        "matmul_flops",
        "4 * (active - (0 if count_embeddings else embedding)) + 6 * adapters",
        "FLOP",
        "Hu et al. 2021 (LoRA): forward, and the gradient of the input",
    ),
    Formula(
        "forward_flops",
        "matmul_flops / 2 + (attention_flops / 3 if count_attention else 0)",
        "FLOP",
        "half of the products",
    ),
]
FROZEN_FORWARD = Formula(
    "recomputed_flops", "forward_flops", "FLOP", "the forward pass"
)
SOME_LAYERS = Formula(
    "recomputed_flops",
    "recompute_share * recomputed_flops",
    "FLOP",
    "of the layers that are recomputed",
)
TOTAL = Formula("total_flops", "flops_per_token * tokens", "FLOP", KAPLAN)
MFU = Formula(
    "mfu",
    "tokens_per_second * flops_per_token / (gpus * peak_flops)",
    "",
    PALM,
)
MFU_CAUSAL = Formula(
    "mfu_causal",
    "mfu * (matmul_flops + attention_flops / 2)"
    " / flops_per_token if causal and count_attention else mfu",
    "",
    "the same, where only the half that a causal kernel computes counts",
)
HFU = Formula(
    "hfu",
    "tokens_per_second * (flops_per_token + recomputed_flops)"
    " / (gpus * peak_flops)",
    "",
    PALM,
)
DAYS = Formula(
    "days", "tokens / tokens_per_second / 86400", "days", "86,400 s a day"
)
GPU_HOURS = Formula("gpu_hours", "24 * days * gpus", "GPU hours", "all of them")
COST = Formula(
    "cost", "gpu_hours * price_gpu_hour", "in the price's currency", "rent"
)
ENERGY = Formula(
    "energy",
    "gpu_hours * watts_gpu / 1000 * pue",
    "kWh",
    "Patterson et al. 2021, section 2.3",
)


def per_token(given: dict) -> list:
    """The formulas of a token's operations, for a shape and `recompute`."""
    attention = LATENT_ATTENTION if given.get("kv_rank") else ATTENTION
    if given.get("windowed_layers"):
        attention = WINDOWED_ATTENTION
    frozen = bool(given.get("lora_rank"))
    products = MORE_TOKENS if given.get("mtp") else MATMULS
    found = [FROZEN[0] if frozen else products, attention, PER_TOKEN]
    recompute = given["recompute"]
    if recompute == "moe":
        found.append(EXPERTS)
    elif recompute == "selective" and given.get("kernels") == "torch":
        found.append(SELECTIVE)
    elif recompute == "full" and frozen:
        found += [FROZEN[1], FROZEN_FORWARD]
    else:
        found.append(RECOMPUTED[recompute])
    if given.get("recompute_share", 1) < 1:
        found.append(SOME_LAYERS)
    return found


def flops(given: dict) -> dict:
    """`given`, counted parameters, and the figures flops_per_token and, where
    their inputs are above 0, total_flops, mfu, hfu, days, gpu_hours, cost and
    energy. It has sequence, tokens, gpus, peak_flops (one GPU's),
    tokens_per_second (the whole job's), count_embeddings, count_attention,
    recompute, and what `costs` takes."""
    whole("sequence", given["sequence"])
    one_of("recompute", given["recompute"], RECOMPUTE)
    for name in ("tokens", "peak_flops", "tokens_per_second"):
        at_least(name, given[name])
    whole("gpus", given["gpus"], 0)
    formulas = per_token(given)
    if given["tokens"]:
        formulas.append(TOTAL)
    if given["gpus"] and given["peak_flops"] and given["tokens_per_second"]:
        formulas += [MFU, HFU]
    return costs(derive(given, formulas))


def costs(given: dict) -> dict:
    """`given` and days, gpu_hours, cost and energy, where what they need is
    above 0: tokens, tokens_per_second, gpus, price_gpu_hour, watts_gpu. pue
    is 1 or more."""
    for name in ("price_gpu_hour", "watts_gpu"):
        at_least(name, given[name])
    at_least("pue", given["pue"], 1)
    if not given["tokens"] or not plain(given["tokens_per_second"]):
        return given
    formulas = [DAYS]
    if given["gpus"]:
        formulas.append(GPU_HOURS)
        if given["price_gpu_hour"]:
            formulas.append(COST)
        if given["watts_gpu"]:
            formulas.append(ENERGY)
    return derive(given, formulas)
