"""The step that was predicted, and the step that was run."""

import json
from pathlib import Path

import pytest

from lockstep.experiments.benchmarks.links import planned
from lockstep.experiments.slow_jobs import prediction

FOUND = json.loads(prediction.RESULT.read_text())


@pytest.mark.parametrize("width", [str(width) for width in prediction.WIDTHS])
def test_the_run_is_as_long_as_predicted(width: str) -> None:
    """The recorded step time of each model is within a factor of 1.35 of what
    was predicted from its parts."""
    one, link = FOUND["widths"][width], FOUND["link"]
    again = prediction.predict(
        one["apart"], 4 * prediction.parameters(int(width)), link
    )
    assert one["predicted"] == pytest.approx(again)
    ratio = one["predicted"] / one["measured"]
    assert 1 / prediction.TOLERANCE < ratio < prediction.TOLERANCE


def test_the_prediction_is_of_the_trainers_own_model() -> None:
    from lockstep.trainer.config import TrainConfig
    from lockstep.trainer.model import build_model

    cfg = TrainConfig(Path(), "toy", hidden_size=48)
    model = build_model(cfg, 32, 4)
    sizes = sum(p.numel() for p in model.parameters())
    assert prediction.parameters(48) == sizes


def test_what_is_predicted_is_a_step_and_a_sum() -> None:
    link = {"latency": 1e-3, "bandwidth": 1e6}
    sums = float(planned("all_reduce", 2, 4_000_000, **link)["seconds"])
    assert prediction.predict(1.0, 4_000_000, link) == pytest.approx(1 + sums)
    assert sums == pytest.approx(4 + 2e-3)


def test_all_is_measured_and_written(tmp_path: Path) -> None:
    """On few steps, of which only the order of sizes is known."""
    found = prediction.compare((32,), steps=12, times=4)
    (one,) = found["widths"].values()
    assert 0 < one["apart"] < one["predicted"]
    assert min(one["alone"], one["measured"]) > 0
    result = tmp_path / "found.json"
    result.write_text(json.dumps(FOUND | found))
    assert prediction.render(result) == 0
    assert "| 32 |" in result.with_suffix(".md").read_text()
