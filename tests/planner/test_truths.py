"""Tables and examples of the papers, as the planner computes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from lockstep.planner.activations import activations
from lockstep.planner.collectives import BUS, collective
from lockstep.planner.hardware import HARDWARE
from lockstep.planner.memory import memory
from lockstep.planner.models import params
from lockstep.planner.pipeline import pipeline

TRUTHS = json.loads(
    (Path(__file__).parents[1] / "data" / "planner-truths.json").read_text()
)
MIXED_ADAM = {"bytes_parameter": 2, "bytes_gradient": 2, "bytes_optimizer": 12}


@pytest.mark.parametrize(
    ("size", "dp", "stage", "gigabytes"), TRUTHS["zero_table"]["rows"]
)
def test_table_1_of_zero(
    size: float, dp: int, stage: int, gigabytes: float
) -> None:
    """Each cell of table 1 of the ZeRO paper comes out, as far as the paper
    rounds."""
    given = MIXED_ADAM | {"params": size, "dp": dp, "zero_stage": stage}
    total = memory(given)["total_bytes"].value
    off = max(0.015 * gigabytes, 0.06)  # the paper truncates or rounds
    assert total / 1e9 == pytest.approx(gigabytes, abs=off)


GPT3 = {"layers": 96, "hidden": 12288, "heads": 96, "sequence": 2048}
KEPT: dict[str, dict[str, Any]] = {
    "none_gb": {"tp": 1, "sequence_parallel": False, "recompute": "none"},
    "tp8_gb": {"tp": 8, "sequence_parallel": False, "recompute": "none"},
    "tp8_sp_gb": {"tp": 8, "sequence_parallel": True, "recompute": "none"},
    "selective_gb": {
        "tp": 8,
        "sequence_parallel": True,
        "recompute": "selective",
    },
    "full_gb": {"tp": 1, "sequence_parallel": False, "recompute": "full"},
}


@pytest.mark.parametrize("case", KEPT)
def test_activations_of_a_layer_of_gpt_3(case: str) -> None:
    """A layer of GPT-3 keeps the gigabytes that the paper's formula gives, in
    each of its cases."""
    truth = TRUTHS["activation_bytes_per_layer"]["example"]
    assert KEPT.keys() == truth.keys() - {"model"}
    found = activations(GPT3 | {"micro_batch": 1} | KEPT[case])
    per_layer = found["bytes_per_layer"].value
    assert per_layer / 1e9 == pytest.approx(truth[case], abs=0.0006)
    assert found["total_bytes"].value == 96 * per_layer


@pytest.mark.parametrize("row", TRUTHS["parameter_count"]["rows"])
def test_parameters_of_megatrons_models(row: list[Any]) -> None:
    """Equation 2 leaves out what is below a thousandth, the heads' number."""
    _, layers, _, hidden, published = row
    given = {"layers": layers, "hidden": hidden, "heads": hidden // 96}
    given |= {"vocab": 51200, "positions": 2048, "bias": 1}
    given |= {"tied_embeddings": 1, "layer_norm": 1}
    total = params(given)["total"].value
    equation = 12 * layers * hidden**2
    equation *= 1 + 13 / (12 * hidden) + (51200 + 2048) / (12 * layers * hidden)
    assert total == pytest.approx(equation, rel=1e-5)
    assert total == pytest.approx(published, rel=0.005)


WIRE = {"algorithm": "ring", "bandwidth": 0, "latency": 0}


@pytest.mark.parametrize("op", TRUTHS["collectives"]["bus_factor"])
def test_bus_factors_of_nccl_tests(op: str) -> None:
    factors = TRUTHS["collectives"]["bus_factor"]
    assert BUS.keys() == factors.keys()
    found = collective(WIRE | {"op": op, "bytes": 1e9, "ranks": 8})
    named = {"2(n-1)/n": 1.75, "(n-1)/n": 0.875, "1": 1}
    assert found["bus_factor"].value == named[factors[op]]


@pytest.mark.parametrize(
    ("gpu", "link", "line", "measured"), TRUTHS["achieved"]["rows"]
)
def test_links_are_taken_at_the_rates_that_were_measured(
    gpu: str, link: str, line: float, measured: float
) -> None:
    """The planner's bandwidths are those that NCCL's rings achieve, four fifths
    to nine tenths of the line rate: 370 of 450 GB/s over an H100's NVLink, 365
    of 400 over the eight cards of a node."""
    assert HARDWARE[gpu][link] == measured
    assert 0.78 < measured / line < 0.92


def test_bytes_that_a_rank_sends() -> None:
    truth = TRUTHS["collectives"]["example"]
    given = {name: truth[name] for name in ("op", "bytes", "ranks")}
    sent = collective(WIRE | given)["bytes_sent_per_rank"].value
    assert sent == truth["bytes_sent_per_rank"]


def test_both_bubbles() -> None:
    """The pipeline bubble over the whole step and over the ideal time are both
    what the papers print, and interleaving halves the second."""
    truth = TRUTHS["pipeline"]["example"]
    given = {"stages": truth["p"], "microbatches": truth["m"]}
    given |= {"schedule": "1f1b", "virtual_stages": 1}
    found = pipeline(given)
    fraction = found["bubble_fraction_of_total"].value
    assert fraction == pytest.approx(truth["fraction_of_total"], abs=5e-6)
    assert found["bubble_overhead"].value == truth["overhead"]
    given |= {"schedule": "interleaved", "virtual_stages": 2}
    overhead = pipeline(given)["bubble_overhead"].value
    assert overhead == truth["overhead"] / 2  # (p - 1) / (v m)


def test_state_of_zero_3() -> None:
    truth = TRUTHS["zero_3_state"]["example"]
    given = {"params": truth["params"], "dp": truth["dp"], "zero_stage": 3}
    given |= MIXED_ADAM | {"bytes_optimizer": 8}
    total = memory(given)["total_bytes"]
    assert total.value == truth["gigabytes"] * 1e9
