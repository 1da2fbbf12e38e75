"""Parameters of a decoder, or of an encoder of the same blocks, by part."""

from .figures import Formula, derive, divides, flag, refuse, whole

VASWANI = "Vaswani et al. 2017, 3.2 and 3.3"
SHAPE: dict = {
    "layers": 0,
    "hidden": 0,
    "heads": 0,
    "vocab": 0,
    "kv_heads": 0,  # as many as heads; fewer is grouped-query attention
    "head_dim": 0,  # hidden / heads
    "ffn": 0,  # 4 hidden
    "positions": 0,  # learned ones; none with rotary embeddings
    "gated_mlp": False,  # three matrices in place of two
    "tied_embeddings": False,
    "bias": False,  # of every linear layer
    "layer_norm": False,  # in place of RMS norm: a bias too
    "experts": 0,  # of a layer; 0: one plain MLP
    "experts_per_token": 0,
    "shared_experts": 0,  # every token goes through them
    "expert_ffn": 0,  # ffn
    "dense_layers": 0,  # the first ones, which have no experts
    "window": 0,  # tokens that a query attends to in windowed layers
    "windowed_layers": 0,
    "mtp": 0,  # modules that predict further tokens: a layer and the head each
    "router_bias": 0,  # of a balance without a loss
    "q_rank": 0,  # multi-head latent attention, if above 0
    "kv_rank": 0,
    "rope_dim": 0,
    "masked_lm_head": 0,  # a linear layer, a norm, a bias per token
}
# Multi-head attention is the case kv_heads = heads, multi-query kv_heads = 1.
ATTENTION = Formula(
    "attention_per_layer",
    "hidden * head_dim * (2 * heads + 2 * kv_heads)"
    " + bias * (head_dim * (heads + 2 * kv_heads) + hidden)",
    "parameters",
    "Ainslie et al. 2023 (GQA), section 2",
)
# Its heads have head_dim numbers of content and, in the values, as many.
LATENT_ATTENTION = Formula(
    "attention_per_layer",
    "(hidden * q_rank + q_rank + q_rank * heads * (head_dim + rope_dim)"
    " if q_rank else hidden * heads * (head_dim + rope_dim))"
    " + hidden * (kv_rank + rope_dim) + kv_rank"
    " + kv_rank * heads * 2 * head_dim + heads * head_dim * hidden",
    "parameters",
    "DeepSeek-V2 2024, 2.1",
)
MLP = Formula(
    "mlp_per_layer",
    "(3 if gated_mlp else 2) * hidden * ffn"
    " + bias * ((2 if gated_mlp else 1) * ffn + hidden)",
    "parameters",
    VASWANI + "; gated: Shazeer 2020",
)
EXPERT = Formula(
    "expert",
    "(3 if gated_mlp else 2) * hidden * expert_ffn",
    "parameters",
    "Shazeer et al. 2017, section 2",
)
MOE = Formula(
    "moe_per_layer",
    "(experts + shared_experts) * expert + hidden * experts"
    " + router_bias * experts",
    "parameters",
    "DeepSeek-V3 2024, 2.1.2",
)
NORM = Formula(
    "norm_each",
    "hidden * (2 if layer_norm else 1)",
    "parameters",
    "Ba et al. 2016; Zhang and Sennrich 2019",
)
PARTS = [
    Formula(
        "embedding",
        "vocab * hidden * (1 if tied_embeddings else 2) + positions * hidden",
        "parameters",
        "Press and Wolf 2017; the output layer is in it",
    ),
    Formula("attention", "layers * attention_per_layer", "parameters", VASWANI),
    NORM,
    Formula(
        "norm",
        "(2 * layers + 1) * norm_each",
        "parameters",
        "two a block, one at the end",
    ),
    Formula(
        "head",
        "masked_lm_head * (hidden * hidden + hidden + norm_each + vocab)"
        " + mtp * (2 * hidden * hidden + 3 * norm_each)",
        "parameters",
        "Devlin et al. 2019, its released code; DeepSeek-V3 2024, 2.2: each"
        " module's projection and norms",
    ),
]
TOTAL = Formula(
    "total", "embedding + attention + mlp + norm + head", "parameters", "sum"
)
DENSE = [
    Formula("mlp", "layers * mlp_per_layer", "parameters", VASWANI),
    TOTAL,
    Formula("active", "total", "parameters", "a dense model"),
]
SPARSE = [
    EXPERT,
    MOE,
    Formula(
        "mlp",
        "dense_layers * mlp_per_layer"
        " + (layers - dense_layers) * moe_per_layer",
        "parameters",
        "DeepSeek-V3 2024, 4.2",
    ),
    TOTAL,
    Formula(
        "active",
        "total"
        " - (layers - dense_layers) * (experts - experts_per_token) * expert",
        "parameters",
        "Jiang et al. 2024 (Mixtral), section 2.1",
    ),
]


def shape(given: dict) -> dict:
    """`given`, with what follows from it filled in. PlanError for what can be
    no model."""
    s = dict(SHAPE)
    s.update(given)
    for name in ("layers", "hidden", "heads", "vocab"):
        s[name] = whole(name, s[name])
    for name in SHAPE:
        s[name] = whole(name, s[name], 0)
    if not s["head_dim"]:
        divides("heads", s["heads"], "hidden", s["hidden"])
        s["head_dim"] = s["hidden"] // s["heads"]
    s["kv_heads"] = s["kv_heads"] or s["heads"]
    divides("kv_heads", s["kv_heads"], "heads", s["heads"])
    s["ffn"] = s["ffn"] or 4 * s["hidden"]
    s["expert_ffn"] = s["expert_ffn"] or s["ffn"]
    if s["experts"]:
        s["experts_per_token"] = whole(
            "experts_per_token", s["experts_per_token"]
        )
    for name, most in (
        ("experts_per_token", "experts"),
        ("dense_layers", "layers"),
        ("windowed_layers", "layers"),
    ):
        if s[name] > s[most]:
            refuse(name, s[name], f"at most {flag(most)}, {s[most]}")
    return s


def params(given: dict) -> dict:
    """`given`, a shape, and the figures total, embedding, attention, mlp, norm
    and active: what one token goes through."""
    s = shape(given)
    s["layers"] += s["mtp"]
    attention = LATENT_ATTENTION if s["kv_rank"] else ATTENTION
    parts = SPARSE if s["experts"] else DENSE
    s["expert"] = 0
    for formulas in ([attention, MLP], PARTS, parts):
        s = derive(s, formulas)
    return s
