"""Predicted over published, on runs that are worked out by hand."""

import json
import re
from math import log
from typing import Any

import pytest

from lockstep.experiments.published_runs import __main__ as report
from lockstep.experiments.published_runs.causes import CAUSES, by_cause
from lockstep.experiments.published_runs.compare import (
    BY,
    LEFT_OPEN,
    Comparison,
    compare,
    compared,
    grouped,
    kind,
    memory,
    summary,
    throughput,
)
from lockstep.experiments.published_runs.rows import Row, rows

from .test_reading import GOOD

# 8 GPUs, 16 sequences of 1,000 tokens in 2 s: 1,000 tokens/s per GPU.
ANSWER: dict[str, Any] = {
    "gpus": 8,
    "tokens_per_second": 8000.0,
    "step_seconds": 2.0,
    "mfu": 0.5,
    "mfu_causal": 0.5,
    "peak_flops": 1000e12,
    "tied_embeddings": True,
    "embedding": 10e9,
    "total_bytes": 60e9,
    "step_seconds_low": 1.6,
    "step_seconds_high": 2.4,
    "total_bytes_low": 50e9,
    "total_bytes_high": 72e9,
}


def row(**change: Any) -> Row:
    """A row that publishes what is given."""
    return Row.model_validate(GOOD | change)


def sped(published: dict[str, float], found: dict[str, Any]) -> Comparison:
    """The comparison of throughput, which there must be."""
    one = throughput(row(published=published), found)
    assert one is not None
    return one


@pytest.mark.parametrize(
    ("published", "figure", "predicted", "ratio", "ends"),
    [
        (
            {"tokens_per_s_per_gpu": 800.0, "step_s": 2.5, "mfu": 0.4},
            "tokens_per_s_per_gpu",
            1000,
            1.25,
            (1000 / 1.2, 1250),
        ),
        ({"step_s": 2.5, "mfu": 0.4}, "step_s", 2.0, 1.25, (1.6, 2.4)),
        (
            {"tflops_per_gpu": 400.0},
            "tflops_per_gpu",
            500,
            1.25,
            (500 / 1.2, 625),
        ),
        ({"mfu": 0.4}, "mfu", 0.5, 1.25, (0.5 / 1.2, 0.625)),
    ],
)
def test_a_speed_is_compared_in_the_unit_of_its_source(
    published: dict[str, float],
    figure: str,
    predicted: float,
    ratio: float,
    ends: tuple[float, float],
) -> None:
    """All four figures of one run give one ratio, above 1 where the planner is
    too fast, and one interval around it."""
    one = sped(published, ANSWER)
    assert one.figure == figure
    assert one.predicted == pytest.approx(predicted)
    assert one.ratio == pytest.approx(ratio)
    assert one.interval == pytest.approx(ends)
    assert (one.rate, one.measured_rate) == pytest.approx((500, 400))
    assert one.rates == pytest.approx((500 / 1.2, 625))
    assert one.inside is False
    assert one.half_width == pytest.approx(log(2.4 / 1.6) / 2)
    near = {figure: predicted * 1.01}
    assert sped(near, ANSWER).inside is True


def test_tflops_are_compared_as_their_source_counts_operations() -> None:
    found = ANSWER | {"hfu": 0.6, "mfu_causal": 0.4}
    for counts, predicted in {
        "model, attention in full": 500,
        "model, not stated": 400,
        "model, attention halved (causal)": 400,
        "hardware, attention in full": 600,
    }.items():
        published = {"tflops_per_gpu": 400.0}
        one = throughput(row(published=published, counts=counts), found)
        assert one is not None
        assert one.predicted == pytest.approx(predicted)
        assert one.ratio == pytest.approx(predicted / 400)
        assert one.rate == pytest.approx(500)


def test_tflops_leave_out_the_table_that_is_looked_up() -> None:
    """An untied table of 5 B parameters is 6 x 5e9 x 1,000 = 30 TFLOP/s."""
    found = ANSWER | {"tied_embeddings": False}
    assert sped({"tflops_per_gpu": 400.0}, found).predicted == 470
    assert sped({"mfu": 0.4}, found).predicted == 0.5


def test_memory_is_compared_in_gigabytes() -> None:
    one = memory(row(published={"memory_gb": 80.0}), ANSWER)
    assert one is not None
    assert (one.predicted, one.ratio) == pytest.approx((60, 0.75))
    assert one.interval == pytest.approx((50, 72))
    assert one.inside is False
    assert memory(row(published={"mfu": 0.4}), ANSWER) is None
    assert throughput(row(published={"memory_gb": 80.0}), ANSWER) is None


def test_a_summary_has_medians_and_shares() -> None:
    found = [
        sped({"tokens_per_s_per_gpu": 1000 / ratio}, ANSWER)
        for ratio in (0.5, 1.08, 1.15, 1.25, 2)
    ]
    one = summary(found)
    assert one.rows == 5
    assert (one.ratio, one.least, one.most) == pytest.approx((1.15, 0.5, 2))
    assert one.error == pytest.approx(log(1.25))
    assert (one.within_10, one.within_20) == (0.2, 0.4)
    assert one.covered == 0.4
    assert one.half_width == pytest.approx(log(2.4 / 1.6) / 2)


def test_a_run_without_a_prediction_is_listed_with_the_reason() -> None:
    """The planner refuses one run, and has no time for another."""
    odd = GOOD["command"].replace("--gpus 8", "--gpus 8 --tp 3")
    strange = GOOD["command"].replace("--gpus 8", "--gpus 8 --hardware l40s")
    both = {"step_s": 1.0, "memory_gb": 50.0}
    found = compare(
        [
            row(published=both),
            row(id="odd", command=odd),
            row(id="strange", command=strange),
        ]
    )
    assert [one.row.id for one in found.throughput] == ["a-run"]
    assert [one.row.id for one in found.memory] == ["a-run"]
    assert [*found.verdicts] == ["a-run", "strange"]
    assert "--gpus is 8" in found.missing["odd"]
    assert found.missing["strange"] == "memory and no time for l40s"


def test_no_run_that_ran_does_not_fit() -> None:
    """The planner never says "does not fit" of a published run, except of the
    few whose sources leave open what their memory depends on; and it says so of
    each of those, so that the list stays short."""
    found = compared().verdicts
    wrong = {name for name in found if found[name] == "does not fit"}
    assert wrong == {*LEFT_OPEN}
    assert all(LEFT_OPEN.values())
    assert len(found) == len(rows())


MOE = (
    "lockstep plan run --layers 4 --hidden 4096 --heads 32 --vocab 1000"
    " --experts 16 --experts-per-token 2 --expert-ffn 1024 --gpus 16"
    " --sequence 32768 --global-batch 16 --ep 16"
)


def test_a_kind_is_the_models_shape_and_its_precision() -> None:
    assert kind(row()) == "dense, 16 bits"
    assert kind(row(command=MOE)) == "MoE, 16 bits"
    assert kind(row(precision="fp8")) == "dense, FP8 or FP4"
    assert [*BY] == ["kind", "hardware", "parallelism", "source"]
    found = compare([row(), row(id="x", command=MOE)])
    groups = grouped(found.throughput, kind)
    assert [*groups] == ["dense, 16 bits", "MoE, 16 bits"]


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        ({}, []),
        ({"precision": "fp8"}, ["FP8"]),
        ({"command": MOE}, ["width", "experts", "sequences"]),
        ({"command": MOE.replace("--ep 16", "--ep 8")}, ["width", "sequences"]),
        (
            {"command": GOOD["command"] + " --tp 16 --gpus 16"},
            ["tensor parallelism"],
        ),
        (
            {
                "command": GOOD["command"]
                + " --gpus 2048 --global-batch 2048 --tp 8"
            },
            ["more than"],
        ),
        ({"source": "Narayanan et al. 2021 table 1"}, ["software"]),
        ({"assumed": "x; network not stated, 8 x 400 Gb/s"}, ["network"]),
        ({"assumed": "GPUs; their network taken as 1 Gb/s"}, ["network"]),
    ],
)
def test_a_row_has_the_causes_that_its_question_shows(
    change: dict[str, Any], causes: list[str]
) -> None:
    asked = row(**change)
    found = [name for name, touches in CAUSES.items() if touches(asked)]
    assert len(found) == len(causes)
    for name, begins in zip(found, causes, strict=True):
        assert begins in name


def test_each_row_has_a_cause_or_is_among_those_without() -> None:
    every = compared().throughput
    split = by_cause(every)
    for touched, others in split.values():
        assert len(touched) + len(others) == len(every)
    named = {one.row.id for touched, _ in split.values() for one in touched}
    assert named == {one.row.id for one in every}


def test_the_report_and_its_json_agree(
    capsys: pytest.CaptureFixture[str],
) -> None:
    every = compared()
    assert report.main(["--worst", "2", "--kind", "hardware"]) == 0
    said = capsys.readouterr().out
    assert report.main(["--json", "--kind", "hardware"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert max(map(len, said.splitlines())) <= 80
    for name in ("throughput", "memory"):
        count = len(found[name]["rows"])
        assert f"\n{'all rows':8}" in said
        assert f" {count} " in said
        for group, one in found[name]["groups"].items():
            assert f"{group:8}  {one['rows']:4}  {one['ratio']:5.2f}" in said
    both = [*every.throughput, *every.memory]
    worst = sorted(both, key=lambda one: one.error)[-2:]
    for one in worst:
        assert re.search(f"{one.ratio:5.2f}  .* for .*: {one.row.id}\n", said)
    assert {*found["verdicts"]} == {*every.verdicts}
    for verdict in {*every.verdicts.values()}:
        count = [*found["verdicts"].values()].count(verdict)
        assert f"{verdict} {count}" in said
    assert found["missing"] == every.missing
    for why in {*every.missing.values()}:
        count = [*every.missing.values()].count(why)
        assert f"no prediction of {count}: {why[:40]}" in said
