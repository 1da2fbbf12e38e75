"""What the chapter on optimizers says of moments, noise and averages."""

import math

import pytest
import torch

from lockstep.experiments.demos.optimizers import (
    noise_scale,
    norms,
    scales,
    second_moment,
)


def test_a_bf16_second_moment_stops_half_way() -> None:
    """After 2,000 gradients of 1 AdamW's second moment is 0.86 in fp32. In bf16
    it stops at 0.5 where each of a step's two operations rounds, and at 0.25
    with fused=True, which rounds once."""
    right = 1 - 0.999**2000
    assert second_moment(torch.float32, 2000) == pytest.approx(right, rel=1e-3)
    for steps in 2000, 4000:
        assert second_moment(torch.bfloat16, steps) == 0.5
        assert second_moment(torch.bfloat16, steps, fused=True) == 0.25


def test_noise_moves_adamw_by_a_quarter_of_its_rate() -> None:
    """Weights whose gradients are drawn around 0 move by 0.23 of AdamW's rate
    in a step, as a root mean square: with a beta of 0.9, √(0.1 / 1.9)."""
    chance = torch.Generator().manual_seed(0)
    weight = torch.zeros(10_000, requires_grad=True)
    adam = torch.optim.AdamW([weight], lr=1, weight_decay=0)
    before = weight.detach().clone()
    for _ in range(200):
        before.copy_(weight.detach())
        weight.grad = torch.randn(10_000, generator=chance)
        adam.step()
    moved = (weight.detach() - before).square().mean().sqrt().item()
    assert moved == pytest.approx(math.sqrt(0.1 / 1.9), rel=0.03)


def test_the_noise_scale_is_found_from_ranks_gradients() -> None:
    """Gradients of samples are drawn around a true gradient, with a noise whose
    variance is 50 times its squared norm. From the norms of four ranks' means
    of 16 and of the mean of all, averaged over 200 steps, the noise scale comes
    out as 50 samples within a tenth."""
    chance = torch.Generator().manual_seed(0)
    size, share, ranks = 100, 16, 4
    true = torch.ones(size) / math.sqrt(size)  # of norm 1
    own = mean = 0.0
    for _ in range(200):
        drawn = torch.randn(ranks, share, size, generator=chance)
        grads = true + drawn * math.sqrt(50 / size)
        found = norms([[one] for one in grads.mean(1)])
        own, mean = own + found[0], mean + found[1]
    found_scale = noise_scale(own, mean, share, ranks)
    assert found_scale == pytest.approx(50, rel=0.1)


def test_the_noise_scale_rises_as_the_loss_falls() -> None:
    """In a small training on digits the loss falls to less than a fifth, and
    the noise scale rises by a fifth or more."""
    (loss, early), (end, late) = scales()
    assert end < loss / 5
    assert late > 1.2 * early > 0


def test_an_average_of_weights_forgets_half_in_ln_2_over_1_minus_decay() -> (
    None
):
    """An exponential average of weights with a decay of 0.999 has forgotten
    half of where it started after 693 steps, and with a decay of 0.9999 after
    6,931."""
    for decay in 0.999, 0.9999:
        steps = round(math.log(2) / (1 - decay))
        assert decay**steps == pytest.approx(0.5, abs=1e-3)
