"""What the chapter on low precision says of FP8 and FP4 with scales."""

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.experiments.demos.fp8_and_fp4 import (
    E4M3,
    E5M2,
    Delayed,
    Linear,
    e2m1,
    gathered_in_fp8,
    hadamard,
    mxfp8,
    nvfp4,
    per_row_of_128,
    per_square_of_128,
    per_tensor,
    tiled,
)
from lockstep.experiments.demos.low_precision_training import alike, asis
from lockstep.instruments.traffic import Traffic
from lockstep.trainer.process import joined
from tests import ranks

INF, NAN = float("inf"), float("nan")


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Random numbers of size 1."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def off(found: Tensor, exact: Tensor) -> float:
    """A relative error."""
    return float((found - exact).detach().norm() / exact.detach().norm())


# The formats


def test_torchs_cast_to_e4m3_saturates_even_infinity() -> None:
    """In this release of PyTorch, e4m3 turns values beyond 448, infinity
    included, into 448; NaN stays NaN. In e5m2, 61,440 and more is infinity."""
    given = torch.tensor([448.0, 449, 500, 1e9, INF, -INF])
    found = given.to(E4M3).float().tolist()
    assert found == [448, 448, 448, 448, 448, -448]
    assert torch.tensor(NAN).to(E4M3).float().isnan()
    given = torch.tensor([61439.0, 61440, INF])
    assert given.to(E5M2).float().tolist() == [57344, INF, INF]


@pytest.mark.parametrize(
    ("held", "coarse", "zero"),
    [(E4M3, 28_672, 458_752), (E5M2, 939_524_096, 7_516_192_768)],
)
def test_below_a_share_of_the_largest_nothing_is_left(
    held: Any, coarse: float, zero: float
) -> None:
    """With one scale for a tensor, numbers below a 458,752th of its largest
    become 0 in e4m3, and from a 28,672th upward all are as exact as e4m3 is.
    In e5m2 it is a 7.5-billionth and a 940-millionth."""
    worst = 2.0 ** (-4 if held == E4M3 else -3)
    for times, is_zero in ((1.001, True), (0.999, False)):
        x = torch.tensor([[1.0, 1 / (times * zero)]])
        assert (float(per_tensor(x, held)[0, 1]) == 0) == is_zero
    sizes = torch.linspace(1, 40, 2000) / coarse
    x = torch.cat([torch.ones(1), sizes])[None]
    share = ((per_tensor(x, held) - x) / x).abs()
    assert float(share.max()) <= worst * 1.001
    x[0, 1:] /= 40  # now all but one lie below the limit
    share = ((per_tensor(x, held) - x) / x).abs()
    assert float(share.max()) > 2 * worst


def test_e2m1_keeps_a_twelfth_of_the_largest() -> None:
    """With one scale, e2m1 rounds values below a 24th of the largest to 0, and
    a 12th is the smallest number that it keeps."""
    x = torch.tensor([1.0, 1 / 12, 1 / 23.9, 1 / 24.1])
    found = (e2m1(x * 6) / 6).tolist()
    assert found == [1.0, *[pytest.approx(1 / 12)] * 2, 0]


def test_e2m1_by_chance_is_right_on_average() -> None:
    """Rounded by chance, 100,000 equal numbers have the right mean, and are the
    two neighbors in e2m1; rounded to the nearest, 0.2 is always 0."""
    chance = torch.Generator().manual_seed(0)
    for x, pair in ((0.2, [0, 0.5]), (2.25, [2, 3]), (-4.5, [-6, -4])):
        found = e2m1(torch.full((100_000,), x), chance)
        assert found.unique().tolist() == pair
        assert float(found.mean()) == pytest.approx(x, abs=0.01)
    assert float(e2m1(torch.tensor(0.2))) == 0


def test_the_standards_mx_scale_clips_the_largest() -> None:
    """A block whose largest number is 500: the scale that the MX standard
    suggests is 1, and 500 becomes 448. Rounded up it is 2, and 500 becomes
    512. Of blocks of 32 random numbers the standard's scale clips about one in
    six, by up to an eighth."""
    block = torch.tensor([[500.0] + [1.0] * 31])
    assert mxfp8(block, upward=False)[0, 0] == 448
    assert mxfp8(block)[0, 0] == 512
    x = drawn(64, 1024)
    largest = x.unflatten(-1, (-1, 32)).abs().amax(-1)
    found = mxfp8(x, upward=False).unflatten(-1, (-1, 32)).abs().amax(-1)
    clipped = largest > largest.log2().floor().exp2() * 448 / 256
    assert 0.14 < float(clipped.float().mean()) < 0.2
    assert bool((found < largest)[clipped].all())
    assert 0.1 < float((1 - found / largest).max()) <= 0.125


def test_nvfp4s_block_scale_has_e4m3s_range() -> None:
    """A block whose largest number is a 400,000th of the tensor's largest keeps
    something in NVFP4. A 500,000th becomes 0, all of it, since its scale does.
    In MXFP8 it stays as exact as any."""
    for times, left in ((4e5, True), (5e5, False)):
        x = torch.ones(1, 64)
        x[0, 0] = times
        assert bool(nvfp4(x)[0, 32:].any()) == left
        assert off(mxfp8(x)[0, 32:], x[0, 32:]) < 0.04


# Scales by tensor and by block


def test_a_tile_does_not_feel_an_outlier_elsewhere() -> None:
    """One number a million times larger than the others takes all others to
    nearly nothing with one scale for the tensor. With a scale for each 128 of
    a row, only its own 128 suffer."""
    x = drawn(128, 256)
    x[0, 0] = 1e6
    tensor, rows = per_tensor(x), per_row_of_128(x)
    assert off(tensor[1:], x[1:]) > 0.9
    assert off(rows[1:], x[1:]) < 0.03
    assert off(rows[0, 128:], x[0, 128:]) < 0.03
    assert off(rows[0, 1:128], x[0, 1:128]) > 0.9


def test_a_norm_keeps_an_outlier_from_harming_other_tokens() -> None:
    """One number a million times larger than the others takes the other tokens
    to nearly nothing in FP8 with one scale. After an RMSNorm, which divides
    each token by its own size, they are as exact as e4m3 is."""
    x = drawn(128, 256)
    x[0, 0] = 1e6
    assert off(per_tensor(x)[1:], x[1:]) > 0.9
    normed = torch.nn.functional.rms_norm(x, (256,))
    assert off(per_tensor(normed)[1:], normed[1:]) < 0.03


def test_squares_of_weights_are_alike_both_ways() -> None:
    """The backward pass reads a weight along the other dimension. Rounded in
    squares of 128 (or, in NVFP4, of 16), a transposed weight is the transposed
    rounded weight. Rounded along rows it is another."""
    w = drawn(256, 256)
    for rounds in (per_square_of_128, lambda x: nvfp4(x, rows=16)):
        assert torch.equal(rounds(w.T.contiguous()).T, rounds(w))
    for rounds in (per_row_of_128, mxfp8, nvfp4):
        assert not torch.equal(rounds(w.T.contiguous()).T, rounds(w))


def gradients(recipe: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Output, and gradients of input and weight, of the linear layer."""
    x, w = (drawn(128, 256, seed=1), drawn(128, 256, seed=2))
    x.requires_grad_()
    w.requires_grad_()
    y = Linear.apply(x, w, recipe)
    y.backward(drawn(128, 128, seed=3))
    assert x.grad is not None
    assert w.grad is not None
    return y, x.grad, w.grad


def test_the_linear_layer_is_torchs_where_nothing_is_rounded() -> None:
    """With factors as they are, output and both gradients are those of
    autograd. With factors in FP8 they are off by a few percent, and by no
    more."""
    x, w = (drawn(128, 256, seed=1), drawn(128, 256, seed=2))
    x.requires_grad_()
    w.requires_grad_()
    y = x @ w.T
    y.backward(drawn(128, 128, seed=3))
    exact = y, x.grad, w.grad
    for found, wanted in zip(gradients(alike(asis)), exact, strict=True):
        assert wanted is not None
        assert torch.allclose(found, wanted, atol=1e-4)
    for rounds in (per_tensor, mxfp8):
        for found, wanted in zip(gradients(alike(rounds)), exact, strict=True):
            assert wanted is not None
            assert 0.01 < off(found, wanted) < 0.06


# Delayed scaling


def test_a_delayed_scale_clips_what_grows_and_keeps_an_old_spike() -> None:
    """After 16 tensors of size 1, one that is 8 times larger is clipped to an
    eighth; the next of its size is not. A single spike of a million keeps the
    scale large for as long as the history is, and until then the others are
    lost."""
    rounds = Delayed(length=16)
    x = drawn(64, 64).clamp(-1, 1)
    x[0, 0] = 1
    for _ in range(16):
        assert off(rounds(x), x) < 0.03 or len(rounds.history) == 1
    grown = 8 * x
    assert float(rounds(grown).abs().max()) == 1
    assert off(rounds(grown), grown) < 0.03
    spike = x.clone()
    spike[0, 0] = 1e6
    rounds(spike)
    errors = [off(rounds(x), x) for _ in range(20)]
    assert all(error > 0.9 for error in errors[:16])
    assert all(error < 0.03 for error in errors[16:])


# Hadamard


def test_a_hadamard_transform_spreads_an_outlier() -> None:
    """Multiplied by a random Hadamard matrix, 16 numbers of which one is 30
    times the others have no such number any more, and a product of two
    transformed matrices is the product."""
    mix = hadamard(16, torch.Generator().manual_seed(0))
    assert torch.allclose(mix @ mix.T, torch.eye(16), atol=1e-6)
    x, w = drawn(64, 16), drawn(32, 16, seed=1)
    x[:, 5] = 30
    size = x.square().mean(1).sqrt()
    assert (x.abs().amax(1) / size).mean() > 3.8
    assert ((x @ mix).abs().amax(1) / size).mean() < 1.6
    assert torch.allclose((x @ mix) @ (w @ mix).T, x @ w.T, atol=1e-4)


# Across ranks


def gathered(agree: bool) -> tuple[bool, int, list[float]]:
    """Whether a weight gathered in FP8 is the whole weight in FP8; the bytes
    that this rank sent to gather it; some of what came."""
    with joined(30, ranks.store()):
        whole = drawn(256, 128) * torch.linspace(1, 9, 256)[:, None]
        shard = whole.chunk(2)[dist.get_rank()]
        if not agree:
            own = tiled(shard, 128, 128)
            right = per_tensor(whole).chunk(2)[dist.get_rank()]
            return torch.equal(own, right), 0, []
        with Traffic() as traffic:
            found = gathered_in_fp8(shard)
        sent = sum(one.sent for one in traffic.calls if one.op == "all_gather")
        same = torch.equal(found, per_tensor(whole))
        return same, int(sent), found[::64, 0].tolist()


def test_shards_gathered_in_fp8_need_one_scale() -> None:
    """Two ranks agree on the largest number of a weight whose rows they share,
    round their shards and gather them in one byte a number. Both then hold
    what rounding the whole weight gives. Rounded by its own largest number, the
    shard without the largest would be another."""
    first, second = ranks.run_ranks(2, gathered, True)
    assert first == second
    same, sent, _ = first
    assert same
    assert sent == 128 * 128
    alone = ranks.run_ranks(2, gathered, False)
    assert [same for same, *_ in alone] == [False, True]
