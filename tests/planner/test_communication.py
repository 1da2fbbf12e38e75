"""What a rank sends in a step: the papers' multiples, and sums by hand."""

from typing import Any

import pytest

from lockstep.planner.communication import communication
from lockstep.planner.figures import PlanError
from lockstep.planner.models import params, shape
from lockstep.planner.presets import preset

LLAMA = shape(preset("llama3-8b"))
SIZE = params(LLAMA)["total"].value


def sent(part: str, **given: Any) -> float:
    found = communication(LLAMA | {"params": SIZE, "sequence": 8192} | given)
    return float(found[f"{part}_bytes"].value)


@pytest.mark.parametrize(
    ("stage", "multiple"), [(0, 2), (1, 2), (2, 2), (3, 3)]
)
def test_zero_sends_two_or_three_times_the_parameters(
    stage: int, multiple: int
) -> None:
    """Section 7: 2 Ψ for stages 0 to 2, 3 Ψ for stage 3, for many ranks."""
    volume = sent("data", zero_stage=stage, dp=4096)
    assert volume / 2 / SIZE == pytest.approx(multiple, rel=1e-3)


def test_hybrid_sharding_adds_an_all_reduce_of_a_shard() -> None:
    whole = sent("data", zero_stage=3, dp=8)
    hybrid = sent("data", zero_stage=3, dp=64, shard=8)
    assert hybrid - whole == pytest.approx(2 * 7 / 8 * SIZE / 8 * 2)


@pytest.mark.parametrize(("stage", "each"), [(0, 0), (1, 0), (2, 1), (3, 3)])
def test_what_every_micro_batch_sends_anew(stage: int, each: int) -> None:
    """Sharded gradients are reduced each time, sharded weights gathered."""
    once = sent("data", zero_stage=stage, dp=8)
    four = sent("data", zero_stage=stage, dp=8, microbatches=4)
    assert four - once == pytest.approx(3 * 7 / 8 * SIZE * each * 2)


def test_a_layer_of_tensor_parallelism_reduces_four_times() -> None:
    tensor = 8192 * 4096 * 2
    assert sent("tensor", tp=8) == 32 * 4 * 2 * 7 / 8 * tensor
    assert sent("tensor") == 0


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
@pytest.mark.parametrize("hidden", [3072, 8192])
def test_the_share_of_tensor_parallelism_is_n_minus_1_over_3h(
    hidden: int, ranks: int
) -> None:
    """In a classic layer of 12 h² parameters, the forward pass takes 24 h² / n
    FLOPs per token. The bytes that it sends take (n - 1) / 3h of the time, for
    each FLOP of the time of a byte, and two thirds of that share in a step."""
    given = {"layers": 1, "hidden": hidden, "heads": 16, "kv_heads": 16}
    layer = shape(given | {"vocab": 1, "ffn": 4 * hidden})
    weights = params(layer)
    products = (
        weights["attention_per_layer"].value + weights["mlp_per_layer"].value
    )
    assert products == 12 * hidden**2
    tokens = 8192
    asked = layer | {"params": 0, "sequence": tokens, "tp": ranks}
    step = communication(asked)["tensor_bytes"].value
    forward = 2 * products * tokens / ranks
    share = (ranks - 1) / (3 * hidden)
    assert step / 2 / forward == pytest.approx(share)
    assert step / (3 * forward) == pytest.approx(2 / 3 * share)


def test_ring_attention_sends_keys_and_values_of_the_grouped_heads() -> None:
    keys = 8192 / 4 * 8 * 128 * 2
    gradients = 2 * keys  # in 32 bits
    rounds = 3 * 2 * keys + 3 * 2 * keys + 4 * 2 * gradients
    assert sent("context", cp=4) == 32 * rounds
    both = 2 * (32 + 8) * 128 * 8192 / 4 * 2
    ulysses = sent("context", cp=4, context="ulysses")
    assert ulysses == 32 * 2 * 3 / 4 * both


def test_full_recomputation_repeats_a_layers_forward_collectives() -> None:
    """Megatron-LM and torchtitan run a recomputed layer's whole forward pass
    again, with its all-reduces, its ring or all-to-alls, and its experts'
    all-to-alls. Messages between stages aren't part of a layer."""
    tensor = 8192 * 4096 * 2
    again = {"forwards": 2, "tensor_forwards": 2, "expert_forwards": 2}
    assert sent("tensor", tp=8, **again) == 32 * 6 * 2 * 7 / 8 * tensor
    keys = 8192 / 4 * 8 * 128 * 2
    assert sent("context", cp=4, **again) - sent("context", cp=4) == (
        32 * 3 * 2 * keys
    )
    ulysses = {"cp": 4, "context": "ulysses"}
    assert sent("context", **ulysses, **again) == pytest.approx(
        1.5 * sent("context", **ulysses)
    )
    stage = {"pp": 4, "microbatches": 16}
    assert sent("pipeline", **stage, **again) == sent("pipeline", **stage)
    moe = shape(preset("mixtral-8x7b")) | {"params": 1, "sequence": 4096}
    once, twice = (
        communication(moe | {"ep": 8} | more)["expert_bytes"].value
        for more in ({}, again)
    )
    assert twice == 1.5 * once


def test_whole_experts_need_no_tensor_collectives() -> None:
    """A layer whose experts aren't split by tensors has attention's collectives
    alone, unless it has shared experts, which are."""
    qwen = shape(preset("qwen3-30b-a3b")) | {"params": 1, "sequence": 4096}
    split, whole, shared = (
        communication(qwen | {"tp": 4} | given)["tensor_bytes"].value
        for given in (
            {"expert_tp": 4},
            {"expert_tp": 1},
            {"expert_tp": 1, "shared_experts": 1},
        )
    )
    assert whole == split / 2
    assert shared == split


def test_a_stage_sends_forward_and_backward() -> None:
    tensor = 8192 * 4096 * 2
    assert sent("pipeline", pp=4, microbatches=16) == 16 * 2 * tensor
    assert sent("pipeline", microbatches=16) == 0
    twice = sent("pipeline", pp=4, microbatches=16, virtual_stages=2)
    assert twice == 2 * 16 * 2 * tensor
    parted = {"tp": 8, "sequence_parallel": 1}
    assert sent("pipeline", pp=4, microbatches=16, **parted) == 4 * tensor


def test_experts_get_every_token_so_many_times() -> None:
    moe = shape(preset("mixtral-8x7b"))
    given = {"params": 1, "sequence": 4096, "ep": 8}
    found = communication(moe | given)["expert_bytes"]
    assert found.value == 32 * 4 * 7 / 8 * 2 * 4096 * 4096 * 2


def test_the_whole_is_the_sum() -> None:
    given = {"dp": 8, "tp": 2, "cp": 2, "pp": 2, "microbatches": 8}
    parts = ("data", "tensor", "context", "pipeline", "expert")
    assert sent("sent", **given) == sum(sent(part, **given) for part in parts)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"dp": 8, "shard": 3}, "--shard is 3; it must be a divisor of --dp"),
        ({"tp": 5}, "--tp is 5; it must be a divisor of --heads, 32"),
        ({"pp": 33}, "--pp is 33; it must be at most --layers, 32"),
        ({"cp": 3}, "--cp is 3; it must be a divisor of --sequence, 8192"),
        ({"cp": 64, "context": "ulysses"}, "must be a divisor of --heads, 32"),
        ({"zero_stage": 5}, "--zero-stage is 5"),
        ({"context": "star"}, "--context is star; it must be one of ring"),
    ],
)
def test_a_split_that_cannot_be_is_named(
    given: dict[str, Any], says: str
) -> None:
    with pytest.raises(PlanError, match=says):
        sent("sent", **given)
