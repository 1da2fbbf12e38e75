"""FLOPs that are counted without computing them."""

import pytest

from lockstep.experiments.gpu.decoder import Decoder
from lockstep.experiments.gpu.settings import Shape
from lockstep.instruments.flops import flops_per_token, mfu

SHAPE = Shape()
SEQUENCE = 4096


@pytest.fixture(scope="module")
def counted() -> float:
    """FLOPs per token of a decoder with the shape of Llama 3.2 1B."""
    return flops_per_token(lambda: Decoder(SHAPE), SEQUENCE)


def test_a_decoder_takes_six_flops_per_parameter_and_token(
    counted: float,
) -> None:
    """Each weight of a matrix takes 6 FLOPs per token, the table that is both
    embedding and output layer included, and attention adds 12 x layers x hidden
    x sequence."""
    h, kv = SHAPE.hidden, SHAPE.kv_heads * SHAPE.hidden // SHAPE.heads
    layer = 2 * h * h + 2 * h * kv + 3 * h * SHAPE.ffn
    weights = SHAPE.layers * layer + SHAPE.vocab * h
    assert weights == pytest.approx(1.236e9, rel=1e-3)
    attention = 12 * SHAPE.layers * h * SEQUENCE
    assert counted == 6 * weights + attention


def test_mfu_is_the_share_of_all_gpus_peak(counted: float) -> None:
    """52,031 tokens/s on one H200 with 989 TFLOP/s are 47 %, and as many on
    two are half of that."""
    share = mfu(counted, 52031, 1, 989e12)
    assert share == pytest.approx(0.475, abs=0.001)
    assert mfu(counted, 52031, 2, 989e12) == share / 2
