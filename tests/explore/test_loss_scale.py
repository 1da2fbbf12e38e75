"""The picture of a loss scale beside torch's GradScaler and its fp16."""

from typing import Any

import pytest
import torch

from lockstep.explore import loss_scale
from lockstep.explore.settings import read

STEPS = 1500


def scaled(values: dict[str, Any], steps: int) -> tuple[list[float], list[int]]:
    """The scale of each step, and which steps were skipped, of a GradScaler
    whose gradient is the largest one that the picture takes."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], 0.0)
    scaler = torch.amp.GradScaler(
        "cpu",
        init_scale=2.0 ** values["first"],
        backoff_factor=2.0 ** -values["backoff"],
        growth_interval=values["interval"],
    )
    scales, skipped = [], []
    for step in range(steps):
        exponent = values["middle"] + loss_scale.LARGEST * values["width"]
        bad = values["bad"]
        if bad < loss_scale.NAN and step % loss_scale.EVERY == 499:
            exponent += bad
        broken = bad == loss_scale.NAN and step >= loss_scale.BROKEN
        gradient = float("nan") if broken else 2.0**exponent
        scale = scaler.scale(torch.ones(())).item()
        scales.append(scale)
        weight.grad = torch.tensor([gradient * scale]).half().float()
        scaler.step(optimizer)
        scaler.update()
        if not weight.grad.isfinite().all():
            skipped.append(step)
    return scales, skipped


@pytest.mark.parametrize(
    "text",
    [
        "interval:100",
        "interval:100,backoff:4",
        "interval:200,bad:12",
        "interval:500,width:5",
        "first:40,bad:0",
        "interval:1000,middle:-8",
        "bad:99",
    ],
)
def test_a_scale_moves_as_grad_scalers_does(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over 1,500 steps with bad batches, with a scale that begins too high and
    with a loss that stays NaN: the scale of each step, and which steps are
    skipped, are those of torch's GradScaler, down to a scale of 0."""
    monkeypatch.setattr(loss_scale, "BROKEN", 600)
    values = read(loss_scale.SETTINGS, text)
    scales: list[float] = []
    skipped: list[int] = []
    for start, end, scale, last in loss_scale.run(values, STEPS):
        low = scale < loss_scale.LOWEST
        scales += [0.0 if low else 2.0**scale] * (end - start)
        skipped += range(end - last, end)
    assert (scales, skipped) == scaled(values, STEPS)
    assert len(skipped) > 0


def test_shares_of_gradients_are_those_of_fp16() -> None:
    """The picture's shares of gradients that become 0, lose bits or keep them
    equal those of 200,000 drawn gradients stored in fp16, to a hundredth."""
    chance = torch.Generator().manual_seed(0)
    drawn = torch.randn(200_000, generator=chance, dtype=torch.float64)
    for text in ("", "middle:-34", "width:2", "middle:-16,width:5"):
        values = read(loss_scale.SETTINGS, text)
        sizes = (values["middle"] + values["width"] * drawn).exp2()
        for scale in (0, 8, 16):
            stored = (sizes * 2.0**scale).half()
            zero = (stored == 0).double().mean()
            normal = (stored >= torch.finfo(torch.half).tiny).double().mean()
            found = loss_scale.shares(values, scale)
            assert found[0] == pytest.approx(float(zero), abs=0.01)
            assert found[2] == pytest.approx(float(normal), abs=0.01)
            assert sum(found) == pytest.approx(1)


def test_the_picture_counts_what_is_skipped() -> None:
    """Stretches follow one another over all steps, and the bars show an update
    where nothing was skipped. A NaN from step 3,000 on takes 167 skipped steps
    to bring the scale from 2^17 to 0, one more than from 2^16. A scale that
    begins with 2^40 skips the first 17 steps."""
    for _, _, text in loss_scale.SCENES:
        values = read(loss_scale.SETTINGS, text)
        found = loss_scale.run(values)
        assert [end for _, end, _, _ in found[:-1]] == [
            start for start, *_ in found[1:]
        ]
        assert (found[0][0], found[-1][1]) == (0, loss_scale.STEPS)
        bars = loss_scale.updates(found)
        skips = any(last for *_, last in found)
        assert skips == any(kind == "skipped" for _, _, kind, _ in bars)
    found = loss_scale.run(read(loss_scale.SETTINGS, "bad:99"))
    zero = next(start for start, _, scale, _ in found if scale < -149)
    assert zero - loss_scale.BROKEN == 17 + 149 + 1
    found = loss_scale.run(read(loss_scale.SETTINGS, "first:40"))
    alone = [last for start, end, _, last in found[:18] if end - start == 1]
    assert alone == [1] * 17


def test_doubling_sooner_saves_bits_and_costs_updates() -> None:
    """With a bad batch in 500, a scale that doubles after 2,000 good steps
    stays low: 3 updates are skipped and 23 % of gradients lose bits. After 100
    good steps it comes back at once: 74 are skipped and 1 % loses bits."""
    usual = dict(loss_scale.draw(read(loss_scale.SETTINGS, "")).numbers)
    sooner = read(loss_scale.SETTINGS, "interval:100")
    found = dict(loss_scale.draw(sooner).numbers)
    assert usual["updates skipped"] == "3 of 10,000"
    assert usual["lose bits at the end"] == "23 %"
    assert found["updates skipped"] == "74 of 10,000"
    assert found["lose bits at the end"] == "1 %"
