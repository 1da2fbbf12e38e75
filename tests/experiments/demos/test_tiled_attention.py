"""What the chapter on compilation says of tiles, pieces and precision."""

from functools import partial

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from lockstep.experiments.demos.tiled_attention import (
    errors,
    largest,
    online_softmax_sum,
    pieces,
    plain_attention,
    plain_loss,
    tensors,
    tiled,
)


@pytest.mark.parametrize("tile", [1, 7, 64])
def test_online_softmax_is_softmax(tile: int) -> None:
    """A softmax that sees its scores a tile at a time, and scales what it has
    summed whenever a larger score comes, is the softmax of all of them."""
    scores, values = tensors((50, 1), (50, 8))
    s, v = scores.detach()[:, 0] * 30, values.detach()
    assert torch.allclose(
        online_softmax_sum(s, v, tile), s.softmax(0) @ v, atol=1e-6
    )


@pytest.mark.parametrize(("length", "tile"), [(50, 16), (64, 16), (40, 64)])
def test_attention_in_tiles_is_attention(length: int, tile: int) -> None:
    """Causal attention in tiles, with lengths that tiles divide and do not,
    has the output and the three gradients of plain attention, in fp64."""
    q, k, v = (
        x.detach().double().requires_grad_()
        for x in tensors(*[(length, 8)] * 3)
    )
    weights = torch.arange(length * 8).reshape(length, 8).double().sin()
    outputs, gradients = [], []
    for way in (plain_attention, lambda *x: tiled(*x, tile)):
        out = way(q, k, v)
        outputs.append(out)
        gradients.append(torch.autograd.grad((out * weights).sum(), (q, k, v)))
    assert torch.allclose(*outputs, atol=1e-12)
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_tiles_never_hold_all_scores() -> None:
    """From 256 to 512 tokens, the largest tensor of plain attention, forward
    and backward, grows from 256² to 512² numbers. In tiles of 16 it grows from
    256 x 16 to 512 x 16, the size of an input."""
    for length in (256, 512):
        inputs = tensors(*[(length, 16)] * 3)
        assert largest(partial(plain_attention, *inputs)) == length**2
        assert largest(partial(tiled, *inputs)) == length * 16


@pytest.mark.parametrize("piece", [32, 100, 256])
def test_a_loss_in_pieces_is_the_loss(piece: int) -> None:
    """A cross-entropy taken in pieces of the tokens has the loss and both
    gradients of the whole, in fp64, also where pieces do not divide."""
    x, weight = (
        t.detach().double().requires_grad_()
        for t in tensors((256, 16), (1000, 16))
    )
    targets = torch.arange(256) * 3
    losses, gradients = [], []
    for way in (plain_loss, lambda *g: pieces(*g, piece)):
        loss = way(x, weight, targets)
        losses.append(loss)
        gradients.append(torch.autograd.grad(3 * loss, (x, weight)))
    assert torch.allclose(*losses, atol=1e-12)
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_pieces_never_hold_all_logits() -> None:
    """The largest tensor of a loss over 256 tokens and 1,000 words has 256,000
    numbers, and in pieces of 32 tokens 32,000."""
    x, weight = tensors((256, 16), (1000, 16))
    targets = torch.arange(256)
    assert largest(lambda: plain_loss(x, weight, targets)) == 256_000
    assert largest(lambda: pieces(x, weight, targets)) == 32_000


def test_a_kernel_may_err_as_much_as_the_plain_version_does() -> None:
    """Both attention in tiles and plain attention, in bf16, are held against
    plain attention in fp64. The tiles' error is less than twice the plain
    one's, and a kernel that forgets to scale exceeds that ten times over."""
    inputs = [x.detach() for x in tensors(*[(256, 16)] * 3)]
    mine, plain = errors(tiled, plain_attention, *inputs)
    assert 0 < mine < 2 * plain
    wrong, _ = errors(
        lambda q, k, v: tiled(2 * q, k, v), plain_attention, *inputs
    )
    assert wrong > 20 * plain


def test_another_order_of_sums_gives_other_bits() -> None:
    """Attention in tiles equals itself to the last bit when it is run again,
    and differs from plain attention in some bits, in fp32."""
    inputs = [x.detach() for x in tensors(*[(256, 16)] * 3)]
    one = tiled(*inputs)
    assert torch.equal(one, tiled(*inputs))
    assert not torch.equal(one, plain_attention(*inputs))
    assert torch.allclose(one, plain_attention(*inputs), atol=1e-5)


def test_a_mask_of_three_dimensions_takes_no_flash_kernel() -> None:
    """On the CPU, torch's flash kernel takes a mask of two or four dimensions
    and refuses one of three, which the call without a forced kernel accepts
    by taking the plain one."""
    q = torch.randn(2, 3, 16, 8)
    mask = torch.zeros(16, 16)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        scaled_dot_product_attention(q, q, q, mask)
        scaled_dot_product_attention(q, q, q, mask[None, None])
        with pytest.raises(RuntimeError):
            scaled_dot_product_attention(q, q, q, mask[None])
    scaled_dot_product_attention(q, q, q, mask[None])
