"""One layout, against sums by hand; and the search, against its own rules."""

import json
from typing import Any

import pytest

from lockstep.cli import main
from lockstep.planner import search as searching
from lockstep.planner.constants import VALUES, WIDTHS
from lockstep.planner.figures import PlanError, plain
from lockstep.planner.flops import RECOMPUTE
from lockstep.planner.hardware import HARDWARE
from lockstep.planner.layout import layout
from lockstep.planner.models import params, shape
from lockstep.planner.presets import preset
from lockstep.planner.questions import QUESTIONS, cluster_of, complete
from lockstep.planner.search import (
    command,
    costs,
    decides,
    front,
    numbers,
    search,
    splits,
)

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


def test_the_fullest_moment_has_gradients_or_activations() -> None:
    """With one micro-batch under FSDP2, the loss finds all activations and no
    gradients, and the end of the backward pass finds all gradients and one
    block's activations. The fullest rank holds what the larger sum says, for
    long sequences and for short ones."""
    for sequence, late in ((8192, False), (128, True)):
        given = {"sequence": sequence, "kernels": "torch", "zero_stage": 3}
        found = laid(gpus=8, global_batch=8, **given)
        always = "parameters", "optimizer", "buffers", "system"
        held = sum(found[f"{kind}_bytes"] for kind in always)
        turns = max(found["logits_bytes"], found["reducing_bytes"])
        loss = found["activations_bytes"] + turns
        end = found["gradients_bytes"] + found["block_bytes"]
        end += found["reducing_bytes"]
        assert (end > loss) == late
        assert found["total_bytes"] == pytest.approx(held + max(loss, end))


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
    if stage == 2:  # In a pipeline it reduces once, as ZeRO-1 does.
        piped = {"pp": 4, "network_bandwidth": 1e8}
        one, two = (laid(zero_stage=n, **piped) for n in (1, 2))
        assert two["step_seconds"] == one["step_seconds"]
        assert two["total_bytes"] == one["total_bytes"]
    again = laid(zero_stage=0, recompute="full", network_bandwidth=1e8)
    assert again["backward_share"] == pytest.approx(3 / 4)


def test_the_whiteboard_hides_a_quarter_less_than_the_chapters() -> None:
    """The chapter on data parallelism hides fp32 gradients behind the whole
    backward pass from 2 F / B tokens on. The whiteboard hides them behind 80 %
    of it, so from 2.5 F / B tokens on."""
    bound = 2 * 0.6 * RUN["peak_flops"] / (8 * CARD)
    given = {"bytes_gradient": 4, "global_batch": 64, "count_attention": 0}
    for factor, hides in ((0.97, False), (1.03, True)):
        sequence = round(factor * bound / 0.8)
        found = laid(sequence=sequence, **given)
        assert (left(found) == 0) == hides


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
        ({"recompute": "moe"}, "--recompute moe needs a model with experts"),
        ({"recompute_layers": 33}, "--recompute-layers is 33; it must be at"),
        ({"offload": "disk"}, "--offload is disk; it must be one of"),
        ({"loss": "lazy"}, "--loss is lazy; it must be one of chunked, eager"),
    ],
)
def test_a_layout_that_cannot_be_is_named(
    given: dict[str, Any], says: str
) -> None:
    with pytest.raises(PlanError, match=says):
        laid(**given)


# What a run may do besides


def test_lora_holds_and_computes_less() -> None:
    """Frozen weights have neither gradients nor optimizer state, and their
    backward pass is one product of three; adapters have all of it."""
    whole, found = laid(zero_stage=3), laid(zero_stage=3, lora_rank=16)
    attention = 4 * 4096 + 2 * (32 + 8) * 128
    adapters = 16 * 32 * (attention + 3 * (4096 + 14336))
    assert found["adapters"] == adapters
    assert found["parameters_bytes"] == pytest.approx(
        2 * (SIZE + adapters) / 64
    )
    assert found["gradients_bytes"] == pytest.approx(2 * adapters / 64)
    assert found["optimizer_bytes"] == pytest.approx(12 * adapters / 64)
    share = adapters / SIZE
    gathers, scatters = 2 * 2 * 2, 2 * 2 * share
    ring = 63 / 64 * SIZE * (gathers + scatters)
    assert found["data_bytes"] == pytest.approx(ring)
    modeled, full = (
        laid(zero_stage=3, efficiency=0, **given)
        for given in ({"lora_rank": 16}, {})
    )
    assert modeled["matmul_seconds"] == pytest.approx(
        full["matmul_seconds"] * 2 / 3
    )
    assert found["matmul_flops"] == pytest.approx(4 * SIZE + 6 * adapters)
    again = laid(zero_stage=3, lora_rank=16, recompute="full")
    forward = again["matmul_flops"] / 2 + again["attention_flops"] / 3
    assert again["recomputed_flops"] == pytest.approx(forward)
    assert whole["matmul_flops"] == 6 * SIZE


def test_frozen_weights_may_take_four_bits() -> None:
    """A QLoRA's weights take half a byte, and ZeRO-3 sends them so."""
    sixteen = laid(zero_stage=3, lora_rank=16)
    four = laid(zero_stage=3, lora_rank=16, bytes_frozen=0.5)
    assert four["frozen_bytes"] == sixteen["frozen_bytes"] / 4
    assert four["data_bytes"] < 0.3 * sixteen["data_bytes"]
    assert four["buffers_bytes"] == sixteen["buffers_bytes"] / 4


def test_some_layers_recompute() -> None:
    """A quarter of the layers keeps and recomputes a quarter of what full
    recomputation changes."""
    none, full, some = (
        laid(tp=2, recompute=kind, recompute_layers=layers)
        for kind, layers in (("none", 0), ("full", 0), ("full", 8))
    )
    for name in ("kept_per_layer", "tensor_bytes", "recomputed_flops"):
        mixed = (3 * none[name] + full[name]) / 4
        assert some[name] == pytest.approx(mixed)


def test_moe_layers_recompute_alone() -> None:
    """Attention's tensors stay; the experts' products and all-to-alls run
    again."""
    given = shape(preset("mixtral-8x7b")) | {"ep": 8, "efficiency": 0}
    none, moe = (laid(**given, recompute=one) for one in ("none", "moe"))
    attention = (4096 * (2 * 32 + 2 * 8) // 32 * 2 + 4 * 32) * 8192
    assert moe["kept_per_layer"] == 4 * 4096 * 8192 + attention
    assert moe["expert_bytes"] == 1.5 * none["expert_bytes"]
    assert moe["tensor_bytes"] == none["tensor_bytes"]
    assert none["matmul_seconds"] < moe["matmul_seconds"]
    assert moe["matmul_seconds"] < 4 / 3 * none["matmul_seconds"]
    assert moe["recomputed_flops"] == 2 * 32 * 2 * 3 * 4096 * 14336


def test_latent_attention_keeps_its_latent_vectors() -> None:
    """Selective recomputation computes DeepSeek-V3's queries, keys and values
    again from what its up-projections take, and the launch says so."""
    given = shape(preset("deepseek-v3")) | {"zero_stage": 1}
    found = laid(**given, recompute="selective")
    latent = 1536 + 512 + 64
    experts = 2 * 2 * 9 * 2048
    token = 2 * (2 * 7168 + latent + 128 * 128) + experts + 4 * 128
    assert found["kept_per_layer"] == 8192 * token
    assert "moe_act mla_up_proj" in command(found)
    assert "mla_up_proj" not in command(laid(recompute="selective"))


def test_activations_may_wait_on_the_host() -> None:
    """Offloaded layers have activations on the GPU one at a time."""
    here, away = laid(), laid(offload_layers=32)
    half = laid(offload_layers=16)
    assert away["activations_bytes"] == here["block_bytes"]
    assert half["kept_per_layer"] == here["kept_per_layer"] / 2


def test_state_may_live_on_the_host() -> None:
    """The GPU then holds none of it, and the planner, without a published run,
    gives no time."""
    found = laid(offload="optimizer", zero_stage=2, efficiency=0)
    assert found["optimizer_bytes"] == 0
    assert found["gradients_bytes"] > 0
    assert "step_seconds" not in found
    found = laid(offload="state", zero_stage=3)
    kinds = "parameters", "gradients", "optimizer"
    assert sum(found[f"{kind}_bytes"] for kind in kinds) == 0


def test_gathered_weights_may_stay() -> None:
    """Without resharding, FSDP gathers once a micro-batch, or once a step in a
    pipeline, and a rank holds its part of the model whole."""
    again, stay = laid(zero_stage=3), laid(zero_stage=3, keep_gathered=True)
    assert (again["gathers"], stay["gathers"]) == (4, 2)
    assert stay["buffers_bytes"] == 2 * SIZE
    piped = laid(zero_stage=3, keep_gathered=True, pp=4)
    assert piped["gathers"] == 1


def test_what_is_sent_may_have_a_format_of_its_own() -> None:
    """Weights in 32 bits, gathered in 16, and gradients summed in 16."""
    held = {"bytes_parameter": 4, "bytes_gradient": 4, "zero_stage": 3}
    found = laid(**held, bytes_gathered=2, bytes_reduced=2)
    small = laid(zero_stage=3)
    for name in ("data_bytes", "buffers_bytes", "reducing_bytes"):
        assert found[name] == pytest.approx(small[name])
    assert found["parameters_bytes"] == 2 * small["parameters_bytes"]


def test_a_tpu_gathers_one_weight_at_a_time() -> None:
    """Elsewhere ZeRO-3 gathers a layer."""
    found = laid(zero_stage=3, hardware="tpu-v6e", peak_flops=918e12)
    assert found["unit_rank"] == 4096 * 14336
    assert laid(zero_stage=3)["unit_rank"] == (SIZE - TABLES) / 32


# The search


@pytest.fixture(scope="module")
def searched() -> tuple[list[Any], list[Any]]:
    return search(RUN | {"gpus": 16, "global_batch": 32})


def test_every_layout_fits_or_has_a_reason(
    searched: tuple[list[Any], list[Any]],
) -> None:
    fit, refused = searched
    asked = [choice for choice, _ in fit + refused]
    assert len(asked) == 9 * len(splits(RUN | {"gpus": 16}, narrow=False))
    assert {choice["recompute"] for choice in asked} == {*RECOMPUTE}
    most = 80e9 / WIDTHS["memory"][0]
    assert all(found["total_bytes"].value <= most for _, found in fit)
    assert all(why for _, why in refused)
    assert any(", up to " in why for _, why in refused)
    assert any("a multiple of dp x micro-batch" in why for _, why in refused)


@pytest.mark.parametrize("kernels", ["fused", "torch"])
def test_a_layout_that_was_not_computed_would_not_fit(kernels: str) -> None:
    """What a smaller layout's memory decides, the layout's own memory
    decides too."""
    given = RUN | {"gpus": 16, "global_batch": 32, "memory": 30e9}
    given |= {"kernels": kernels}
    most = given["memory"] / WIDTHS["memory"][0]
    skipped = [
        choice for choice, why in search(given)[1] if why.startswith("with ")
    ]
    computed = 0
    for choice in skipped:
        parallel = int(choice["tp"] > 1)
        try:
            found = layout(given | choice | {"sequence_parallel": parallel})
        except PlanError:  # refused for one more reason
            continue
        assert found["total_bytes"].value > most, choice
        computed += 1
    assert computed > 100


@pytest.mark.parametrize(
    ("name", "gpus", "batch"),
    [("llama3-8b", 8, 64), ("llama3-70b", 64, 128), ("llama3-70b", 512, 1024)],
)
def test_a_narrow_search_finds_the_fastest(
    name: str, gpus: int, batch: int
) -> None:
    given = {"preset": name, "gpus": gpus, "sequence": 8192}
    given = cluster_of(
        complete(
            "search",
            QUESTIONS["search"].inputs,
            given | {"global_batch": batch},
        )
    )
    fit, refused = search(given)
    narrow, fewer = search(given, narrow=True)
    assert narrow[0][0] == fit[0][0]
    assert len(narrow) + len(fewer) < 0.7 * (len(fit) + len(refused))


def test_a_split_that_cannot_be_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search of 512 GPUs in the browser computes at most 500 layouts of a
    dense model and 3,500 with experts, and asks once for a split that the
    planner refuses at any micro-batch."""
    asked: list[Any] = []

    def counted(given: dict[str, Any]) -> dict[str, Any]:
        asked.append(given)
        return layout(given)

    monkeypatch.setattr(searching, "layout", counted)
    for name, most in (("llama3-70b", 500), ("qwen3-235b-a22b", 3500)):
        given = {"preset": name, "gpus": 512, "sequence": 8192}
        given |= {"global_batch": 1024}
        inputs = QUESTIONS["search"].inputs
        cluster = cluster_of(complete("search", inputs, given))
        asked.clear()
        search(cluster, narrow=True, keep=numbers)
        assert len(asked) <= most
    splits_asked = [
        tuple(one[key] for key in ("tp", "cp", "pp", "ep", "zero_stage"))
        for one in asked
        if one["gpus"] // (one["tp"] * one["cp"] * one["pp"]) % one["ep"]
        and one["tp"] == 1
    ]
    assert len(splits_asked) == len({*splits_asked}) > 10


def test_layouts_that_may_fit_are_added_if_asked(
    searched: tuple[list[Any], list[Any]],
) -> None:
    """The lower end of their memory's interval fits; the whiteboard has no
    interval, and neither selective recomputation."""
    given = RUN | {"gpus": 16, "global_batch": 32}
    more, refused = search(given, may_fit=True)
    sizes = [found["total_bytes"].value for _, found in more]
    assert 80e9 < max(sizes) <= 80e9 * WIDTHS["memory"][0]
    assert len(more) > len(searched[0])
    assert any(", at least " in why for _, why in refused)
    board = given | {"whiteboard": True}
    exact, refused = search(board)
    sizes = [found["total_bytes"].value for _, found in exact]
    assert 80e9 / WIDTHS["memory"][0] < max(sizes) <= 80e9
    assert {choice["recompute"] for choice, _ in exact + refused} == {
        *("none", "full")
    }


def test_the_front_has_what_nothing_beats_in_time_and_memory(
    searched: tuple[list[Any], list[Any]],
) -> None:
    """A layout is on the Pareto front unless another one is at least as fast
    and as small, and better in one of the two."""
    every = [costs(one) for one in searched[0]]
    kept = {costs(one) for one in front(searched[0])}
    for time, size in every:
        beaten = any(
            other[0] <= time and other[1] <= size and other != (time, size)
            for other in every
        )
        assert beaten != ((time, size) in kept)


def test_the_part_of_the_step_that_decides_is_named(
    searched: tuple[list[Any], list[Any]],
) -> None:
    """More computing decides against full recomputation, and the bubble against
    a deep pipeline."""
    best = searched[0][0][1]
    assert decides(best, best) == ""
    again = layout(RUN | {"gpus": 16, "global_batch": 32, "recompute": "full"})
    assert decides(again, best).endswith(" of computing")
    piped = next(one for choice, one in searched[0] if choice["pp"] == 8)
    assert decides(piped, best).endswith(" of bubble")


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
    some = command(layout(RUN | {"zero_stage": 3, "recompute": "selective"}))
    assert "--recompute-granularity=selective" in some


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
    assert main([*asked, "--best=9", "--front", "--may-fit"]) == 0
    said_front = capsys.readouterr().out
    assert "layouts may fit, " in said_front
    assert " is slower by " in said_front
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
