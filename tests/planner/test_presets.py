"""Presets have as many parameters as their publishers say."""

import re

import pytest

from lockstep.cli import main
from lockstep.planner.hardware import HARDWARE
from lockstep.planner.layout import layout
from lockstep.planner.models import params
from lockstep.planner.presets import PRESETS, preset
from lockstep.planner.questions import ask

UNITS = {"": 1, "M": 1e6, "B": 1e9, "T": 1e12}
SIZED = sorted(name for name in PRESETS if PRESETS[name][2])
# Of Llama 4's vision encoder: 34 blocks of width 1,408 with an MLP of 5,632,
# and a projection of 1,408 x 4 to 4,096, 4,096 and the model's 5,120.
WIDE, MLP = 1408, 5632
VISION = 34 * (4 * WIDE**2 + 2 * WIDE * MLP)
VISION += 4 * WIDE * 4096 + 4096**2 + 4096 * 5120
LEFT_OUT = {"llama4-scout": VISION, "llama4-maverick": VISION}


@pytest.mark.parametrize("name", SIZED)
def test_a_preset_has_the_published_number_of_parameters(name: str) -> None:
    """Each preset counts within 0.5 % of its published number, or rounds to it:
    Qwen2.5 0.5B is published as 0.49B and has 494 million. Kimi K2 is published
    as 1T and has 1.026T, so rounding explains at most 3 %."""
    published = PRESETS[name][2]
    found = re.fullmatch(r"(\d+)(?:\.(\d+))?([MBT]?)", published)
    assert found
    whole, decimals, unit = found.groups()
    value = float(f"{whole}.{decimals or 0}") * UNITS[unit]
    half = UNITS[unit] * 10.0 ** -len(decimals or "") / 2
    counted = params(PRESETS[name][0])["total"].value + LEFT_OUT.get(name, 0)
    margin = max(0.005 * value, min(half, 0.03 * value))
    assert abs(counted - value) <= margin


def test_current_families_have_presets_with_sources() -> None:
    """Presets cover GPT, MPT, Llama 2 to 4, Qwen 2.5 and 3, Mistral, Mixtral,
    OLMo, Gemma, Nemotron, gpt-oss, DeepSeek and Kimi, each with a source; only
    ESM-2's sizes are too coarse to compare."""
    families = {re.split(r"[-\d]", name)[0] for name in PRESETS}
    assert families == {
        *("gpt", "mpt", "llama", "qwen", "mistral", "mixtral", "olmo"),
        *("gemma", "nemotron", "deepseek", "kimi", "esm"),
    }
    assert len(SIZED) > 50
    for name, (_, source, published) in PRESETS.items():
        assert source
        assert published or name.startswith("esm2-")


@pytest.mark.parametrize(
    ("name", "active"),
    [
        ("mixtral-8x7b", 12.9e9),
        ("qwen3-30b-a3b", 3.3e9),
        ("qwen3-235b-a22b", 22e9),
        ("deepseek-v2", 21e9),
        ("deepseek-v3", 37e9),
        ("kimi-k2", 32.6e9),
        ("llama4-scout", 17e9),
    ],
)
def test_a_sparse_preset_activates_the_published_number(
    name: str, active: float
) -> None:
    """Mixtral, Qwen3, DeepSeek, Kimi K2 and Llama 4 publish how many parameters
    a token uses; the planner agrees within 3 %."""
    assert params(PRESETS[name][0])["active"].value == pytest.approx(
        active, rel=0.03
    )


def test_the_command_counts_a_preset(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", "params", "--preset=qwen3-235b-a22b"]) == 0
    assert "235,093,610,496" in capsys.readouterr().out


def test_latent_attention_has_flags() -> None:
    """DeepSeek-V2-Lite, which splits no queries, has 15.7 B parameters by its
    model card, and 2.4 B of them active."""
    found = ask(
        "params",
        {
            "layers": 27,
            "hidden": 2048,
            "heads": 16,
            "head_dim": 128,
            "kv_rank": 512,
            "rope_dim": 64,
            "vocab": 102400,
            "ffn": 10944,
            "gated_mlp": True,
            "experts": 64,
            "experts_per_token": 6,
            "shared_experts": 2,
            "expert_ffn": 1408,
            "dense_layers": 1,
        },
    )
    assert found["total"].value == pytest.approx(15.7e9, rel=5e-3)
    active = found["active"].value - found["embedding"].value / 2
    assert active == pytest.approx(2.4e9, rel=0.05)


def test_a_module_for_more_tokens_has_the_published_parameters() -> None:
    """DeepSeek-V3's README_WEIGHTS.md counts 11.5B parameters for its one
    module for multi-token prediction, of which a token passes through 2.4B
    with 1.8B of the shared embedding and head, if one leaves out the
    projection of two vectors to one. In a run, the module adds a
    layer's and an output layer's operations, time and logits."""
    alone, more = (
        params(preset("deepseek-v3") | {"mtp": count}) for count in (0, 1)
    )
    unique = more["total"].value - alone["total"].value
    assert unique == pytest.approx(11.5e9, rel=0.02)
    active = more["active"].value - alone["active"].value
    used = active + alone["embedding"].value - 2 * 7168**2
    assert used == pytest.approx(2.4e9, rel=0.02)
    given = preset("deepseek-v3") | HARDWARE["h800"] | {"gpus": 512, "pp": 4}
    given |= {"sequence": 4096, "global_batch": 1024, "ep": 32}
    one, two = (layout(given | {"mtp": count}) for count in (0, 1))
    head = alone["embedding"].value / 2
    operations = two["matmul_flops"].value - one["matmul_flops"].value
    assert operations == pytest.approx(6 * (active + head))
    for name in ("head_compute", "loss_bytes"):
        assert two[name].value == pytest.approx(2 * one[name].value)
