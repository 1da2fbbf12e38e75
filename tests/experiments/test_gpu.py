"""What measures a GPU computes what it says, on a CPU and small sizes."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lockstep.experiments.gpu import clock, determinism, kernels, steps, tables
from lockstep.experiments.gpu.__main__ import RESULT, trained
from lockstep.experiments.gpu.decoder import (
    Block,
    Decoder,
    angles,
    rotated,
)
from lockstep.experiments.gpu.settings import FSDP2, Shape
from lockstep.planner.questions import ask

TINY = Shape(layers=2, hidden=64, heads=4, kv_heads=2, ffn=128, vocab=256)


def test_the_decoder_has_the_parameters_of_the_model_card() -> None:
    """Llama 3.2 1B: 1.24 billion, as the planner counts them."""
    with torch.device("meta"):
        model = Decoder(Shape())
    found = sum(p.numel() for p in model.parameters())
    assert found == 1_235_814_400
    assert found == ask("params", Shape().planned())["total"].value


def test_the_decoder_sees_no_later_token() -> None:
    torch.manual_seed(0)
    block, x = Block(TINY), torch.randn(1, 8, 64)
    other = x.clone()
    other[:, 5:] += 1
    turn = angles(8, 16, x)
    first, second = block(x, turn), block(other, turn)
    assert torch.allclose(first[:, :5], second[:, :5])
    assert not torch.allclose(first[:, 5:], second[:, 5:])


def test_positions_count_by_their_distance() -> None:
    """Rotated queries and keys have the product of their distance alone."""
    x = torch.randn(1, 16)
    cos, sin = angles(9, 16, x)
    q = rotated(x.expand(9, -1), (cos, sin))
    assert torch.allclose(q[1] @ q[4], q[5] @ q[8], atol=1e-4)


def test_recomputation_changes_no_gradient() -> None:
    found = []
    for recompute in ("none", "selective", "full"):
        model = steps.made(TINY, recompute)
        torch.manual_seed(1)
        model(torch.randint(256, (2, 16))).backward()
        found.append([p.grad for p in model.parameters()])
    for one, *others in zip(*found, strict=True):
        assert all(torch.equal(one, other) for other in others)


def local(model: nn.Module) -> list[Tensor]:
    """Copies of this rank's shards."""
    shards = (p.detach().to_local() for p in model.parameters())
    return [shard.clone() for shard in shards]


def test_a_step_under_fsdp2_moves_fp32_weights() -> None:
    with steps.alone():
        model = steps.made(TINY, precision=FSDP2)
        step = steps.Step(model, torch.randint(256, (2, 16)), FSDP2)
        before = local(model)
        step()
        after = local(model)
    for one, other in zip(before, after, strict=True):
        assert other.dtype == torch.float32
        assert not torch.equal(one, other)


def test_fewer_bits_make_larger_errors() -> None:
    errors = {row["format"]: row["error"] for row in kernels.formats(128)}
    order = ["fp32", "fp16", "bf16", "fp8"]
    assert sorted(order, key=errors.get) == order


def test_attention_says_which_kernel_refuses_a_bias() -> None:
    """The flash kernel takes no bias, so it says so and is left out."""
    found = {row["backend"]: row for row in kernels.biased(16, 2, 8, 4)}
    assert found["math"]["learns"]
    assert "refused" in found["flash"]


def test_the_clock_waits_for_what_it_times() -> None:
    calls = []
    assert clock.seconds(lambda: calls.append(1), 5, 2) >= 0
    assert len(calls) == 7


@pytest.mark.slow  # it trains three times
def test_the_stopped_trainer_ends_with_the_same_weights(
    tmp_path: Path, warm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(warm / "python"))
    whole = trained(f"{tmp_path}/whole", "bf16")
    trained(f"{tmp_path}/stopped", "bf16", "--stop-at-step", "25")
    assert trained(f"{tmp_path}/stopped", "bf16") == whole


def test_bits_that_move_are_counted() -> None:
    turns = iter(range(100))
    odd = determinism.alike(lambda: torch.tensor(next(turns) % 2), 10)
    assert odd == 0.5


# --- What was recorded: the sentences of the page on one GPU ---

FOUND = json.loads(RESULT.read_text())


def test_the_tables_are_those_of_the_result() -> None:
    assert RESULT.with_suffix(".md").read_text() == tables.tables(FOUND)


def test_recorded_peaks_are_near_the_planners_total() -> None:
    """Steps of one to eight sequences, with and without full recomputation,
    peaked on an H200 within 4 % of what the planner adds up for one GPU with an
    eager loss, which has no gradients at the loss."""
    compared = 0
    for row in FOUND["steps"]:
        same = row["precision"] == tables.FSDP2 and not row["compiled"]
        if same and row["recompute"] != "selective":
            plan = tables.planned(row["batch"], row["recompute"])
            assert plan["total_bytes"] == pytest.approx(row["peak"], rel=0.04)
            compared += 1
    assert compared == 8


def test_recorded_a_block_keeps_what_is_planned() -> None:
    """On an H200, what the backward pass keeps of a block of Llama 3.2 1B is
    the planner's figure to 1 part in 10,000, and with full recomputation to
    the byte."""
    found = {row["recompute"]: row["bytes_per_block"] for row in FOUND["kept"]}
    for recompute, error in (("none", 1e-4), ("full", 0)):
        plan = tables.planned(2, recompute)["kept_per_layer"]
        assert abs(found[recompute] - plan) <= error * plan


def test_recorded_a_steps_peak_is_at_the_loss() -> None:
    """On an H200, a step's peak is weights and moments without gradients,
    what blocks keep, 12 bytes a logit and the gathered output layer: within
    1 % in each of ten steps, with full and selective recomputation and
    without."""
    seen = 0
    for row in FOUND["steps"]:
        if row["precision"] != FSDP2 or row["compiled"]:
            continue
        counted = tables.at_the_loss(FOUND, row)
        assert row["peak"] == pytest.approx(counted, rel=0.01)
        seen += 1
    assert seen == 10


def test_recorded_few_rows_take_the_time_of_reading_the_weight() -> None:
    """On an H200, 64 rows through a weight of 8,192 × 8,192 take 1.1 times as
    long as one row, and 4,096 take eighteen to twenty times as long."""
    took = {row["rows"]: row["seconds"] for row in FOUND["rows"]}
    assert took[64] / took[1] < 1.1
    assert 18 < took[4096] / took[1] < 20


def test_recorded_small_products_are_slow() -> None:
    """On an H200, bf16 products of matrices of 256, 512 and 1,024 take the
    same 17 to 18 µs; of 1,024 they reach 13 % of the peak, of 2,048 70 %, and
    of 4,096 and more 79 %."""
    for r in FOUND["sizes"][:3]:
        assert 17 <= 2e6 * r["n"] ** 3 / r["flops_per_second"] <= 18.5
    of = {r["n"]: r["flops_per_second"] / tables.PEAK for r in FOUND["sizes"]}
    shares = [round(100 * of[n]) for n in (1024, 2048, 4096, 8192)]
    assert shares == [13, 70, 79, 79]


def test_recorded_half_the_bits_is_twice_the_speed() -> None:
    """On an H200, a product of 8,192 × 8,192 matrices in bf16 is 2.1 times as
    fast as in TF32 and 16 times as fast as in fp32; fp8 is 1.8 times as fast
    as bf16 and errs 13 times as much."""
    of = {row["format"]: row for row in FOUND["formats"]}

    def over(one: str, other: str) -> float:
        return float(
            of[one]["flops_per_second"] / of[other]["flops_per_second"]
        )

    assert round(over("bf16", "tf32"), 1) == 2.1
    assert round(over("bf16", "fp32")) == 16
    assert round(over("fp8", "bf16"), 1) == 1.8
    assert round(of["fp8"]["error"] / of["bf16"]["error"]) == 13


def test_recorded_a_step_reaches_half_of_the_peak() -> None:
    """On an H200, steps of a 1.24B decoder in bf16 reach an MFU of 35 % with
    one sequence of 4,096 tokens, 48 % with eight, and 51 % with four and
    compiled blocks."""
    which: list[dict[str, Any]] = [{"batch": 1}, {"batch": 8}]
    which.append({"batch": 4, "compiled": True})
    found = [tables.mfu(tables.step(FOUND, **one)) for one in which]
    assert [round(100 * each) for each in found] == [35, 48, 51]


def test_recorded_recomputation_costs_a_fifth() -> None:
    """On an H200, with eight sequences full recomputation takes 1.20 times as
    long, and keeping matmuls and attention 1.03 times; with two it is
    1.28 and 1.36, since the CPU does not keep up."""
    found = []
    for batch in (8, 2):
        plain = tables.step(FOUND, batch=batch)["seconds"]
        for how in ("full", "selective"):
            again = tables.step(FOUND, batch=batch, recompute=how)["seconds"]
            found.append(round(again / plain, 2))
    assert found == [1.20, 1.03, 1.28, 1.36]


def test_recorded_offload_is_slower_and_smaller() -> None:
    """On an H200, state on the host takes 15 GB less and half a second more:
    a step of two sequences is 4.1 times as long, of eight 1.8 times."""
    for batch, longer in ((2, 4.1), (8, 1.8)):
        plain = tables.step(FOUND, batch=batch)
        far = tables.step(FOUND, batch=batch, offload=True)
        assert round(far["seconds"] / plain["seconds"], 1) == longer
        assert round((plain["peak"] - far["peak"]) / 1e9) == 15
        assert 0.45 < far["seconds"] - plain["seconds"] < 0.55


def test_recorded_a_loss_in_pieces_takes_a_quarter() -> None:
    """On an H200, the loss over 128,256 words peaks at 12.6 GB whole, and at
    3.2 GB in eight pieces or compiled; pieces take 1.5 times as long, and the
    compiled loss 0.84 times."""
    of = {row["how"]: row for row in FOUND["loss"]}
    peaks = [round(row["peak"] / 1e9, 1) for row in of.values()]
    assert peaks == [12.6, 3.2, 3.2]
    whole = of["whole"]["seconds"]
    assert round(of["8 pieces"]["seconds"] / whole, 1) == 1.5
    assert round(of["compiled"]["seconds"] / whole, 2) == 0.84


def test_recorded_attention_without_scores() -> None:
    """On an H200, attention over 4,096 tokens takes 24 times as long and 44
    times the memory with the math kernel as with cuDNN's, which is 1.8 times
    as fast as flash there, 1.7 times over 16,384, and not over 1,024."""
    each = {
        (r["backend"], r["tokens"]): r.get("seconds")
        for r in FOUND["attention"]
    }
    ratios = [each["flash", s] / each["cudnn", s] for s in (4096, 16384, 1024)]
    assert [round(ratio, 1) for ratio in ratios] == [1.8, 1.7, 0.9]
    of = {(r["backend"], r["tokens"]): r for r in FOUND["attention"]}
    slow, fast = of["math", 4096], of["cudnn", 4096]
    assert round(slow["seconds"] / fast["seconds"]) == 24
    assert round(slow["peak"] / fast["peak"]) == 44


def test_recorded_a_bias_that_learns_has_one_fused_kernel() -> None:
    """On an H200, the flash and the cuDNN kernel refuse a bias that learns;
    the memory-efficient one takes it, in 0.32 of the math kernel's time and
    0.18 of its memory."""
    of = {row["backend"]: row for row in FOUND["biased"]}
    assert "refused" in of["flash"]
    assert "refused" in of["cudnn"]
    slow, fast = of["math"], of["efficient"]
    assert fast["learns"]
    assert round(fast["seconds"] / slow["seconds"], 2) == 0.32
    assert round(fast["peak"] / slow["peak"], 2) == 0.18


def test_recorded_a_small_step_waits_for_launches() -> None:
    """On an H200, kernels run for 12 % of an eager step of a 12-layer model
    512 wide on 512 tokens, and for 52 % of it as CUDA graphs, which make it
    7.3 times as fast; on 64 times the tokens they run for 95 %."""
    of = {row["how"]: row for row in FOUND["launches"]}
    eager, graphs = of["eager"], of["CUDA graphs"]
    assert round(100 * eager["busy_1"] / eager["seconds_1"]) in (12, 13)
    assert round(100 * graphs["busy_1"] / graphs["seconds_1"]) == 52
    assert round(eager["seconds_1"] / graphs["seconds_1"], 1) == 7.3
    assert round(100 * eager["busy_64"] / eager["seconds_64"]) == 95


def test_recorded_a_fused_update_needs_no_room() -> None:
    """On an H200, a fused AdamW updates 1.24 billion fp32 weights in 11 ms
    with no memory beyond its state; the default, operations on lists, takes
    29 ms and 4.9 GB."""
    of = {row["how"]: row for row in FOUND["updates"]}
    assert [round(of[k]["seconds"] * 1e3) for k in ("fused", "foreach")] == [
        11,
        29,
    ]
    assert of["fused"]["beyond_state"] < 1e6
    assert round(of["foreach"]["beyond_state"] / 1e9, 1) == 4.9


def test_recorded_pageable_memory_is_slow_and_waits() -> None:
    """On an H200, a copy from pinned memory is 8 times as fast as from
    pageable memory, and hides behind computing to within 1 %; from pageable
    memory, both at once take longer than one after the other."""
    of = {
        r["pinned"]: r["bytes_per_second"]
        for r in FOUND["copies"]
        if r["to"] == "GPU"
    }
    assert round(of[True] / of[False]) == 8
    hidden = FOUND["hidden_copy"]
    assert hidden["at once, pinned"] < 1.01 * hidden["computing"]
    assert hidden["at once, pageable"] > hidden["in turn"]


def test_recorded_atomic_additions_come_out_differently() -> None:
    """On an H200, index_add_, scatter_add_ and an embedding's backward pass
    gave other bits in each of 20 repeats, and attention's in nearly all;
    told to be deterministic, all of them gave the same bits each time."""
    of = {row["what"]: row for row in FOUND["twice"]}
    for name in ("index_add_", "scatter_add_", "embedding, backward"):
        assert of[name]["alike"] == 0
    assert of["attention, backward"]["alike"] < 0.1
    assert of["matrix product"]["alike"] == of["sum"]["alike"] == 1
    assert {row["told"] for row in of.values()} == {1}


def test_recorded_a_row_depends_on_the_rows_beside_it() -> None:
    """On an H200, a row's product with a weight had other bits in a batch of
    1, 2 or 16 than in one of 4,096, and the same in one of 128."""
    alike = {row["batch"]: row["alike"] for row in FOUND["batches"]}
    assert alike == {1: False, 2: False, 16: False, 128: True, 1024: True}


def test_recorded_segments_that_grow_waste_less() -> None:
    """On an H200, batches of changing length needed 14.2 GB at most, for
    which the allocator reserved 29.1 GB, and with expandable segments 14.4."""
    fixed, grown = FOUND["fragments"]
    assert round(fixed["allocated"] / 1e9, 1) == 14.2
    assert round(fixed["reserved"] / 1e9, 1) == 29.1
    assert round(grown["reserved"] / 1e9, 1) == 14.4


def test_recorded_resume_on_a_gpu_is_bitwise() -> None:
    """On an H200, the trainer stopped at step 25 of 40 and started again ends
    with the weights of a run that was not stopped, bit for bit, in fp32, bf16
    and fp16."""
    assert [row["precision"] for row in FOUND["resumed"]] == [
        "fp32",
        "bf16",
        "fp16",
    ]
    for row in FOUND["resumed"]:
        whole, again = row["weights"]
        assert whole == again
