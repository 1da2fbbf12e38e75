"""The model of a step's time, against sums by hand and what it must obey."""

from typing import Any

import pytest

from lockstep.planner.clock import Played
from lockstep.planner.constants import CONSTANTS, FAMILIES, VALUES
from lockstep.planner.figures import PlanError, plain
from lockstep.planner.hardware import HARDWARE
from lockstep.planner.pipeline import SCHEDULES, pipeline
from lockstep.planner.questions import ask
from lockstep.planner.schedules import Schedule

LLAMA: dict[str, Any] = {
    "preset": "llama3-8b",
    "gpus": 8,
    "sequence": 8192,
    "global_batch": 64,
    "recompute": "none",
}
QWEN: dict[str, Any] = {
    "preset": "qwen3-235b-a22b",
    "gpus": 256,
    "sequence": 4096,
    "global_batch": 2048,
    "tp": 2,
    "pp": 8,
    "sequence_parallel": True,
    "zero_stage": 1,
    "recompute": "none",
}


def run(**given: Any) -> dict[str, Any]:
    found = ask("run", LLAMA | given)
    return {name: plain(one) for name, one in found.items()}


def moe(**given: Any) -> dict[str, Any]:
    found = ask("run", QWEN | given)
    return {name: plain(one) for name, one in found.items()}


def test_a_layer_takes_products_attention_traffic_and_a_gap() -> None:
    """A layer's time is the sum of its matmuls, each slower where its
    shape is small, attention's causal half, elementwise traffic and a gap."""
    found = run()
    share, moved = VALUES["matmul_h100"], VALUES["operand_passes"]
    read = moved * 989e12 / 3350e9

    def slow(n: int) -> float:
        return 1 / share + read * (1 / 8192 + 1 / n + 1 / 4096)

    attention = 4096 * 128 * (2 * 32 + 2 * 8)
    mlp = 3 * 4096 * 14336
    products = 6 * 8192 * (attention * slow(4096) + mlp * slow(14336)) / 989e12
    assert found["matmul_seconds"] == pytest.approx(products)
    scores = 12 * 4096 * 8192 * 8192 / 2
    scores /= 989e12 * VALUES["attention_h100"]
    assert found["scores_seconds"] == pytest.approx(scores)
    traffic = VALUES["elementwise_passes"] * found["block_bytes"] / 3350e9
    assert found["elementwise_seconds"] == pytest.approx(traffic)
    layer = products + scores + traffic + VALUES["layer_gap"]
    assert found["layer_compute"] == pytest.approx(layer)
    head = 6 * 8192 * 4096 * 128256 / 989e12 * slow(128256)
    head += 24 * 8192 * 128256 / 3350e9
    assert found["head_compute"] == pytest.approx(head)
    step = 8 * (32 * layer + head)
    assert found["compute_seconds"] == pytest.approx(step)


def test_small_micro_batches_and_narrow_products_are_slower() -> None:
    """Tokens per second rise with the micro-batch, and per operation with the
    model's width: an efficiency that is one constant has neither."""
    rates = [
        run(micro_batch=size, sequence=512)["tokens_per_second"]
        for size in (1, 2, 4, 8)
    ]
    assert rates == sorted(rates)
    assert rates[-1] > 1.1 * rates[0]
    wide = run(preset="llama3-70b", zero_stage=3)["flops_gpu"]
    narrow = run(preset="llama3.2-1b", zero_stage=3)["flops_gpu"]
    assert wide > 1.1 * narrow


def test_recomputing_takes_time_and_saves_memory() -> None:
    for kernels in ("torch", "fused"):
        found = [
            run(recompute=one, kernels=kernels)
            for one in ("none", "selective", "full")
        ]
        steps = [one["step_seconds"] for one in found]
        kept = [one["activations_bytes"] for one in found]
        assert steps == sorted(steps)
        assert kept == sorted(kept, reverse=True)
        assert steps[2] == pytest.approx(steps[0] * 4 / 3, rel=0.1)


def test_attention_that_is_not_causal_takes_twice_as_long() -> None:
    causal, whole = run(), run(causal=False)
    assert whole["scores_seconds"] == 2 * causal["scores_seconds"]
    # The count of operations has its own conventions.
    assert whole["flops_per_token"] == causal["flops_per_token"]
    assert causal["mfu_causal"] < causal["mfu"]
    assert whole["mfu_causal"] == whole["mfu"]
    half = causal["matmul_flops"] + causal["attention_flops"] / 2
    share = causal["mfu_causal"] / causal["mfu"]
    assert share == pytest.approx(half / causal["flops_per_token"])


def test_a_stage_with_the_output_layer_or_one_layer_more_sets_the_pace() -> (
    None
):
    even = run(pp=4)
    last = 8 * even["layer_compute"] + even["head_compute"]
    assert even["stage_compute"] == pytest.approx(last)
    uneven = run(pp=4, layers=33)
    assert uneven["stage_compute"] == pytest.approx(
        max(9 * uneven["layer_compute"], last)
    )
    assert uneven["step_seconds"] >= even["step_seconds"]


def test_a_peak_names_its_precision_and_its_accelerator() -> None:
    """Twice the bf16 peak is FP8's, which the output layer and attention do
    not use; another accelerator's peak brings that accelerator's constants."""
    found = run(peak_flops=1979e12)
    assert found["precision"] == "fp8"
    assert found["half_peak"] == 989e12
    assert found["matmul_share"] == VALUES["matmul_h100_fp8"]
    assert found["scores_seconds"] == run()["scores_seconds"]
    assert found["step_seconds"] < run()["step_seconds"]
    asked = run(precision="fp8")
    assert asked["step_seconds"] == pytest.approx(found["step_seconds"])
    old = run(hardware="a100", peak_flops=125e12)
    assert old["accelerator"] == "v100"
    assert old["matmul_share"] == VALUES["matmul_v100"]


def test_every_family_has_its_shares() -> None:
    for name, family in FAMILIES.items():
        assert name in HARDWARE
        assert {f"matmul_{family}", f"attention_{family}"} <= CONSTANTS.keys()
        if name != "v100":
            assert run(hardware=name)["step_seconds"] > 0


def test_an_efficiency_takes_the_models_place() -> None:
    """At half the peak, computing takes all operations over half the peak."""
    found = run(efficiency=0.5)
    flops = 6 * found["total"] + 12 * 32 * 4096 * 8192
    compute = 64 * 8192 * flops / (8 * 989e12 * 0.5)
    assert found["compute_seconds"] == pytest.approx(compute)


def test_hardware_without_published_runs_has_memory_and_no_seconds() -> None:
    """Trainium 2 has no published run here, so a plan has its bytes and no
    time, until an efficiency is given."""
    found = run(hardware="trainium2")
    assert found["total_bytes"] > 0
    assert "step_seconds" not in found
    assert "no published run on trainium2" in found["outside"]
    assert run(hardware="trainium2", efficiency=0.4)["step_seconds"] > 0


# Experts


def test_experts_may_lie_over_tensor_parallel_ranks() -> None:
    """32 ranks share the experts where data parallelism has only 16: each
    expert is whole, and a rank of tensor parallelism sends its own part of the
    sequence."""
    found = moe(ep=32)
    assert (found["dp"], found["expert_tp"]) == (16, 1)
    routed = 94 * 128 * 3 * 4096 * 1536
    assert found["routed_rank"] == pytest.approx(routed * 12 / 94 / 32)
    inside = moe(ep=16)
    assert inside["expert_tp"] == 2
    assert inside["routed_rank"] == pytest.approx(routed * 12 / 94 / 32)
    with pytest.raises(PlanError, match="a divisor of tp x cp x dp, 32"):
        moe(ep=64)


def test_sequence_parallelism_divides_what_experts_receive() -> None:
    whole = moe(ep=8, sequence_parallel=False)["expert_bytes"]
    assert moe(ep=8)["expert_bytes"] == whole / 2


def test_a_token_goes_once_to_a_node() -> None:
    """Across nodes, a token's bytes go once to each node that has experts for
    it; within a node NVLink takes them all."""
    near = moe(ep=4, tp=2)
    assert near["expert_nodes"] == 1
    bandwidth = HARDWARE["h100"]["node_bandwidth"]
    assert near["expert_seconds"] == near["expert_bytes"] / bandwidth
    far = moe(ep=32)
    assert far["expert_nodes"] == 4
    remote = 3 * (1 - (3 / 4) ** 8)  # of three other nodes, for 8 experts
    sent = far["expert_bytes"] * 32 / 31 / 8 * remote
    card = HARDWARE["h100"]["network_bandwidth"]
    assert far["expert_seconds"] == pytest.approx(sent / card)


# Gradients and schedules


def test_a_pipeline_reduces_gradients_once_unless_asked() -> None:
    given = {"pp": 4, "zero_stage": 2, "global_batch": 16}
    once, each = run(**given), run(**given, reduce_each=True)
    assert (once["reductions"], each["reductions"]) == (1, 8)
    assert once["data_bytes"] < each["data_bytes"]
    assert once["gradients_bytes"] == 2 * each["gradients_bytes"]
    assert run(zero_stage=2)["reductions"] == 8


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_bubble_is_what_the_clock_plays(name: str) -> None:
    for ranks, batches in ((2, 8), (4, 8), (8, 32)):
        parts = 2 if name == "interleaved" else 1
        given = {"stages": ranks, "microbatches": batches}
        given |= {"schedule": name, "virtual_stages": parts}
        try:
            found = pipeline(given)
        except PlanError:
            continue
        schedule = Schedule(name, ranks, batches, parts)
        played = Played(schedule)
        overhead = played.overhead()
        if name == "zb-h2":  # only the barrier at the step's end costs
            overhead = played.staggered()
        assert found["bubble_overhead"].value == pytest.approx(overhead)
        held = found["in_flight_microbatches"].value
        assert held == pytest.approx(schedule.held()[0])
