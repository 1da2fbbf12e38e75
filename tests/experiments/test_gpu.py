"""What measures a GPU computes what it says, on a CPU and small sizes."""

import pytest
import torch
from torch import Tensor, nn

from lockstep.experiments.gpu import clock, kernels, repeated, steps
from lockstep.experiments.gpu.__main__ import trained
from lockstep.experiments.gpu.decoder import (
    Block,
    Decoder,
    Shape,
    angles,
    rotated,
)
from lockstep.planner.questions import ask

TINY = Shape(layers=2, hidden=64, heads=4, kv_heads=2, ffn=128, vocab=256)


def test_the_decoder_has_the_parameters_of_the_model_card() -> None:
    """Llama 3.2 1B: 1.24 billion, as the planner counts them."""
    with torch.device("meta"):
        model = Decoder(Shape())
    found = sum(p.numel() for p in model.parameters())
    assert found == 1_235_814_400
    assert found == ask("params", Shape().planned())["total"].value


def test_the_decoder_sees_no_later_token() -> None:
    torch.manual_seed(0)
    block, x = Block(TINY), torch.randn(1, 8, 64)
    other = x.clone()
    other[:, 5:] += 1
    turn = angles(8, 16, x)
    first, second = block(x, turn), block(other, turn)
    assert torch.allclose(first[:, :5], second[:, :5])
    assert not torch.allclose(first[:, 5:], second[:, 5:])


def test_positions_count_by_their_distance() -> None:
    """Rotated queries and keys have the product of their distance alone."""
    x = torch.randn(1, 16)
    cos, sin = angles(9, 16, x)
    q = rotated(x.expand(9, -1), (cos, sin))
    assert torch.allclose(q[1] @ q[4], q[5] @ q[8], atol=1e-4)


def test_recomputation_changes_no_gradient() -> None:
    found = []
    for recompute in ("none", "selective", "full"):
        model = steps.made(TINY, recompute)
        torch.manual_seed(1)
        model(torch.randint(256, (2, 16))).backward()
        found.append([p.grad for p in model.parameters()])
    for one, *others in zip(*found, strict=True):
        assert all(torch.equal(one, other) for other in others)


def local(model: nn.Module) -> list[Tensor]:
    """Copies of this rank's shards."""
    shards = (p.detach().to_local() for p in model.parameters())
    return [shard.clone() for shard in shards]


def test_a_step_under_fsdp2_moves_fp32_weights() -> None:
    with steps.alone():
        model = steps.made(TINY, precision=steps.FSDP2)
        step = steps.Step(model, torch.randint(256, (2, 16)), steps.FSDP2)
        before = local(model)
        step()
        after = local(model)
    for one, other in zip(before, after, strict=True):
        assert other.dtype == torch.float32
        assert not torch.equal(one, other)


def test_fewer_bits_make_larger_errors() -> None:
    errors = {row["format"]: row["error"] for row in kernels.formats(128)}
    order = ["fp32", "fp16", "bf16", "fp8"]
    assert sorted(order, key=errors.get) == order


def test_attention_says_which_kernel_refuses_a_bias() -> None:
    """The flash kernel takes no bias, so it says so and is left out."""
    found = {row["backend"]: row for row in kernels.biased(16, 2, 8, 4)}
    assert found["math"]["learns"]
    assert "refused" in found["flash"]


def test_the_clock_waits_for_what_it_times() -> None:
    calls = []
    assert clock.seconds(lambda: calls.append(1), 5, 2) >= 0
    assert len(calls) == 7


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_stopped_trainer_ends_with_the_same_weights(
    precision: str, tmp_path: object
) -> None:
    whole = trained(f"{tmp_path}/whole", precision)
    trained(f"{tmp_path}/stopped", precision, "--stop-at-step", "25")
    assert trained(f"{tmp_path}/stopped", precision) == whole


def test_bits_that_move_are_counted() -> None:
    turns = iter(range(100))
    odd = repeated.alike(lambda: torch.tensor(next(turns) % 2), 10)
    assert odd == 0.5
