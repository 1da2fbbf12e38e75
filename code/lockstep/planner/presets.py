"""Shapes of published models, by name, each with its source."""

from .figures import one_of

LLAMA3: dict = {"kv_heads": 8, "vocab": 128256, "gated_mlp": 1}
ESM2: dict = {
    "vocab": 33,
    "tied_embeddings": 1,
    "bias": 1,
    "layer_norm": 1,
    "masked_lm_head": 1,
}
PRESETS: dict = {
    "gpt3-175b": (
        {
            "layers": 96,
            "hidden": 12288,
            "heads": 96,
            "vocab": 50257,
            "positions": 2048,
            "tied_embeddings": 1,
            "bias": 1,
            "layer_norm": 1,
        },
        "Brown et al. 2020, table 2.1",
    ),
    "llama3-8b": (
        dict(LLAMA3, layers=32, hidden=4096, heads=32, ffn=14336),
        "Llama 3 2024, table 3",
    ),
    "llama3-70b": (
        dict(LLAMA3, layers=80, hidden=8192, heads=64, ffn=28672),
        "Llama 3 2024, table 3",
    ),
    "llama3-405b": (
        dict(LLAMA3, layers=126, hidden=16384, heads=128, ffn=53248),
        "Llama 3 2024, table 3",
    ),
    "mixtral-8x7b": (
        {
            "layers": 32,
            "hidden": 4096,
            "heads": 32,
            "kv_heads": 8,
            "ffn": 14336,
            "vocab": 32000,
            "gated_mlp": 1,
            "experts": 8,
            "experts_per_token": 2,
        },
        "Jiang et al. 2024, table 1",
    ),
    "deepseek-v3": (
        {
            "layers": 61,
            "hidden": 7168,
            "heads": 128,
            "head_dim": 128,
            "ffn": 18432,
            "vocab": 129280,
            "gated_mlp": 1,
            "experts": 256,
            "experts_per_token": 8,
            "shared_experts": 1,
            "expert_ffn": 2048,
            "dense_layers": 3,
            "router_bias": 1,
            "q_rank": 1536,
            "kv_rank": 512,
            "rope_dim": 64,
        },
        "DeepSeek-V3 2024, 4.2, without the multi-token prediction module",
    ),
}
for size, layers, hidden, heads in (
    ("8m", 6, 320, 20),
    ("35m", 12, 480, 20),
    ("150m", 30, 640, 20),
    ("650m", 33, 1280, 20),
    ("3b", 36, 2560, 40),
    ("15b", 48, 5120, 40),
):
    PRESETS["esm2-" + size] = (
        dict(ESM2, layers=layers, hidden=hidden, heads=heads),
        "Lin et al. 2023; ESM, README, table of models",
    )


def preset(name: str) -> dict:
    """The shape of a published model."""
    one_of("preset", name, tuple(sorted(PRESETS)))
    return dict(PRESETS[name][0])
