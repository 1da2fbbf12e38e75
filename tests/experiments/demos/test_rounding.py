"""What the chapter on low precision says of rounding, shown by torch."""

from operator import methodcaller
from typing import Any

import pytest
import torch
from torch import nn

from lockstep.experiments.demos import rounding
from lockstep.experiments.demos.rounding import (
    BF16,
    E4M3,
    E5M2,
    FP32,
    added_up,
    after,
    error,
    narrow,
    stochastic,
)

FP16 = torch.float16


def stored(x: float, held: torch.dtype) -> float:
    """What a number becomes."""
    return float(torch.tensor(x).to(held))


def test_three_tenths_in_e4m3_is_0_3125() -> None:
    """0.3 lies between 0.28125 and 0.3125 in e4m3, and becomes 0.3125, whose
    code is 0 0101 010; e5m2 has the neighbors 0.25 and 0.3125."""
    assert stored(0.3, E4M3) == stored(0.3, E5M2) == 0.3125
    assert int(torch.tensor(0.3).to(E4M3).view(torch.uint8)) == 0b0_0101_010
    for low, middle, held in ((0.28125, 0.296875, E4M3), (0.25, 0.28125, E5M2)):
        assert stored(middle * 0.999, held) == low
        assert stored(middle * 1.001, held) == 0.3125


# Factors and sums


def test_rounded_sums_get_worse_with_length_and_factors_do_not() -> None:
    """Dot products of random vectors: with factors in bf16 or e4m3 and sums in
    fp32, 4,096 terms have the error of 16. With exact factors and a sum in
    bf16 the error grows more than tenfold, past that of factors in e4m3."""
    for factors in (BF16, E4M3):
        short, long = error(16, factors, FP32), error(4096, factors, FP32)
        assert 0.5 * short < long < 1.2 * short
    short, long = error(16, FP32, BF16), error(4096, FP32, BF16)
    assert long > 10 * short
    assert long > 2 * error(4096, E4M3, FP32)
    assert error(4096, FP32, E4M3) > 0.5


def test_an_update_below_half_a_spacing_is_lost() -> None:
    """A weight of 1 to which 1/256 or less is added 1,000 times in bf16 stays
    1, and in fp16 the same is true of 1/2,048. With 1/100 a bf16 weight comes
    to 4 instead of 11 and stays there."""
    for held, limit in (("bfloat16", 256), ("half", 2048)):
        rounded = methodcaller(held)
        for ratio in (limit, 2 * limit):
            assert after(1000, 1.0, 1 / ratio, rounded) == 1
        assert after(1000, 1.0, 0.9 / limit, rounded) == 1
        assert after(9, 1.0, 1.1 / limit, rounded) > 1
    assert after(1000, 1.0, 0.01, methodcaller("bfloat16")) == 4
    assert after(1000, 1.0, 0.01, lambda x: x) == pytest.approx(11, rel=1e-4)


def test_stochastic_rounding_keeps_updates_on_average() -> None:
    """Rounded by chance, 100,000 equal numbers become their two bf16 neighbors
    with the right mean, a number that bf16 holds stays what it is, and 1,000
    updates that bf16 would lose arrive, to a tenth."""
    chance = torch.Generator().manual_seed(0)
    for x in (1.001, -0.3, 7e-5):
        found = stochastic(torch.full((100_000,), x), chance).double()
        assert len(found.unique()) == 2
        assert float(found.mean()) == pytest.approx(x, rel=1e-4)
    exact = torch.tensor([1.5, -0.25, 0.0])
    assert torch.equal(stochastic(exact, chance).float(), exact)
    for ratio in (256, 512, 1000):
        arrived = after(1000, 1.0, 1 / ratio, lambda x: stochastic(x, chance))
        assert arrived == pytest.approx(1 + 1000 / ratio, rel=0.1)


def test_an_accumulator_of_14_bits_loses_with_length() -> None:
    """4,096 products of e4m3 numbers of one sign, added in an accumulator of 14
    bits, are off by about 0.3 %. Moved into fp32 after each 128 of
    them, they are off by less than a hundredth of that."""
    chance = torch.Generator().manual_seed(0)
    a, b = torch.rand(2, 4096, 256, generator=chance).to(E4M3).float()
    exact = (a.double() * b.double()).sum(0)
    whole = (narrow(a * b, 14) - exact) / exact
    parts = (narrow(a * b, 14, every=128) - exact) / exact
    assert 0.002 < float(whole.square().mean().sqrt()) < 0.005
    assert parts.square().mean() < 1e-4 * whole.square().mean()


# What stays in fp32


def test_a_softmax_summed_in_bf16_stops_at_256() -> None:
    """A sum of 50,000 exponentials that are 1 each comes to 256 in bf16, so the
    loss of a uniform guess would be 5.5 instead of 10.8. torch's own
    log_softmax in bf16 adds in fp32 and is right."""
    total = float(added_up(torch.ones(50_000), BF16))
    assert total == 256
    assert float(torch.tensor(total).log()) == pytest.approx(5.5, abs=0.1)
    right = -torch.zeros(50_000, dtype=BF16).log_softmax(0)[0]
    assert float(right) == pytest.approx(10.8, abs=0.05)


def test_a_norm_squared_in_fp16_overflows() -> None:
    """The sum of squares of 4,096 activations of 16 is 2^20, which fp16 holds
    as infinity; so does the exponential of a logit of 11.1."""
    squares = torch.full((4096,), 16.0).square()
    assert float(added_up(squares, FP16)) == float("inf")
    assert float(squares.sum()) == 2**20
    assert stored(2.0**20, FP16) == float("inf")
    assert float(torch.tensor(11.1).exp().half()) == float("inf")


def test_bf16_cannot_tell_position_256_from_257() -> None:
    """Position 257 in bf16 is 256, and of the positions up to 8,192 bf16
    tells 897 apart."""
    assert stored(257, BF16) == stored(256, BF16) == 256
    assert len(torch.arange(8193).to(BF16).unique()) == 257 + 128 * 5


def test_a_loss_in_bf16_moves_in_steps_of_a_64th() -> None:
    """Between 2 and 4 the numbers of bf16 are 1/64 apart, so that losses of
    2.30 and 2.31 are the same."""
    assert stored(2.30, BF16) == stored(2.304, BF16) == 2.296875
    assert stored(2.305, BF16) == 2.296875 + 1 / 64


def test_autocast_keeps_the_loss_in_fp32() -> None:
    """Under autocast to bf16 a linear layer's output is bf16, and the cross
    entropy of it is fp32."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = nn.Linear(4, 3)(torch.ones(2, 4))
        loss = nn.functional.cross_entropy(logits, torch.zeros(2).long())
    assert (logits.dtype, loss.dtype) == (BF16, FP32)


def test_autocast_casts_a_weight_once() -> None:
    """Two products with a weight in one autocast region save the same bf16
    copy of it for the backward pass. Another region makes another."""
    layer, saved = nn.Linear(4, 3, bias=False), list[torch.Tensor]()
    x = torch.ones(2, 4, requires_grad=True)

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype == BF16 and 3 in tensor.shape:
            saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, keep):
        for times in (2, 1):
            with torch.autocast("cpu", torch.bfloat16):
                for _ in range(times):
                    layer(x)
    first, second, third = (tensor.data_ptr() for tensor in saved)
    assert first == second != third


# Optimizer state


def second_moment(beta: float, held: torch.dtype) -> tuple[float, float]:
    """Adam's mean of squared gradients after 1,000 gradients of 1, and after
    3,000 of 0.01 that follow."""
    weight = nn.Parameter(torch.ones(1, dtype=held))
    optimizer = torch.optim.Adam([weight], lr=1e-4, betas=(0.9, beta))
    found = []
    for gradient, steps in ((1.0, 1000), (0.01, 3000)):
        for _ in range(steps):
            weight.grad = torch.full_like(weight, gradient)
            optimizer.step()
        found.append(float(optimizer.state[weight]["exp_avg_sq"]))
    return found[0], found[1]


def test_a_second_moment_in_bf16_never_falls() -> None:
    """Adam with beta2 of 0.999: when gradients become 100 times smaller, the
    mean of their squares falls below a tenth of it in fp32, and in bf16 it
    stays where it was to the last bit. With beta2 of 0.95 it falls as well."""
    before, later = second_moment(0.999, FP32)
    assert later < before / 10
    before, later = second_moment(0.999, BF16)
    assert later == before > 0.2
    before, later = second_moment(0.95, BF16)
    assert later < before / 1000


# What is shown on the page


@pytest.mark.parametrize("name", rounding.SHOWN)
def test_the_tables_have_a_line_for_each_case(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """What the page shows can be printed, with a line for each format."""
    monkeypatch.setattr(rounding, "LENGTHS", (16,))
    rounding.SHOWN[name]()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == {"formats": 7, "products": 5, "updates": 6}[name]
