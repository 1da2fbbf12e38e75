"""`lockstep plan`: keys and units for machines, one line for nonsense."""

import json
import re
from math import exp

import pytest

from lockstep.cli import main
from lockstep.explore import planner_page
from lockstep.planner.hardware import HARDWARE
from lockstep.planner.memory import OPTIMIZERS
from lockstep.planner.presets import PRESETS

ANSWERS = {
    "params --preset llama3-8b": {
        "total": 8030261248,
        "embedding": 2 * 128256 * 4096,
        "attention": 32 * 4096 * 128 * 80,
        "mlp": 32 * 3 * 4096 * 14336,
        "norm": 65 * 4096,
        "active": 8030261248,
    },
    "params --layers 2 --hidden 8 --heads 2 --vocab 10 --tied-embeddings": {
        "total": 80 + 2 * 4 * 64 + 2 * 2 * 8 * 32 + 5 * 8,
        "embedding": 80,
        "attention": 2 * 4 * 64,
        "mlp": 2 * 2 * 8 * 32,
        "norm": 5 * 8,
        "active": 80 + 2 * 4 * 64 + 2 * 2 * 8 * 32 + 5 * 8,
    },
    "memory --params 7.5e9 --dp 64 --zero-stage 1": {
        "parameters_bytes": 15e9,
        "gradients_bytes": 15e9,
        "optimizer_bytes": 7.5e9 * 12 / 64,
        "total_bytes": 30e9 + 7.5e9 * 12 / 64,
    },
    "memory --params 7.5e9 --dp 64 --zero-stage 3 --shard 8 --optimizer muon": {
        "parameters_bytes": 15e9 / 8,
        "gradients_bytes": 15e9 / 8,
        "optimizer_bytes": 60e9 / 8,
        "total_bytes": 90e9 / 8,
    },
    "activations --layers 2 --hidden 64 --heads 4 --sequence 32 --tp 2"
    " --sequence-parallel --recompute selective": {
        "bytes_per_layer": 34 * 32 * 64 / 2,
        "total_bytes": 34 * 32 * 64,
    },
    # 46 tensors of pairs and 2 of scores; two gathered, of which half was there
    "pair --residues 8 --channels 4 --heads 2 --head-dim 2 --rows 2": {
        "parameters": 2 * 112 + 2 * 96 + 136,
        "pair_bytes": 256,
        "logits_bytes": 1024,
        "msa_logits_bytes": 0,
        "block_bytes": 46 * 256 + 2 * 1024 + 2 * 256,
        "total_bytes": 46 * 256 + 2 * 1024 + 2 * 256,
        "sent_bytes": 2 * (2 * 256 + 2 * 256 + 2 * 128),
    },
    # Of tiles 2 by 2: three quarters of z more, and 16 exchanges of a tile.
    "pair --residues 8 --channels 4 --heads 2 --head-dim 2 --rows 2"
    " --columns 2 --attention fused --blocks 3 --recompute full": {
        "parameters": 3 * (2 * 112 + 2 * 96 + 136),
        "pair_bytes": 128,
        "logits_bytes": 512,
        "msa_logits_bytes": 0,
        "block_bytes": (46 + 6) * 128 + 2 * (256 + 128),
        "total_bytes": (46 + 6 + 3) * 128 + 2 * (256 + 128),
        "sent_bytes": 16 * 128 + 2 * 2 * 0.75 * 256,
    },
    "collective --op all_reduce --bytes 1e9 --ranks 4 --bandwidth 1e9"
    " --latency 0.001": {
        "bytes_sent_per_rank": 1.5e9,
        "seconds": 1.506,
        "bus_factor": 1.5,
        "algbw": 1e9 / 1.506,
        "busbw": 1.5e9 / 1.506,
    },
    "collective --op broadcast --bytes 8 --ranks 4 --algorithm tree": {
        "bytes_sent_per_rank": 8,
        "seconds": None,
        "bus_factor": 1,
        "algbw": None,
        "busbw": None,
    },
    # 32 ranks: within a node 2 * 7 hops and 1.75 GB, then 2 * 3 and 187.5 MB
    "collective --op all_reduce --bytes 1e9 --ranks 32 --algorithm hierarchical"
    " --bandwidth 50e9 --latency 1e-5 --node-bandwidth 400e9"
    " --node-latency 1e-6": {
        "bytes_sent_per_rank": 1.9375e9,
        "seconds": 14e-6 + 1.75 / 400 + 6e-5 + 0.1875 / 50,
        "bus_factor": 2 * 31 / 32,
        "algbw": 1e9 / (14e-6 + 1.75 / 400 + 6e-5 + 0.1875 / 50),
        "busbw": 62 / 32 * 1e9 / (14e-6 + 1.75 / 400 + 6e-5 + 0.1875 / 50),
    },
    "pipeline --stages 4 --microbatches 12 --schedule gpipe": {
        "bubble_fraction_of_total": 0.2,
        "bubble_overhead": 0.25,
        "in_flight_microbatches": 12,
    },
    # Qi et al. 2024: a third of 1F1B's bubble; and none, for twice the memory
    "pipeline --stages 4 --microbatches 12 --schedule zb-h1": {
        "bubble_fraction_of_total": 1 / 13,
        "bubble_overhead": 1 / 12,
        "in_flight_microbatches": 4,
    },
    "pipeline --stages 4 --microbatches 12 --schedule zb-h2": {
        "bubble_fraction_of_total": 0,
        "bubble_overhead": 0,
        "in_flight_microbatches": 7,
    },
    # Young: sqrt(2 * 60 * 9000), to first order
    "goodput --gpus 16000 --gpu-mtbf-hours 40000 --save-seconds 60"
    " --restart-seconds 600 --save-every-seconds 1000": {
        "mtbf_seconds": 9000,
        "interval_seconds": 1000,
        "goodput": 1 / (9 * exp(600 / 9000) * (exp(1060 / 9000) - 1)),
    },
    "flops --preset llama3-8b --sequence 8192 --tokens 1e12 --gpus 8"
    " --peak-flops 1e15 --tokens-per-second 1e5 --recompute full"
    " --price-gpu-hour 2 --watts-gpu 700 --pue 1.2": {
        "flops_per_token": 6 * 8030261248,
        "total_flops": 6 * 8030261248e12,
        "mfu": 6 * 8030261248e5 / 8e15,
        "hfu": 8 * 8030261248e5 / 8e15,
        "days": 1e7 / 86400,
        "gpu_hours": 8e7 / 3600,
        "cost": 2 * 8e7 / 3600,
        "energy": 8e7 / 3600 * 0.7 * 1.2,
        "count_embeddings": True,
        "count_attention": False,
        "recompute": "full",
    },
}


@pytest.mark.parametrize("asked", ANSWERS)
def test_an_answer_for_machines(
    asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *asked.split(), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == pytest.approx(ANSWERS[asked], rel=1e-12)


def test_what_counts_is_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "flops", "--preset=gpt3-175b", "--sequence=2048", "--json"]
    found = []
    for flags in ([], ["--count-attention"], ["--no-count-embeddings"]):
        assert main([*asked, *flags]) == 0
        found.append(json.loads(capsys.readouterr().out)["flops_per_token"])
    plain, with_attention, without_tables = found
    assert with_attention - plain == 12 * 96 * 12288 * 2048
    assert plain - without_tables == 6 * 12288 * (50257 + 2048)


def test_the_way_to_a_figure_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = "--params=8e9", "--dp=8", "--zero-stage=3", "--explain"
    assert main(["plan", "memory", *asked]) == 0
    said = capsys.readouterr().out
    assert "optimizer bytes   12 GB (11.18 GiB)" in said
    assert "= 8e+09 * 12 / (8 if 3 >= 1 else 1)\n  = 12 GB (11.18" in said
    assert "activations, buffers and fragmentation are left out" in said


NONSENSE = {
    "params --preset gpt5": "--preset is gpt5; it must be one of deepseek-v2, ",
    "params --layers 2": "--hidden is 0; it must be a whole number from 1",
    "params --preset llama3-8b --kv-heads 5": "a divisor of --heads, 32",
    "params --preset mixtral-8x7b --experts-per-token 9": "at most --experts",
    "memory --params -1": "--params is -1; it must be above 0",
    "memory --params 1e9 --zero-stage 4": "must be one of 0, 1, 2, 3",
    "memory --params 1e9 --dp 1.5": "--dp is 1.5; it must be a whole number",
    "activations --layers 2 --hidden 64 --heads 4 --sequence 8 --tp 3": (
        "--tp is 3; it must be a divisor of --heads, 4"
    ),
    "activations --layers 2 --hidden 64 --heads 4 --sequence 8"
    " --sequence-parallel": "it needs --tp of 2 or more",
    "pair --trunk alphafold4 --residues 8": "be one of alphafold2, alphafold3",
    "pair --residues 9 --rows 2": "--rows is 2; it must be a divisor of --",
    "pair --trunk alphafold2 --residues 8 --rows 2": "split pairs alone; leave",
    "pair --residues 8 --attention flash": "be one of scores, chunks, fused",
    "pair --residues 8 --recompute some": "must be one of none, full",
    "pair --residues 8 --recompute selective": "--attention chunks computes",
    "run --preset llama3-8b --gpus 8 --sequence 8192 --global-batch 8"
    " --recompute some": "it must be one of auto, none, selective, full",
    "run --preset llama3-8b --gpus 8 --sequence 8192 --global-batch 8"
    " --optimizer muon --bytes-gradient 4": "leave out --bytes-gradient",
    "pair --residues 8 --heads 0": "--heads is 0; it must be a whole number",
    "collective --op gather --bytes 1 --ranks 2": "--op is gather; it must be",
    "collective --op all_gather --bytes 1 --ranks 2 --algorithm tree": (
        "--algorithm tree has no all_gather"
    ),
    "collective --op broadcast --bytes 1 --ranks 0": "--ranks is 0",
    "pipeline --stages 2 --microbatches 3 --schedule interleaved": (
        "--stages is 2; it must be a divisor of --microbatches, 3"
    ),
    "pipeline --stages 2 --microbatches 3 --virtual-stages 2": (
        "--virtual-stages is 2; with --schedule 1f1b it must be 1"
    ),
    "flops --preset llama3-8b --sequence 0": "--sequence is 0",
    "flops --params 1e9 --sequence 1 --tokens -5": "tokens is -5; it must be",
    "memory --params 1e9 --bytes-gradient -2": "bytes-gradient is -2; it",
    "memory --params 1e9 --optimizer adagrad": "optimizer is adagrad; it",
    "memory --params 1e9 --dp 8 --shard 3 --zero-stage 3": "divisor of --dp, 8",
    "memory --params 1e9 --dp 8 --shard 4": "--dp below ZeRO stage 3, 8",
    "pipeline --stages 4 --microbatches 6 --schedule zb-h2": "zb-h2, 7",
    "collective --op all_to_all --bytes 1 --ranks 8 --algorithm hierarchical": (
        "--algorithm hierarchical has no all_to_all"
    ),
    "collective --op all_reduce --bytes 1 --ranks 12"
    " --algorithm hierarchical": (
        "--gpus-per-node is 8; it must be a divisor of --ranks, 12"
    ),
    "collective --op all_reduce --bytes 1 --ranks 8 --algorithm hierarchical"
    " --bandwidth 1": "--node-bandwidth is 0; it must be above 0",
    "goodput --gpus 3600 --gpu-mtbf-hours 1 --save-seconds 60"
    " --restart-seconds 60": "a failure every 1 s lets nothing be saved",
    "goodput --gpus 8 --gpu-mtbf-hours 0 --save-seconds 1"
    " --restart-seconds 1": ("--gpu-mtbf-hours is 0; it must be above 0"),
}


@pytest.mark.parametrize("asked", NONSENSE)
def test_nonsense_is_answered_in_one_line(
    asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *asked.split()]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("error: ")
    assert NONSENSE[asked] in said


def test_a_number_that_is_none_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for text in ("ten", "nan", "inf"):
        with pytest.raises(SystemExit, match="2"):
            main(["plan", "memory", "--params", text])
        assert "--params" in capsys.readouterr().err


def test_the_command_lists_its_plans(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["plan", "--help"])
    said = capsys.readouterr().out
    for name in ("params", "memory", "activations", "collective", "flops"):
        assert f"• {name}" in said
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "• plan" in capsys.readouterr().out


@pytest.mark.parametrize("asked", ["run", "pair", "activations", "flops"])
def test_help_and_form_offer_the_recompute_settings_that_are_accepted(
    asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["plan", asked, "--help"])
    in_help = "selective" in capsys.readouterr().out
    control = planner_page.control(asked, "recompute", "none", {})
    in_form = "<option>selective</option>" in control
    accepted = asked != "pair"
    assert (in_help, in_form) == (accepted, accepted)


def test_help_names_presets_hardware_and_optimizers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A reader finds the names that options take without leaving the help."""
    with pytest.raises(SystemExit):
        main(["plan", "run", "--help"])
    said = capsys.readouterr().out
    for name in (*PRESETS, *HARDWARE, *OPTIMIZERS):
        assert re.search(rf"\b{re.escape(name)}\b", said), name


def test_a_whiteboards_answer_lists_what_it_sets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An answer with `--whiteboard` says which settings it replaced, the loss
    among them, and not those that the reader gave; and what the time leaves
    out."""
    asked = "--preset llama3-8b --gpus 8 --sequence 8192 --global-batch 8"

    def line(more: str, beginning: str, command: str = "run") -> str:
        assert main(["plan", command, *asked.split(), *more.split()]) == 0
        said = capsys.readouterr().out.splitlines()
        return next((x for x in said if x.startswith(beginning)), "")

    for command in ("run", "search"):
        whole = line("--whiteboard", "assumes", command)
        assert "--efficiency 0.6 --overlap 0.8" in whole
        assert "--loss fused" in whole
        assert "--loss" not in line("--whiteboard --loss eager", "assumes")
    assert "stragglers" in line("--efficiency 0.5", "leaves out")
    assert not line("", "leaves out")
