"""Intervals, the hull of the data, and the verdict."""

import json
import re
from typing import Any

import pytest

from lockstep.cli import main
from lockstep.explore import planner_page
from lockstep.planner.constants import DOUBT, WIDTHS
from lockstep.planner.figures import PlanError, decimal, plain
from lockstep.planner.intervals import BOUNDED, changes, fit
from lockstep.planner.layout import layout
from lockstep.planner.questions import QUESTIONS, ask, cluster_of, complete

BASE: dict[str, Any] = {
    "preset": "llama3-70b",
    "gpus": 64,
    "sequence": 8192,
    "global_batch": 64,
    "tp": 8,
    "sequence_parallel": True,
    "zero_stage": 1,
    "tokens": 1e12,
    "price_gpu_hour": 2,
}


def run(**given: Any) -> dict[str, Any]:
    found = ask("run", BASE | given)
    return {name: plain(one) for name, one in found.items()}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, "dense H100"),
        ({"hardware": "h200"}, "dense H100"),
        ({"hardware": "a100"}, "dense A100"),
        ({"peak_flops": 1979e12}, "FP8"),
        ({"preset": "mixtral-8x7b"}, "MoE"),
        ({"hardware": "b200"}, "other"),
    ],
)
def test_each_figure_has_its_kinds_interval(
    given: dict[str, Any], kind: str
) -> None:
    """A run's seconds, rates and costs lie in an interval whose factor is
    that of its kind: dense on A100 or H100, FP8, MoE, or other."""
    found = run(**given)
    assert found["kind"] == kind
    factor, _ = WIDTHS[kind]
    for name in BOUNDED:
        if name not in found:
            assert name == "energy"
            continue
        assert found[f"{name}_low"] == pytest.approx(found[name] / factor)
        assert found[f"{name}_high"] == pytest.approx(found[name] * factor)
    held, _ = WIDTHS["memory"]
    assert found["total_bytes_high"] == found["total_bytes"] * held


def test_every_interval_rests_on_several_runs() -> None:
    for factor, rows in WIDTHS.values():
        assert 1.05 < factor < 2
        assert rows >= 10


def test_a_question_outside_the_data_is_named() -> None:
    """More GPUs than any published run, and an accelerator without one, are
    named next to the answer."""
    assert run()["outside"] == ""
    many = run(gpus=32768, global_batch=4096)["outside"]
    assert many.startswith("--gpus 32768 where published runs have 1 to")
    assert "no published run on l40s" in run(hardware="l40s", gpus=8)["outside"]


def test_the_factor_that_dominates_the_interval_is_named() -> None:
    """Matrix products where they take the time; attention where
    experts are many and narrow."""
    assert run()["dominant"] in DOUBT
    assert run()["dominant"] == "matrix products"
    small = run(preset="qwen3-30b-a3b", tp=1, sequence_parallel=False, ep=8)
    assert small["dominant"] == "attention"


# The verdict


@pytest.mark.parametrize(
    ("memory", "begins"),
    [(400e9, "fits: "), (1e9, "does not fit: "), (0, "")],
)
def test_the_verdict_compares_the_interval_with_the_memory(
    memory: float, begins: str
) -> None:
    """A run fits if the upper end of its bytes does, may fit if the lower end
    does, and else does not."""
    found = run(memory=memory, recompute="none")
    verdict = found["verdict"]
    assert verdict.startswith(begins)
    assert ("remedy" in found) == (not verdict.startswith("fits"))
    used = found["total_bytes"]
    between = run(memory=used * 1.01, recompute="none")
    assert between["verdict"].startswith("may fit: ")


def test_a_run_that_may_not_fit_hears_of_a_change_that_fits() -> None:
    """The change is the first in the list that fits, and it does."""
    given = BASE | {"recompute": "none", "micro_batch": 8}
    inputs = complete("run", QUESTIONS["run"].inputs, given)
    found = ask("run", given)
    assert not found["verdict"].startswith("fits")
    said = found["remedy"].removeprefix("it fits with ").split()
    asked = dict(given)
    names = [word[2:].replace("-", "_") for word in said[::2]]
    for name, value in zip(names, said[1::2], strict=True):
        asked[name] = value if name in ("recompute", "loss") else int(value)
    assert ask("run", asked)["verdict"].startswith("fits")
    for change in changes(cluster_of(inputs)):
        if all(asked.get(name) == value for name, value in change.items()):
            break
        try:
            tried = ask("run", given | change)
        except PlanError:
            continue
        assert not tried["verdict"].startswith("fits")


def test_no_change_saves_a_model_that_is_far_too_large() -> None:
    found = run(preset="llama3-405b", gpus=8, global_batch=8)
    assert found["verdict"].startswith("does not fit")
    assert found["remedy"].endswith("ask plan search")


def test_where_nothing_else_helps_more_gpus_do() -> None:
    """The state of 405 B parameters takes 101 GB of each of 64 GPUs at best."""
    found = run(preset="llama3-405b", gpus=64, global_batch=2048)
    assert found["remedy"].startswith("it fits with --gpus ")


def test_recomputing_is_as_little_as_may_fit() -> None:
    found = run(micro_batch=8)
    assert found["recompute"] != "none"
    order = ["none", "selective", "full"]
    for less in order[: order.index(found["recompute"])]:
        assert run(micro_batch=8, recompute=less)["verdict"].startswith("does")
    assert run(micro_batch=1, gpus=64, zero_stage=3)["recompute"] == "none"


def test_the_command_begins_with_the_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["plan", "run", "--preset=llama3-70b", "--gpus=64", "--tp=8"]
    asked += ["--sequence=8192", "--global-batch=64", "--sequence-parallel"]
    assert main([*asked, "--zero-stage=1"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.split(":")[0] in ("fits", "may fit", "does not fit")
    step = next(line for line in rest if line.startswith(" step seconds"))
    assert " to " in step
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    low, high = found["step_seconds_low"], found["step_seconds_high"]
    assert low < found["step_seconds"] < high
    assert found["total_bytes_low"] < found["total_bytes"]


def test_a_layout_alone_says_whether_it_fits() -> None:
    given = cluster_of(complete("run", QUESTIONS["run"].inputs, BASE))
    found = layout(given | {"recompute": "full"})
    bytes_needed = plain(found["total_bytes"])
    limits = {"total_bytes_low": bytes_needed, "total_bytes_high": bytes_needed}
    assert fit(limits | {"memory": bytes_needed}) == "fits"
    assert fit(limits | {"memory": bytes_needed - 1}) == "does not fit"


def test_the_page_begins_with_the_verdict_and_shows_intervals() -> None:
    """In the browser the verdict comes first, with the change that lets a run
    fit, and a figure's interval stands next to it."""
    given = {"preset": "llama3-70b", "gpus": 8, "sequence": 8192}
    given |= {"global_batch": 8, "recompute": "full"}
    html = planner_page.answer("run", given)
    found = ask("run", given)
    assert html.startswith(
        f'<p class="planner-verdict">{found["verdict"]}</p>'
        f'<p class="planner-remedy">{found["remedy"]}</p>'
    )
    low, high = (
        decimal(found[f"total_bytes_{end}"].value, "B")
        for end in ("low", "high")
    )
    assert f"<small>{low} to {high}</small></summary>" in html


def test_the_pages_bars_show_all_parts_of_the_totals() -> None:
    """The widths of a bar's parts add up to the step, and to the share of the
    memory that the run takes."""
    given = {"preset": "llama3-70b", "gpus": 512, "sequence": 8192, "tp": 4}
    given |= {"pp": 4, "global_batch": 1024, "recompute": "full"}
    given |= {"sequence_parallel": True, "zero_stage": 1}
    found = ask("run", given)
    memory, step = (
        sum(map(float, re.findall(r"width:([\d.]+)%", lane)))
        for lane in re.findall(
            r'<div aria-hidden="true">(.*?)</div>', planner_page.drawn(found)
        )[:2]
    )
    taken = found["total_bytes"].value / found["memory"]
    assert memory == pytest.approx(100 * taken, rel=1e-3)
    assert step == pytest.approx(100, rel=1e-3)
