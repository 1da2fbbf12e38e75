"""The planner's number formats beside torch's conversions."""

from typing import Any

import pytest
import torch

from lockstep.experiments.demos.fp8_and_fp4 import e2m1
from lockstep.planner import floats
from lockstep.planner.floats import E2M1, E4M3, E5M2, FP16, FP32, Format

TORCHS = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "e5m2": torch.float8_e5m2,
    "e4m3": torch.float8_e4m3fn,
}
CODES = {4: torch.int32, 2: torch.int16, 1: torch.uint8}
PLAIN = [one for one in floats.FORMATS if one.name in TORCHS]


def numbers(around: Format) -> list[float]:
    """Of all sizes that a format can hold and beyond, all halves between
    neighbors among them; each one that fp32 can hold."""
    chance = torch.Generator().manual_seed(0)
    sizes = torch.randn(3000, generator=chance) * 8
    signs = torch.randint(0, 2, (3000,), generator=chance) * 2 - 1
    found = [sizes.exp2() * signs, sizes, 1000 * sizes]
    steps = torch.arange(0.0, 64.0) / 2
    found += [steps * around.smallest, steps * around.spacing(1) + 1]
    found += [around.largest * (1 + steps * around.spacing(1) / 4)]
    return torch.cat(found).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", TORCHS)
def test_a_format_rounds_as_torch_does(name: str) -> None:
    """For numbers of all sizes, halves between neighbors and what overflows
    among them, the planner's fp32, bf16, fp16, e5m2 and e4m3 give the numbers,
    and the codes in bits, that torch's conversion gives."""
    [held] = [one for one in floats.FORMATS if one.name == name]
    given = numbers(held)
    stored = torch.tensor(given).to(TORCHS[name])
    assert [held.nearest(x) for x in given] == stored.double().tolist()
    width = 8 * stored.itemsize
    codes = stored.view(CODES[stored.itemsize]).tolist()
    for x, code in zip(given, codes, strict=True):
        bits = held.bits(held.nearest(x)).replace(" ", "")
        assert int(bits, 2) & ~(1 << (width - 1)) == code % 2 ** (width - 1)


@pytest.mark.parametrize("held", PLAIN, ids=lambda one: one.name)
def test_a_format_has_the_limits_that_torch_names(held: Format) -> None:
    """Largest, smallest normal and smallest number of each format, and the
    distance from 1 to its neighbor, are those of `torch.finfo`."""
    info = torch.finfo(TORCHS[held.name])
    assert (held.largest, held.normal) == (info.max, info.smallest_normal)
    assert held.spacing(1) == info.eps
    tiny: Any = torch.tensor(held.smallest).to(TORCHS[held.name])
    assert float(tiny) == held.smallest
    half = torch.tensor(held.smallest / 2).to(TORCHS[held.name])
    assert float(half) == held.nearest(held.smallest / 2) == 0


def test_e2m1_is_what_the_demo_rounds_to() -> None:
    """The format e2m1 holds 0, 0.5, 1, 1.5, 2, 3, 4 and 6, and both ways of
    rounding to it, the planner's and the demo's, agree."""
    given = [x / 64 for x in range(-512, 513)]
    mine = [E2M1.nearest(x) for x in given]
    assert mine == e2m1(torch.tensor(given)).tolist()
    assert sorted({abs(x) for x in mine}) == [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def test_stochastic_rounding_is_right_on_average() -> None:
    """Over 1,000 evenly spaced chances the mean of what a number becomes is the
    number, and each is one of its two neighbors."""
    for held in E4M3, E5M2, FP16, FP32:
        x = 1 + 0.3 * held.spacing(1)
        found = [held.random(x, (i + 0.5) / 1000) for i in range(1000)]
        assert set(found) == {1.0, 1 + held.spacing(1)}
        above = sum(one > 1 for one in found)
        assert above == 300


def test_a_scale_brings_the_largest_to_the_largest() -> None:
    """The largest number of a tensor or block, over its scale, is the format's
    largest; over an MX scale, which is a power of two, at most that and more
    than half of it."""
    for amax in (0.001, 1, 3.1, 447.9, 448, 449, 7e4):
        assert amax / floats.tensor_scale(amax, E4M3) == pytest.approx(448)
        assert amax / floats.nv_scale(amax, amax) == pytest.approx(6)
        power = floats.mx_scale(amax)
        as_e8m0 = torch.tensor(power).to(torch.float8_e8m0fnu)
        assert float(as_e8m0) == power
        assert 224 < amax / power <= 448
