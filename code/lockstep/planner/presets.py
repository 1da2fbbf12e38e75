"""Shapes of published models, by name, each with its source and its size.

A preset leaves out what makes up less than 0.1 % of a model: biases of queries,
keys and values (Qwen2.5) and of experts (gpt-oss), norms of queries and keys
(Qwen3, OLMo, Gemma 3, Llama 4), third and fourth norms of a block (Gemma 3).
It also leaves out windows that later releases dropped (Mistral 7B), that are
blocks (Llama 4), or whose runs the constants were fitted to in full (gpt-oss).
"""

from .figures import one_of

# A table's columns; further numbers go by name.
COLUMNS = "layers", "hidden", "heads", "kv_heads", "ffn"
GATED: dict = {"gated_mlp": 1}
LLAMA3: dict = {"vocab": 128256, "gated_mlp": 1}
TIED: dict = {"tied_embeddings": 1}
WIDE_HEADS: dict = {"head_dim": 128}
LATENT: dict = {
    "gated_mlp": 1,
    "head_dim": 128,
    "q_rank": 1536,
    "kv_rank": 512,
    "rope_dim": 64,
}
GPT: dict = {"tied_embeddings": 1, "bias": 1, "layer_norm": 1}
ESM2: dict = dict(GPT, vocab=33, masked_lm_head=1)
GPT_OSS: dict = {
    "gated_mlp": 1,
    "vocab": 201088,
    "head_dim": 64,
    "experts_per_token": 4,
}
LLAMA4: dict = {
    "gated_mlp": 1,
    "vocab": 202048,
    "experts_per_token": 1,
    "shared_experts": 1,
    "expert_ffn": 8192,
}
LITGPT = "Lightning-AI/litgpt, litgpt/config.py, after the model's config.json"
NEMO = "NVIDIA/NeMo, nemo/collections/llm/gpt/model"
# name: (shape, source, published parameters, "" where only a name says them)
PRESETS: dict = {}


def windows(tokens: int, layers: int) -> dict:
    """Layers with a sliding window."""
    return {"window": tokens, "windowed_layers": layers}


def family(common: dict, source: str, models: tuple) -> None:
    """Add models to PRESETS: (name, published parameters, numbers of COLUMNS,
    and what differs from `common`)."""
    for name, published, numbers, *rest in models:
        shape = dict(common)
        shape.update(zip(COLUMNS, numbers))  # noqa: B905
        for further in rest:
            shape.update(further)
        PRESETS[name] = (shape, source, published)


family(
    dict(GPT, vocab=50257, positions=2048),
    "Brown et al. 2020, table 2.1",
    (("gpt3-175b", "175B", (96, 12288, 96)),),
)
family(
    dict(GPT, vocab=51200, positions=2048),
    "Narayanan et al. 2021, table 1",
    (
        ("gpt-1.7b", "1.7B", (24, 2304, 24)),
        ("gpt-3.6b", "3.6B", (30, 3072, 32)),
        ("gpt-7.5b", "7.5B", (36, 4096, 32)),
        ("gpt-18b", "18.4B", (40, 6144, 48)),
        ("gpt-39b", "39.1B", (48, 8192, 64)),
        ("gpt-76b", "76.1B", (60, 10240, 80)),
        ("gpt-145b", "145.6B", (80, 12288, 96)),
        ("gpt-310b", "310.1B", (96, 16384, 128)),
        ("gpt-530b", "529.6B", (105, 20480, 128)),
        ("gpt-1t", "1008.0B", (128, 25600, 160)),
    ),
)
family(
    dict(GPT, vocab=50368, positions=2048),
    "mosaicml/llm-foundry, scripts/train: yamls/pretrain, benchmarking",
    (
        ("mpt-1b", "1315950592", (24, 2048, 16)),
        ("mpt-3b", "2651837440", (32, 2560, 20)),
        ("mpt-7b", "6658859008", (32, 4096, 32)),
        ("mpt-13b", "12853954560", (40, 5120, 40)),
        ("mpt-30b", "29975214080", (48, 7168, 56)),
        ("mpt-70b", "64862437376", (80, 8192, 64)),
    ),
)
family(
    dict(GATED, vocab=32000),
    "Touvron et al. 2023 (Llama 2); " + LITGPT,
    (
        ("llama2-7b", "6.74B", (32, 4096, 32, 32, 11008)),
        ("llama2-13b", "13.0B", (40, 5120, 40, 40, 13824)),
        ("llama2-70b", "69.0B", (80, 8192, 64, 8, 28672)),
    ),
)
family(
    LLAMA3,
    "Llama 3 2024, table 3",
    (
        ("llama3-8b", "8.03B", (32, 4096, 32, 8, 14336)),
        ("llama3-70b", "70.6B", (80, 8192, 64, 8, 28672)),
        ("llama3-405b", "405B", (126, 16384, 128, 8, 53248)),
    ),
)
family(
    dict(LLAMA3, **TIED),
    "meta-llama/llama-models, llama3_2/MODEL_CARD.md; " + LITGPT,
    (
        ("llama3.2-1b", "1.23B", (16, 2048, 32, 8, 8192)),
        ("llama3.2-3b", "3.21B", (28, 3072, 24, 8, 8192)),
    ),
)
family(
    LLAMA4,
    "meta-llama/llama-models, llama4/MODEL_CARD.md; " + NEMO + "/llama.py;"
    " without the vision encoder; of Maverick's layers every second has"
    " experts, here the last 24",
    (
        ("llama4-scout", "109B", (48, 5120, 40, 8, 16384), {"experts": 16}),
        (
            "llama4-maverick",
            "400B",
            (48, 5120, 40, 8, 16384),
            {"experts": 128, "dense_layers": 24},
        ),
    ),
)
family(
    dict(GATED, vocab=151936),
    "Qwen2.5 2024, model cards; " + LITGPT,
    (
        ("qwen2.5-0.5b", "0.49B", (24, 896, 14, 2, 4864), TIED),
        ("qwen2.5-1.5b", "1.54B", (28, 1536, 12, 2, 8960), TIED),
        ("qwen2.5-3b", "3.09B", (36, 2048, 16, 2, 11008), TIED),
    ),
)
family(
    dict(GATED, vocab=152064),
    "Qwen2.5 2024, model cards; " + LITGPT,
    (
        ("qwen2.5-7b", "7.61B", (28, 3584, 28, 4, 18944)),
        ("qwen2.5-14b", "14.7B", (48, 5120, 40, 8, 13824)),
        ("qwen2.5-32b", "32.8B", (64, 5120, 40, 8, 27648)),
        ("qwen2.5-72b", "72.7B", (80, 8192, 64, 8, 29568)),
    ),
)
family(
    dict(GATED, vocab=151936, head_dim=128),
    "Qwen3 2025, model cards; " + LITGPT,
    (
        ("qwen3-0.6b", "0.6B", (28, 1024, 16, 8, 3072), TIED),
        ("qwen3-1.7b", "1.7B", (28, 2048, 16, 8, 6144), TIED),
        ("qwen3-4b", "4.0B", (36, 2560, 32, 8, 9728), TIED),
        ("qwen3-8b", "8.2B", (36, 4096, 32, 8, 12288)),
        ("qwen3-14b", "14.8B", (40, 5120, 40, 8, 17408)),
        ("qwen3-32b", "32.8B", (64, 5120, 64, 8, 25600)),
        (
            "qwen3-30b-a3b",
            "30.5B",
            (48, 2048, 32, 4, 6144),
            {"experts": 128, "experts_per_token": 8, "expert_ffn": 768},
        ),
        (
            "qwen3-235b-a22b",
            "235B",
            (94, 4096, 64, 4, 12288),
            {"experts": 128, "experts_per_token": 8, "expert_ffn": 1536},
        ),
    ),
)
family(
    dict(GATED, vocab=32000),
    "Jiang et al. 2023, table 1",
    (("mistral-7b", "7.24B", (32, 4096, 32, 8, 14336)),),
)
family(
    dict(GATED, **WIDE_HEADS),
    "Mistral AI, model cards; " + NEMO + "/mistral.py",
    (
        (
            "mistral-nemo-12b",
            "12.2B",
            (40, 5120, 32, 8, 14336),
            {"vocab": 131072},
        ),
        (
            "mistral-small-24b",
            "23.6B",
            (40, 5120, 32, 8, 32768),
            {"vocab": 131072},
        ),
        (
            "mistral-large-123b",
            "123B",
            (88, 12288, 96, 8, 28672),
            {"vocab": 32768},
        ),
    ),
)
family(
    dict(GATED, experts=8, experts_per_token=2),
    "Jiang et al. 2024, table 1; 8x22B: " + LITGPT,
    (
        ("mixtral-8x7b", "46.7B", (32, 4096, 32, 8, 14336), {"vocab": 32000}),
        ("mixtral-8x22b", "141B", (56, 6144, 48, 8, 16384), {"vocab": 32768}),
    ),
)
family(
    dict(GATED, vocab=100352),
    "OLMo 2 2025; allenai/OLMo-core, nn/transformer/config.py",
    (
        ("olmo2-1b", "1.48B", (16, 2048, 16, 16, 8192)),
        ("olmo2-7b", "7.30B", (32, 4096, 32, 32, 11008)),
        ("olmo2-13b", "13.7B", (40, 5120, 40, 40, 13824)),
        ("olmo2-32b", "32.2B", (64, 5120, 40, 8, 27648)),
        ("olmo3-7b", "7.30B", (32, 4096, 32, 32, 11008), windows(4096, 24)),
        ("olmo3-32b", "32.2B", (64, 5120, 40, 8, 27648), windows(4096, 48)),
    ),
)
family(
    dict(GATED, vocab=262144, **TIED),
    "Gemma 3 2025, table 1, without the vision encoder; " + LITGPT,
    (
        (
            "gemma3-1b",
            "1000M",
            (26, 1152, 4, 1, 6912),
            {"head_dim": 256},
            windows(512, 22),
        ),
        (
            "gemma3-4b",
            "3884M",
            (34, 2560, 8, 4, 10240),
            {"head_dim": 256},
            windows(1024, 29),
        ),
        (
            "gemma3-12b",
            "11771M",
            (48, 3840, 16, 8, 15360),
            {"head_dim": 256},
            windows(1024, 40),
        ),
        (
            "gemma3-27b",
            "27016M",
            (62, 5376, 32, 16, 21504),
            WIDE_HEADS,
            windows(1024, 52),
        ),
    ),
)
family(
    {"vocab": 256000, "layer_norm": 1},
    "Nemotron-4 2024 (15B and 340B); " + NEMO + "/nemotron.py",
    (
        ("nemotron4-15b", "15.7B", (32, 6144, 48, 8, 24576)),
        ("nemotron4-340b", "341B", (96, 18432, 96, 8, 73728)),
    ),
)
family(
    GPT_OSS,
    "gpt-oss 2025, table 1; openai/gpt-oss, gpt_oss/torch/model.py",
    (
        ("gpt-oss-20b", "20.91B", (24, 2880, 64, 8, 2880), {"experts": 32}),
        ("gpt-oss-120b", "116.83B", (36, 2880, 64, 8, 2880), {"experts": 128}),
    ),
)
family(
    LATENT,
    "DeepSeek-V2 2024, 3.1.2",
    (
        (
            "deepseek-v2",
            "236B",
            (60, 5120, 128, 128, 12288),
            {"vocab": 102400, "experts": 160, "experts_per_token": 6},
            {"shared_experts": 2, "expert_ffn": 1536, "dense_layers": 1},
        ),
    ),
)
family(
    dict(LATENT, experts_per_token=8, shared_experts=1, router_bias=1),
    "DeepSeek-V3 2024, 4.2, without the multi-token prediction module",
    (
        (
            "deepseek-v3",
            "671B",
            (61, 7168, 128, 128, 18432),
            {"vocab": 129280, "experts": 256},
            {"expert_ffn": 2048, "dense_layers": 3},
        ),
    ),
)
family(
    dict(LATENT, experts_per_token=8, shared_experts=1, router_bias=1),
    "MoonshotAI/Kimi-K2, README.md, model summary",
    (
        (
            "kimi-k2",
            "1T",
            (61, 7168, 64, 64, 18432),
            {"vocab": 163840, "experts": 384},
            {"expert_ffn": 2048, "dense_layers": 1},
        ),
    ),
)
family(
    ESM2,
    "Lin et al. 2023; ESM, README, table of models",
    (
        ("esm2-8m", "", (6, 320, 20)),
        ("esm2-35m", "", (12, 480, 20)),
        ("esm2-150m", "", (30, 640, 20)),
        ("esm2-650m", "", (33, 1280, 20)),
        ("esm2-3b", "", (36, 2560, 40)),
        ("esm2-15b", "", (48, 5120, 40)),
    ),
)


def preset(name: str) -> dict:
    """The shape of a published model."""
    one_of("preset", name, tuple(sorted(PRESETS)))
    return dict(PRESETS[name][0])
