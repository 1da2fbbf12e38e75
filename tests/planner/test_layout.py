"""One layout, against sums by hand; and the search, against its own rules."""

import json
from typing import Any

import pytest

from lockstep.cli import main
from lockstep.planner.constants import VALUES
from lockstep.planner.figures import PlanError, plain
from lockstep.planner.hardware import HARDWARE
from lockstep.planner.layout import layout
from lockstep.planner.models import params, shape
from lockstep.planner.presets import preset
from lockstep.planner.search import candidates, command, search

LLAMA = shape(preset("llama3-8b"))
SIZE, TABLES = 8030261248, 1050673152
RUN: dict[str, Any] = LLAMA | HARDWARE["h100"]
RUN |= {"gpus": 64, "sequence": 8192, "global_batch": 128}
RUN |= {"efficiency": 0.6, "overlap": 0.8}
NVLINK, CARD = RUN["node_bandwidth"], RUN["network_bandwidth"]


def laid(**given: Any) -> dict[str, Any]:
    return {name: plain(one) for name, one in layout(RUN | given).items()}


@pytest.mark.parametrize("stage", range(4))
def test_without_other_splits_state_is_zeros(stage: int) -> None:
    found = laid(zero_stage=stage)
    for name, each, first in (
        ("parameters", 2, 3),
        ("gradients", 2, 2),
        ("optimizer", 12, 1),
    ):
        ways = 64 if stage >= first else 1
        assert found[f"{name}_bytes"] == pytest.approx(each * SIZE / ways)


def test_the_fullest_stage_has_one_of_two_tables_and_most_layers() -> None:
    found = laid(tp=2, pp=5, gpus=80, global_batch=128)
    rest = (SIZE - TABLES) / 32 * 7 / 2  # of 32 layers on 5 stages
    assert found["parameters_bytes"] == pytest.approx(
        2 * (rest + TABLES / 2 / 2)
    )
    assert found["logits_bytes"] == 0


def test_stage_three_holds_gathered_layers_and_gradients_that_leave() -> None:
    """Beside state and activations: two gathered layers, or the output layer if
    that is larger; and the logits, or in the backward pass a layer's gradient
    and, in the format of reduction, the one before it."""
    layer = (SIZE - TABLES) / 32
    for tokens, bytes_gradient in ((8192, 2), (128, 2), (128, 4)):
        given = {"sequence": tokens, "bytes_gradient": bytes_gradient}
        found = laid(zero_stage=3, **given)
        gathered = 2 * max(2 * layer, TABLES / 2)
        assert found["buffers_bytes"] == pytest.approx(gathered)
        reducing = (2 + bytes_gradient) * layer
        assert found["reducing_bytes"] == pytest.approx(reducing)
        kinds = "parameters", "gradients", "optimizer", "activations"
        rest = sum(found[f"{kind}_bytes"] for kind in kinds)
        turns = max(tokens * 128256 * 6, reducing)
        passing = found["activations_bytes"] + gathered + turns
        assert found["transient_bytes"] == pytest.approx(passing)
        system = VALUES["context_memory"] + VALUES["group_memory"]
        system += VALUES["fragmented"] * passing
        assert found["system_bytes"] == pytest.approx(system)
        assert found["total_bytes"] == pytest.approx(
            rest + gathered + turns + system
        )
    assert laid(zero_stage=2)["reducing_bytes"] == 0


def test_experts_are_split_among_data_parallel_ranks() -> None:
    mixtral = shape(preset("mixtral-8x7b"))
    expert = 3 * 4096 * 14336
    routed = 32 * 8 * expert
    total = params(mixtral)["total"].value
    found = laid(**mixtral, ep=8, zero_stage=1)
    assert found["parameters_bytes"] == pytest.approx(
        2 * (total - routed + routed / 8)
    )
    assert found["optimizer_bytes"] == pytest.approx(12 * total / 64)


def test_activations_are_those_of_every_layer_in_flight() -> None:
    token = 2 * (4 * 4096 + (2 * 32 + 2 * 8) * 128 + 3 * 14336) + 4 * 32
    one = laid(zero_stage=3)
    assert one["activations_bytes"] == 32 * 8192 * token
    assert one["logits_bytes"] == 8192 * 128256 * 6
    eager = laid(zero_stage=3, kernels="torch")
    plain_token = token + 2 * 14336  # silu's output, next to gate and product
    assert eager["activations_bytes"] == 32 * 8192 * plain_token
    assert eager["logits_bytes"] == 8192 * 128256 * 12
    full = laid(zero_stage=3, recompute="full")
    assert full["activations_bytes"] == 8192 * (32 * 2 * 4096 + token)
    piped = laid(pp=4, micro_batch=1, loss="chunked")
    assert piped["in_flight_microbatches"] == 4
    assert piped["activations_bytes"] == 8 * 4 * 8192 * token
    split = laid(tp=8, sequence_parallel=1)
    assert split["activations_bytes"] == 32 * 8192 * token / 8
    # Of the eight that tensor parallelism sends, two come once more.
    assert split["regathered_bytes"] * 4 == split["tensor_bytes"]
    assert laid(tp=8)["regathered_bytes"] == 0


def test_the_step_is_the_sum_of_its_parts() -> None:
    found = laid(tp=2, pp=4, zero_stage=1, recompute="full")
    tokens = 128 * 8192
    flops = 6 * SIZE + 12 * 32 * 4096 * 8192
    compute = tokens * flops * 4 / 3 / (64 * 989e12 * 0.6)
    assert found["compute_seconds"] == pytest.approx(compute)
    wire = found["tensor_bytes"] / NVLINK + found["pipeline_bytes"] / CARD
    assert found["layer_seconds"] == pytest.approx(wire)
    assert found["bubble_seconds"] == pytest.approx((compute + wire) * 3 / 16)
    late = found["exposed_seconds"]
    assert late == pytest.approx(
        wire + max(0, found["data_seconds"] - 0.8 * found["cover_seconds"])
    )
    assert found["optimizer_seconds"] == 0
    state = found["optimizer_bytes"] / 12 * (2 * 12 + 2 + 2) / 3350e9
    modeled = laid(tp=2, pp=4, zero_stage=1, recompute="full", efficiency=0)
    assert modeled["optimizer_seconds"] == pytest.approx(state)
    step = compute + (compute + wire) * 3 / 16 + late
    assert found["step_seconds"] == pytest.approx(step)
    assert found["tokens_per_second"] == pytest.approx(tokens / step)
    mfu = tokens * flops / step / (64 * 989e12)
    assert found["mfu"] == pytest.approx(mfu)


def left(found: dict[str, Any]) -> float:
    """What data parallelism's communication adds to the step."""
    return float(found["exposed_seconds"] - found["layer_seconds"])


def test_what_cannot_hide_is_exposed() -> None:
    slow = laid(network_bandwidth=1e9, gpus_per_node=1, zero_stage=3)
    late = slow["data_bytes"] / 1e9 - 0.8 * slow["compute_seconds"]
    assert left(slow) == pytest.approx(late)
    ring = laid(cp=16, network_bandwidth=1e9, overlap=0.5, zero_stage=3)
    data = ring["data_bytes"] / 8e9 - 0.5 * ring["compute_seconds"]
    keys = ring["context_bytes"] / 1e9 - 0.5 * ring["attention_seconds"]
    assert left(ring) == pytest.approx(max(0, data) + max(0, keys))
    # Attention waits for an all-to-all.
    whole = laid(cp=16, network_bandwidth=5e9, context="ulysses")
    late = whole["data_seconds"] - 0.8 * whole["cover_seconds"]
    together = max(0, late) + whole["context_bytes"] / 5e9
    assert left(whole) == pytest.approx(together)


@pytest.mark.parametrize(("stage", "passes"), [(0, 2), (1, 3), (2, 9), (3, 12)])
def test_gradients_hide_where_they_are_sent(stage: int, passes: int) -> None:
    """Of four micro-batches, in thirds of one: its forward pass, and twice
    that backward."""
    slow = laid(zero_stage=stage, global_batch=256, network_bandwidth=1e8)
    cover = slow["compute_seconds"] * passes / 12
    late = slow["data_seconds"] - 0.8 * cover
    assert left(slow) == pytest.approx(late)
    again = laid(zero_stage=0, recompute="full", network_bandwidth=1e8)
    assert again["backward_share"] == pytest.approx(3 / 4)


def test_a_group_within_a_node_has_the_nodes_bandwidth() -> None:
    found = laid(tp=4, cp=2)
    assert found["tensor_bandwidth"] == found["context_bandwidth"] == NVLINK
    assert laid(cp=16)["context_bandwidth"] == CARD
    assert laid(pp=2)["pipeline_bandwidth"] == CARD


def test_a_ring_leaves_a_node_by_the_cards_of_its_members() -> None:
    assert laid()["data_bandwidth"] == 8 * CARD
    assert laid(tp=4, cp=2)["data_bandwidth"] == 2 * CARD
    assert laid(tp=8)["data_bandwidth"] == CARD
    assert laid(tp=16, kv_heads=16)["tensor_bandwidth"] == 8 * CARD
    assert laid(network_bandwidth=100e9)["data_bandwidth"] == NVLINK


def test_hybrid_sharding_gathers_within_the_node() -> None:
    found = laid(zero_stage=3, shard=8)
    assert found["parameters_bytes"] == 2 * SIZE / 8
    replicas = 2 * 7 / 8 * SIZE / 8 * 2  # a ring of 8 over gradients of 2 bytes
    gathered = 7 / 8 * SIZE * (2 * 2 * 2 + 2 * 2)  # of both micro-batches
    assert found["data_bytes"] == pytest.approx(gathered + replicas)
    assert found["data_seconds"] == pytest.approx(
        gathered / NVLINK + replicas / CARD
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tp": 3}, "--gpus is 64; it must be a multiple of tp x cp x pp, 3"),
        ({"dp": 32}, "--dp is 32; it must be 64, what tp x cp x pp leaves"),
        ({"global_batch": 100}, "a multiple of dp x micro-batch, 64"),
        ({"ep": 2}, "--ep needs a model with experts"),
        ({"ep": 128}, "--ep is 128; it must be a divisor of --dp, 64"),
        ({"efficiency": 1.5}, "--efficiency is 1.5; it must be above 0"),
        ({"peak_flops": 0}, "--peak-flops is 0; it must be above 0"),
        ({"recompute": "some"}, "it must be one of none, selective, full"),
        ({"tp": 16, "kv_heads": 6, "heads": 48}, "or a multiple of --kv-heads"),
        ({"sequence_parallel": 1}, "it needs --tp of 2 or more"),
        ({"loss": "lazy"}, "--loss is lazy; it must be one of chunked, eager"),
    ],
)
def test_a_layout_that_cannot_be_is_named(
    given: dict[str, Any], says: str
) -> None:
    with pytest.raises(PlanError, match=says):
        laid(**given)


# The search


@pytest.fixture(scope="module")
def searched() -> tuple[list[Any], list[Any]]:
    return search(RUN | {"gpus": 16, "global_batch": 32})


def test_every_layout_fits_or_has_a_reason(
    searched: tuple[list[Any], list[Any]],
) -> None:
    fit, refused = searched
    asked = candidates(RUN | {"gpus": 16})
    assert len(fit) + len(refused) == len(asked)
    assert all(found["total_bytes"].value <= 80e9 for _, found in fit)
    assert all(why for _, why in refused)
    assert any("it needs" in why for _, why in refused)
    assert any("a multiple of dp x micro-batch" in why for _, why in refused)


def test_the_fastest_comes_first(
    searched: tuple[list[Any], list[Any]],
) -> None:
    steps = [found["step_seconds"].value for _, found in searched[0]]
    assert steps == sorted(steps)
    choice, found = searched[0][0]
    alone = layout(RUN | {"gpus": 16, "global_batch": 32} | choice)
    assert alone["step_seconds"].value == found["step_seconds"].value


def test_a_layout_is_launched_as_megatron_takes_it() -> None:
    given = {"tp": 2, "pp": 4, "zero_stage": 1, "recompute": "full"}
    said = command(layout(RUN | given | {"sequence_parallel": 1})).split()
    assert said[:4] == [
        *("torchrun", "--nnodes=8", "--nproc-per-node=8", "pretrain_gpt.py")
    ]
    assert {
        *("--tensor-model-parallel-size=2", "--context-parallel-size=1"),
        *("--pipeline-model-parallel-size=4", "--global-batch-size=128"),
        *("--sequence-parallel", "--recompute-granularity=full"),
        "--use-distributed-optimizer",
    } <= {*said}
    sharded = command(layout(RUN | {"zero_stage": 3}))
    assert sharded.endswith("sharding-strategy=optim_grads_params")
    assert "recompute" not in sharded


SMALL = "--preset=llama3-8b", "--gpus=16", "--sequence=8192"


def test_the_command_lists_the_best(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = "plan", "search", *SMALL, "--global-batch=64"
    assert main([*asked, "--best=3", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 3
    assert rows[0]["step_seconds"] <= rows[1]["step_seconds"]
    assert main([*asked, "--best=3", "--why-not", "--explain"]) == 0
    said = capsys.readouterr().out
    assert "layouts fit, " in said
    assert "zero_stage=0 recompute=none micro_batch=1: it needs" in said
    assert "step_seconds\n  = compute_seconds + bubble_seconds" in said
    assert "pretrain_gpt.py \\\n  --tensor-model-parallel-size=1" in said
    assert main([*asked, "--memory=1e9"]) == 2
    assert "no layout fits" in capsys.readouterr().err


def test_the_command_shows_one_layout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = "plan", "run", *SMALL, "--global-batch=64", "--zero-stage=3"
    assert main([*asked, "--tp=2", "--dp=8", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["dp"] == 8
    assert said["microbatches"] == 8
    assert said["parameters_bytes"] == pytest.approx(2 * SIZE / 16)
    assert main([*asked, "--dp=4"]) == 2
    assert "--dp is 4; it must be 16" in capsys.readouterr().err
    assert main([*asked, "--hardware=h1"]) == 2
    assert "must be one of a100, a100-40gb, b200" in capsys.readouterr().err
