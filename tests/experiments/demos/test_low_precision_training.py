"""What the chapter on low precision says of a model trained in few bits."""

from functools import partial

import pytest
import torch

from lockstep.experiments.demos import low_precision_training
from lockstep.experiments.demos.fp8_and_fp4 import E5M2, per_tensor
from lockstep.experiments.demos.low_precision_training import (
    RECIPES,
    asis,
    bf16,
    lost,
    trained,
)
from lockstep.experiments.demos.rounding import stochastic

STEPS = 60  # enough to see who learns


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """The matrices are small."""
    torch.set_num_threads(1)


def test_weights_kept_in_bf16_learn_less() -> None:
    """At a small rate, bf16 products with weights in fp32 learn as fp32 does,
    to a thousandth. With weights that are bf16 between steps the model learns
    less than half as much, and with the same weights rounded by chance as much
    again, to a hundredth."""
    chance = torch.Generator().manual_seed(0)
    by_chance = lambda x: stochastic(x, chance).float()  # noqa: E731
    run = partial(trained, RECIPES["bf16"], rate=1e-4, steps=STEPS)
    start = trained(RECIPES["fp32"], rate=0, steps=20)
    whole = start - trained(RECIPES["fp32"], rate=1e-4, steps=STEPS)
    assert start - run(held=asis) == pytest.approx(whole, rel=1e-3)
    assert start - run(held=by_chance) == pytest.approx(whole, rel=1e-2)
    assert 0 < start - run(held=bf16) < 0.5 * whole


def test_an_outlier_ruins_fp8_with_one_scale_at_a_size_one_can_compute() -> (
    None
):
    """The error of the other tokens, in FP8 with one scale for the tensor, is
    that without an outlier up to 10,000 times their size, grows from 28,672 on,
    and at a million nearly nothing of them is left. With a scale for each 128
    or 32, and in e5m2, it does not grow."""
    tensor = RECIPES["FP8, scale per tensor"]["x"]
    alone = lost(tensor, 1)
    assert lost(tensor, 1e4) < 1.1 * alone < 0.03
    assert 3 * alone < lost(tensor, 1e5) < 0.2
    assert lost(tensor, 1e6) > 0.9
    for name in ("FP8, scale per 128", "MXFP8, scale per 32"):
        assert lost(RECIPES[name]["x"], 1e7) < 0.03
    assert lost(partial(per_tensor, held=E5M2), 1e7) < 0.06


def test_an_outlier_ruins_fp4_far_sooner() -> None:
    """FP4 with one scale for the tensor has lost everything beside an outlier
    of 100. NVFP4 has its usual error, a tenth, up to 100,000, most is gone at a
    million, and all at ten million."""
    assert lost(RECIPES["FP4, scale per tensor"]["x"], 100) == 1
    nvfp4 = RECIPES["NVFP4, scale per 16"]["x"]
    assert lost(nvfp4, 1e5) < 1.2 * lost(nvfp4, 1) < 0.12
    assert lost(nvfp4, 1e6) > 0.5
    assert lost(nvfp4, 1e7) == 1


def test_training_beside_an_outlier_follows_the_scale() -> None:
    """Without an outlier FP8 learns what fp32 learns, to 3 %. Beside one of a
    million FP8 with a scale for each 128 and MXFP8 still do. FP8 with one scale
    for the tensor learns less than two thirds of it, NVFP4 less than four
    fifths, and FP4 with one scale less than a third."""
    start = trained(RECIPES["fp32"], rate=0, steps=20)
    whole = start - trained(RECIPES["fp32"], steps=STEPS)

    def learned(name: str, outlier: float) -> float:
        return (start - trained(RECIPES[name], outlier, steps=STEPS)) / whole

    assert learned("FP8, scale per tensor", 1) == pytest.approx(1, abs=0.03)
    for name in ("FP8, scale per 128", "MXFP8, scale per 32"):
        assert learned(name, 1e6) == pytest.approx(1, abs=0.03)
    assert learned("FP8, scale per tensor", 1e6) < 0.67
    assert learned("NVFP4, scale per 16", 1e6) < 0.8
    assert learned("FP4, scale per tensor", 1e6) < 0.33


def test_the_tables_of_training_have_a_line_for_each_recipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the page shows can be printed."""
    monkeypatch.setattr(low_precision_training, "OUTLIERS", (1,))
    fast = partial(trained, steps=20)
    monkeypatch.setattr(low_precision_training, "trained", fast)
    counts = {"weights": 6, "errors": 7, "outliers": 9}
    for name, show in low_precision_training.SHOWN.items():
        show()
        assert len(capsys.readouterr().out.splitlines()) == counts[name]
