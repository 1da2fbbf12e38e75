"""Triangle updates: as the supplement writes them, the same in chunks and by
torch's own attention, and what each way keeps."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from lockstep.bio import pair
from lockstep.bio.pair_sharding import saved

N, C = 6, 8


def drawn(n: int = N, channels: int = C) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    size = n, n, channels
    return torch.randn(size, generator=generator, dtype=torch.float64)


def layer(kind: type[nn.Module], **given: Any) -> Any:
    torch.manual_seed(0)
    made = kind(C, **given).double()
    for weight in made.parameters():  # norms too, which begin as ones and zeros
        nn.init.normal_(weight, std=0.5)
    return made


def test_multiplication_around_outgoing_edges_is_algorithm_11() -> None:
    one, z = layer(pair.TriangleMultiplication), drawn()
    x = one.norm(z)
    a = torch.sigmoid(one.gate_a(x)) * one.a(x)
    b = torch.sigmoid(one.gate_b(x)) * one.b(x)
    g = torch.sigmoid(one.gate(x))
    found = one(z)
    for i in range(N):
        for j in range(N):
            total = sum((a[i, k] * b[j, k] for k in range(N)), torch.zeros(C))
            right = g[i, j] * one.out(one.norm_out(total))
            assert (found[i, j] - right).abs().max() < 1e-12


def test_multiplication_around_incoming_edges_is_algorithm_12() -> None:
    """Of the transpose, with a and b the other way round."""
    one, z = layer(pair.TriangleMultiplication), drawn()
    x = one.norm(z)
    b = torch.sigmoid(one.gate_a(x)) * one.a(x)
    a = torch.sigmoid(one.gate_b(x)) * one.b(x)
    g = torch.sigmoid(one.gate(x))
    found = one(z.transpose(0, 1)).transpose(0, 1)
    for i in range(N):
        for j in range(N):
            total = sum((a[k, i] * b[k, j] for k in range(N)), torch.zeros(C))
            right = g[i, j] * one.out(one.norm_out(total))
            assert (found[i, j] - right).abs().max() < 1e-12


@pytest.mark.parametrize("ending", [False, True])
def test_attention_is_algorithm_13_and_of_the_transpose_14(
    ending: bool,
) -> None:
    """Triangle attention gives what AlphaFold 2's Algorithm 13, written as
    loops, gives, and Algorithm 14 for the transposed pair matrix, within
    10⁻¹²."""
    one, z = layer(pair.TriangleAttention, heads=2, head_dim=3), drawn()
    x = one.norm(z)
    q, k, v = (w(x).unflatten(-1, (2, 3)) for w in (one.q, one.k, one.v))
    b, g = one.bias(x), torch.sigmoid(one.gate(x))
    turn = (lambda x: x.transpose(0, 1)) if ending else (lambda x: x)
    found = turn(one(turn(z)))
    for i in range(N):
        for j in range(N):
            heads = []
            for h in range(2):
                if ending:
                    scores = k[:, j, h] @ q[i, j, h] / 3**0.5 + b[:, i, h]
                    values = v[:, j, h]
                else:
                    scores = k[i, :, h] @ q[i, j, h] / 3**0.5 + b[j, :, h]
                    values = v[i, :, h]
                heads.append(scores.softmax(0) @ values)
            right = one.out(g[i, j] * torch.cat(heads))
            assert (found[i, j] - right).abs().max() < 1e-12


def test_a_block_is_its_five_updates_in_a_row() -> None:
    one, z = layer(pair.PairBlock, heads=2, head_dim=4), drawn()
    right = z + one.outgoing(z)
    right = right + one.incoming(right.transpose(0, 1)).transpose(0, 1)
    right = right + one.starting(right)
    right = right + one.ending(right.transpose(0, 1)).transpose(0, 1)
    x = one.transition.norm(right)
    right = right + one.transition.down(F.relu(one.transition.up(x)))
    assert (one(z) - right).abs().max() < 1e-12


def gradients(attend: pair.Attend) -> tuple[Tensor, dict[str, Tensor | None]]:
    """The update, and the gradients of all weights, by this attention."""
    one = layer(pair.TriangleAttention, heads=2, head_dim=3, attend=attend)
    out = one(drawn())
    out.square().sum().backward()
    return out.detach(), {name: p.grad for name, p in one.named_parameters()}


@pytest.mark.parametrize(
    "way", [pair.sdpa, lambda *given: pair.in_chunks(*given, rows=4)]
)
def test_chunks_and_torchs_own_attention_are_the_same(way: pair.Attend) -> None:
    right, expected = gradients(pair.attend)
    out, found = gradients(way)
    assert (out - right).abs().max() < 1e-12
    for name, grad in found.items():
        other = expected[name]
        assert grad is not None
        assert other is not None
        assert (grad - other).abs().max() < 1e-12 * max(1, other.abs().max())


def test_a_detached_bias_never_learns() -> None:
    """The same update, and no error: half of the weights' gradients differ."""
    right, expected = gradients(pair.attend)
    out, found = gradients(pair.sdpa_detached)
    assert (out - right).abs().max() < 1e-12
    assert expected["bias.weight"] is not None
    assert found["bias.weight"] is None


def three_axes(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """As `pair.sdpa`, with the bias as it is."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)


def is_flash(way: pair.Attend, bias_learns: bool, trains: bool) -> bool:
    """Whether torch takes its flash kernel, and not its plain path, for
    tensors with memory."""
    q, k, v = (torch.randn(3, 2, 16, 8, requires_grad=trains) for _ in range(3))
    bias = torch.randn(2, 16, 16, requires_grad=bias_learns)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        way(q, k, v, bias)
    called = {event.key for event in seen.key_averages()}
    plain = "aten::_scaled_dot_product_attention_math" in called
    flash = "aten::_scaled_dot_product_flash_attention_for_cpu" in called
    assert plain != flash
    return flash


@pytest.mark.parametrize("trains", [False, True])
def test_torchs_flash_kernel_is_not_taken_for_a_bias_that_learns(
    trains: bool,
) -> None:
    """PyTorch chooses its flash-attention kernel without a bias, and doesn't
    choose it with a bias that is trained."""
    assert is_flash(pair.sdpa, False, trains)
    assert not is_flash(pair.sdpa, True, trains)


@pytest.mark.parametrize("trains", [False, True])
def test_nor_for_a_mask_of_three_axes(trains: bool) -> None:
    """Which broadcasts to the same numbers, and learns nothing."""
    assert not is_flash(three_axes, False, trains)


def measured(way: pair.Attend, residues: int) -> int:
    """The peak of both passes in 16 bits, by what torch's allocator says of
    tensors that have memory."""
    layer = pair.TriangleAttention(attend=way).to(torch.bfloat16)
    for weight in layer.parameters():
        weight.grad = torch.zeros_like(weight)
    size = residues, residues, 128
    z = torch.randn(size, dtype=torch.bfloat16, requires_grad=True)
    with profile(
        activities=[ProfilerActivity.CPU], profile_memory=True
    ) as seen:
        layer(z * 1).sum().backward()
    now = peak = 0
    assert seen.profiler is not None
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak


def frozen(way: pair.Attend) -> pair.Attend:
    return lambda q, k, v, bias: way(q, k, v, bias.detach())


def expanded(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """As `pair.sdpa`, with the bias once for each row."""
    return three_axes(q, k, v, bias.expand(len(q), *bias.shape))


def expanded_whole(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """The linear layer's last axis is not the bias's, so it has gaps."""
    return expanded(q, k, v, bias.contiguous())


def test_peaks_of_tensors_with_memory_are_those_without() -> None:
    """And a mask that is expanded to all rows is copied: the cube again."""
    same = (
        (pair.attend, pair.attend),
        (pair.sdpa, pair.sdpa),
        (frozen(three_axes), pair.sdpa),
        (frozen(pair.sdpa), pair.sdpa_detached),
        (pair.in_chunks, pair.in_chunks),
    )
    for way, without in same:
        with torch.device("meta"):
            layer = pair.TriangleAttention(attend=without)
        told = pair.of_layer(layer, 128).peak
        assert measured(way, 128) == pytest.approx(told, rel=0.04)
    least = measured(frozen(pair.sdpa), 128)
    more = measured(frozen(expanded), 128) - least
    assert more == pytest.approx(4 * 128**3 * 2, rel=0.05)
    assert measured(frozen(expanded_whole), 128) < 1.05 * least


def kept(way: pair.Attend, dtype: torch.dtype = torch.float32) -> int:
    """Bytes that autograd keeps of 64 residues, of tensors that have memory."""
    torch.manual_seed(0)
    one = pair.TriangleAttention(attend=way).to(dtype)
    z = torch.randn(64, 64, 128, dtype=dtype, requires_grad=True)
    return saved(one, lambda: one(z * 1))


def test_torchs_attention_keeps_the_scores_of_a_bias_that_learns() -> None:
    """In 16 bits it keeps them in 32, and what it has cast besides."""
    numbers = 4 * 64**3
    for dtype, more in ((torch.float32, 1), (torch.bfloat16, 3)):
        scores = numbers * dtype.itemsize
        chunks = kept(pair.in_chunks, dtype)
        assert kept(pair.attend, dtype) - chunks > 0.9 * scores
        assert kept(pair.sdpa, dtype) - chunks > 0.9 * more * scores
    fused = kept(pair.sdpa_detached)
    assert kept(pair.in_chunks) < fused < kept(pair.attend) - 0.9 * 4 * numbers


@pytest.fixture(scope="module")
def counted() -> dict[str, list[Any]]:
    """By way, of 128 and of 256 residues, in 16 bits and without memory."""
    with torch.device("meta"):
        return {
            name: [
                pair.of_layer(pair.TriangleAttention(attend=way), n)
                for n in (128, 256)
            ]
            for name, (way, _) in pair.WAYS.items()
        }


def test_the_efficient_kernels_gradient_has_a_bias_for_every_row(
    counted: dict[str, list[Any]],
) -> None:
    """The efficient kernel keeps memory that grows with the square of the
    length; the cube appears only in its peak."""
    scores = 4 * 256**3 * 2
    small, large = counted["efficient kernel"]
    assert large.kept == pytest.approx(4 * small.kept, rel=0.01)
    peaks = {name: both[1].peak for name, both in counted.items()}
    more = peaks["efficient kernel"] - peaks["sdpa, bias detached"]
    assert more == pytest.approx(scores, rel=0.1)


@pytest.mark.parametrize("name", [n for n, (_, p) in pair.WAYS.items() if p])
def test_what_is_kept_without_memory_is_what_is_planned(
    name: str, counted: dict[str, list[Any]]
) -> None:
    """But for the norm's means and deviations, and the loss."""
    way = pair.WAYS[name][1]
    plan = pair.planned(256, attention=way)
    beside = plan["scores_bytes"].value
    right = 8 * plan["pair_bytes"].value + beside
    assert counted[name][1].kept == pytest.approx(right, rel=0.01)
    assert counted[name][1].kept >= right


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    pair.main()
    rows = capsys.readouterr().out.splitlines()
    found = {row[:22].strip(): row[22:].split() for row in rows[2:]}
    assert list(found) == [*pair.WAYS, "multiplication", "its scores, planned"]
    assert found["its scores, planned"] == ["134", "1074"]
