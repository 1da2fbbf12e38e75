"""Models to count, written from the papers and not from the planner."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockstep.planner.models import shape
from lockstep.planner.presets import preset


class Attention(nn.Module):
    def __init__(self, s: dict[str, Any]) -> None:
        super().__init__()
        wide, few = s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"]
        bias = bool(s["bias"])
        self.q = nn.Linear(s["hidden"], wide, bias)
        self.k = nn.Linear(s["hidden"], few, bias)
        self.v = nn.Linear(s["hidden"], few, bias)
        self.o = nn.Linear(wide, s["hidden"], bias)
        self.head_dim = s["head_dim"]

    def forward(self, x: Tensor) -> Tensor:
        parts = (layer(x) for layer in (self.q, self.k, self.v))
        q, k, v = (
            part.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for part in parts
        )
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=q.shape[1] > k.shape[1]
        )
        return self.o(y.transpose(1, 2).flatten(2))


class LatentAttention(nn.Module):
    """DeepSeek-V2, equations 9 to 19."""

    def __init__(self, s: dict[str, Any]) -> None:
        super().__init__()
        each = s["heads"] * (s["head_dim"] + s["rope_dim"])
        both = s["heads"] * 2 * s["head_dim"]
        self.down_q = nn.Linear(s["hidden"], s["q_rank"], False)
        self.norm_q = nn.RMSNorm(s["q_rank"])
        self.up_q = nn.Linear(s["q_rank"], each, False)
        down = s["kv_rank"] + s["rope_dim"]
        self.down_kv = nn.Linear(s["hidden"], down, False)
        self.norm_kv = nn.RMSNorm(s["kv_rank"])
        self.up_kv = nn.Linear(s["kv_rank"], both, False)
        self.o = nn.Linear(s["heads"] * s["head_dim"], s["hidden"], False)


class Mlp(nn.Module):
    def __init__(self, s: dict[str, Any], ffn: int, bias: bool) -> None:
        super().__init__()
        self.gate = (
            nn.Linear(s["hidden"], ffn, bias) if s["gated_mlp"] else None
        )
        self.up = nn.Linear(s["hidden"], ffn, bias)
        self.down = nn.Linear(ffn, s["hidden"], bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is None:
            return self.down(F.gelu(self.up(x)))
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    def __init__(self, s: dict[str, Any]) -> None:
        super().__init__()
        count = s["experts"] + s["shared_experts"]
        each = (Mlp(s, s["expert_ffn"], False) for _ in range(count))
        self.experts = nn.ModuleList(each)
        self.router = nn.Linear(s["hidden"], s["experts"], False)
        if s["router_bias"]:
            self.balance = nn.Parameter(torch.zeros(s["experts"]))


class Block(nn.Module):
    def __init__(self, s: dict[str, Any], sparse: bool = False) -> None:
        super().__init__()
        norm = nn.LayerNorm if s["layer_norm"] else nn.RMSNorm
        self.norm1, self.norm2 = norm(s["hidden"]), norm(s["hidden"])
        self.attention = (LatentAttention if s["kv_rank"] else Attention)(s)
        self.mlp = Experts(s) if sparse else Mlp(s, s["ffn"], bool(s["bias"]))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    """One layer of each kind; `count` multiplies them."""

    def __init__(self, s: dict[str, Any]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(s["vocab"], s["hidden"])
        self.positions = nn.Embedding(s["positions"], s["hidden"])
        self.dense, self.sparse = Block(s), None
        if s["experts"]:
            self.sparse = Block(s, sparse=True)
        norm = nn.LayerNorm if s["layer_norm"] else nn.RMSNorm
        self.norm = norm(s["hidden"])
        if not s["tied_embeddings"]:
            self.output = nn.Linear(s["hidden"], s["vocab"], False)
        if s["masked_lm_head"]:
            self.head = nn.Linear(s["hidden"], s["hidden"])
            self.head_norm = norm(s["hidden"])
            self.head_bias = nn.Parameter(torch.zeros(s["vocab"]))


def numbers(module: nn.Module | None) -> int:
    return sum(p.numel() for p in module.parameters()) if module else 0


def count(name: str) -> int:
    """Parameters of a preset, by building it without memory."""
    s = shape(preset(name))
    with torch.device("meta"):
        model = Model(s)
    dense = s["dense_layers"] if s["experts"] else s["layers"]
    others = numbers(model) - numbers(model.dense) - numbers(model.sparse)
    sparse = (s["layers"] - dense) * numbers(model.sparse)
    return others + dense * numbers(model.dense) + sparse
