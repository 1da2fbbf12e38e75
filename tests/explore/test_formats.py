"""The picture of a number in few bits beside torch's own conversions."""

from typing import Any

import pytest
import torch

from lockstep.experiments.demos.fp8_and_fp4 import mxfp8, nvfp4, per_tensor
from lockstep.experiments.demos.rounding import added_up
from lockstep.explore import formats
from lockstep.explore.settings import read

TORCHS = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "e5m2": torch.float8_e5m2,
    "e4m3": torch.float8_e4m3fn,
}
TIMES: list[int] = formats.SETTINGS[2].values  # type: ignore[assignment]


def drawn(text: str) -> Any:
    """The scene of some settings."""
    return formats.draw(read(formats.SETTINGS, text))


@pytest.mark.parametrize("name", TORCHS)
def test_the_picture_stores_what_torch_stores(name: str) -> None:
    """For each number on the slider: what it becomes in a format, and the bits
    that are drawn, are those of torch's conversion."""
    width = torch.empty((), dtype=TORCHS[name]).element_size()
    code: Any = {4: torch.int32, 2: torch.int16, 1: torch.uint8}[width]
    for number in formats.NUMBERS:
        [row] = [one for one in formats.rows(number, 1) if one.label == name]
        stored = torch.tensor(number).to(TORCHS[name])
        assert row.nearest(number) == float(stored)
        if name != "fp32":
            lanes = formats.bits(formats.rows(number, 1), number)
            digits = "".join(bar[3] for bar in dict(lanes)[name])
            assert int(digits, 2) == int(stored.view(code))


def test_scaled_rows_are_what_the_demo_makes_of_a_block() -> None:
    """A block of your number and one that is larger, in FP8 with a scale for
    the tensor, in MXFP8 and in NVFP4: what the picture says your number becomes
    is what torch's FP8, with the same scales, makes of it."""
    makes = {"scaled": per_tensor, "MXFP8": mxfp8, "NVFP4": nvfp4}
    for number in (0.001, 0.3, 1.7, 470.0):
        for times in TIMES:
            block = torch.full((1, 32), number)
            block[0, ::16] = number * times  # one in each block of 16
            for row in formats.rows(number, times)[5:]:
                found = float(makes[row.label](block)[0, 1])
                assert row.nearest(number) == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("number", [0.3, 1, 257, 448, 65520, 70000])
@pytest.mark.parametrize("times", [1, 5, 100000])
def test_what_is_rounded_alike_is_drawn_as_one(
    number: float, times: int
) -> None:
    """Points all along the axis become in each format what is written in the
    bar they lie in, and yours lies in the marked one."""
    low = 2.0 ** (formats.frexp(number)[1] - 1)
    for row in formats.rows(number, times):
        bars = formats.neighbors(row, number)
        if bars[0][2] == "fine":
            continue
        ends = [end for _, end, _, _ in bars]
        assert (bars[0][0], ends[-1]) == (0, pytest.approx(low))
        for start, end, kind, words in bars:
            for part in (0.01, 0.5, 0.99):
                found = row.nearest(low + start + part * (end - start))
                said = "infinity" if words == "infinity" else float(words)
                if words == "infinity":
                    assert found == float("inf")
                else:
                    assert found == pytest.approx(said, rel=1e-3)
            mine = start <= number - low < end
            assert mine == (kind == "yours") or number - low in (start, end)


@pytest.mark.parametrize("name", TORCHS)
def test_a_thousand_add_up_as_in_torch(name: str) -> None:
    """The sum of 1,000 of each number on the slider, each sum so far rounded,
    is what a torch tensor of that format comes to."""
    [held] = [one for one in formats.PLAIN if one.name == name]
    every = torch.tensor(formats.NUMBERS).to(TORCHS[name]).float()
    sums = added_up(every.expand(formats.TIMES, -1), TORCHS[name])
    for number, total in zip(formats.NUMBERS, sums.tolist(), strict=True):
        assert formats.added(held, number, False) == total


def test_a_sum_rounded_by_chance_comes_near() -> None:
    """1,000 × 0.3 added up in bf16 stops at 128, and in fp16 reaches 274.
    Rounded by chance, both come within 5 % of the 300.8 and 300.05 that 1,000
    of the stored number are."""
    said = dict(drawn("look:sum").panels[0].rows)
    assert said["in bf16"][0][1] == 128
    assert said["in fp16"][0][1] == 274.25
    said = dict(drawn("look:chance").panels[0].rows)
    assert said["in bf16"][0][1] == pytest.approx(300.8, rel=0.05)
    assert said["in fp16"][0][1] == pytest.approx(300.05, rel=0.05)
