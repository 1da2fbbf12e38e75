"""The picture of a step's memory beside the planner's bytes."""

from typing import Any

import pytest

from lockstep.explore import memory_step
from lockstep.explore.settings import read
from lockstep.planner.questions import ask

CASES = {
    "8B": "",
    "recomputed": "recompute:full",
    "DDP": "stage:0,recompute:full",
    "70B": "model:llama3-70b,gpus:64,stage:3,recompute:full,sequence:4096",
    "Muon": "optimizer:muon,stage:1,micro:2",
    "in place": "loss:fused",
}


def values(text: str) -> dict[str, Any]:
    """All settings, some of them changed."""
    return read(memory_step.SETTINGS, text)


def asked(given: dict[str, Any]) -> dict[str, float]:
    """What `lockstep plan run` says of the same layout."""
    question = {
        "preset": given["model"],
        "gpus": given["gpus"],
        "sequence": given["sequence"],
        "micro_batch": given["micro"],
        "global_batch": given["gpus"] * given["micro"],
        "zero_stage": given["stage"],
        "recompute": given["recompute"],
        "kernels": "torch",
        "loss": given["loss"],
    }
    if given["optimizer"] == "adam-mixed" and given["stage"] == 3:
        question |= {"bytes_gradient": 4, "bytes_optimizer": 10}
    else:
        question["optimizer"] = given["optimizer"]
    found = ask("run", question)
    return {
        name: float(figure)
        for name, figure in found.items()
        if name.endswith("_bytes")
    }


@pytest.mark.parametrize("case", CASES)
def test_every_part_is_the_planners_where_it_is_fullest(case: str) -> None:
    """For each layout, the most that the picture shows of each kind of memory
    is what the planner says of it. All of them make the planner's total, in
    which logits and the gradients that are being reduced take turns, and
    FSDP2's gradients are absent, because the fullest moment is the loss."""
    given = values(CASES[case])
    plan, moments = asked(given), memory_step.step(given)
    most = {
        kind: max(held.get(kind, 0) for _, _, held in moments)
        for kind in memory_step.KINDS
    }
    names = {
        "system": "system",
        "optimizer": "optimizer",
        "weights": "parameters",
        "gathered": "buffers",
        "logits": "logits",
        "activations": "activations",
    }
    for kind, name in names.items():
        assert most[kind] == pytest.approx(plan[f"{name}_bytes"], rel=1e-9)
    reducing, logits = plan["reducing_bytes"], plan["logits_bytes"]
    assert most["gradients"] == pytest.approx(
        plan["gradients_bytes"] + reducing
    )
    turns = min(logits, reducing)
    total = plan["total_bytes"] + plan["absent_bytes"]
    assert sum(most.values()) - turns == pytest.approx(total)
    assert (plan["absent_bytes"] > 0) == (given["stage"] == 3)


@pytest.mark.parametrize("case", CASES)
def test_no_moment_holds_more_than_the_planner_adds_up(case: str) -> None:
    """No moment of the step holds more than the planner's total, which also
    counts kinds that are never there together, such as DDP's gradients and the
    logits, or a recomputed block and the logits. Without either, FSDP2's
    fullest moment is the total."""
    given = values(CASES[case])
    held = [sum(one.values()) for _, _, one in memory_step.step(given)]
    total = asked(given)["total_bytes"]
    assert max(held) < total * (1 + 1e-9)
    whole = given["stage"] == 3 and given["recompute"] == "none"
    assert (max(held) == pytest.approx(total)) == whole


def test_activations_rise_in_the_forward_pass_and_fall_in_the_backward() -> (
    None
):
    """Activations grow with each layer until the loss, where they are joined by
    the logits, and shrink with each layer of the backward pass, while gradients
    grow. The optimizer's step finds neither activations nor logits."""
    moments = memory_step.step(values(""))
    rises = [m[2]["activations"] for m in moments if m[0] == "forward"]
    falls = [m[2]["activations"] for m in moments if m[0] == "backward"]
    grows = [m[2]["gradients"] for m in moments if m[0] == "backward"]
    assert rises == sorted(rises)
    assert falls == sorted(falls, reverse=True)
    assert grows == sorted(grows)
    assert {phase for phase, _, held in moments if held.get("logits")} == {
        "loss"
    }
    assert "activations" not in moments[-1][2]


def test_a_recomputed_block_is_there_in_the_backward_pass() -> None:
    """With recomputation a GPU keeps each block's input alone, and the backward
    pass brings one whole block back."""
    given = values("recompute:full")
    whole = memory_step.planned(values(""))
    moments = memory_step.step(given)
    at_the_loss = next(m[2] for m in moments if m[0] == "loss")
    first = next(m[2] for m in moments if m[0] == "backward")
    assert at_the_loss["activations"] < whole["activations"] / 10
    assert first["activations"] - at_the_loss["activations"] == pytest.approx(
        whole["activations"] / 32
    )


def test_the_peak_that_is_said_is_the_highest_that_is_drawn() -> None:
    """The number called peak is the highest point of the picture, and whether
    it fits is said of that."""
    for text in CASES.values():
        scene = memory_step.draw(values(text))
        peak = max(scene.panels[1].totals())
        assert dict(scene.numbers)["peak"] == memory_step.gigabytes(peak)
        assert ("does not fit" in scene.told) == (peak > memory_step.GPU)
