"""What the chapter on low precision says of loss scaling."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lockstep.experiments.demos import loss_scaler
from lockstep.experiments.demos.loss_scaler import LossScaler, gradients, kept

INF, NAN = float("inf"), float("nan")


class Grows(torch.autograd.Function):
    """The number itself; a gradient that comes back goes through fp16."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, times: float) -> Tensor:
        """x, unchanged."""
        ctx.times = times
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """The gradient, so many times larger, as fp16 holds it."""
        return (grads[0] * ctx.times).half().float(), None


def model() -> tuple[nn.Parameter, torch.optim.Optimizer]:
    """A weight and its optimizer."""
    weight = nn.Parameter(torch.linspace(-1, 1, 8))
    return weight, torch.optim.SGD([weight], lr=0.1, momentum=0.9)


def sizes(steps: int) -> list[float]:
    """How much each step's gradients are enlarged: some overflow."""
    return [2.0**12 if step % 7 == 6 else 1.0 for step in range(steps)]


def loss_of(weight: Tensor, times: float) -> Tensor:
    """A loss whose gradient passes through fp16."""
    return (Grows.apply(weight, times) - 0.5).square().sum()


def test_a_scaler_by_hand_does_what_grad_scaler_does() -> None:
    """Over 60 steps of which some overflow, with a scale that grows every five
    good steps: the scale after each step, the updates that are skipped and the
    weights are those of torch's GradScaler."""
    mine, optimizer = model()
    by_hand = LossScaler(2.0**14, interval=5)
    theirs, other = model()
    torchs = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=5)
    updated = []
    for times in sizes(60):
        optimizer.zero_grad()
        updated.append(by_hand.step(loss_of(mine, times), optimizer))
        other.zero_grad()
        torchs.scale(loss_of(theirs, times)).backward()  # type: ignore[no-untyped-call]
        torchs.step(other)
        torchs.update()
        assert by_hand.scale == torchs.get_scale()
        assert torch.equal(mine, theirs)
    assert (
        by_hand.state_dict()["good"] == torchs.state_dict()["_growth_tracker"]
    )
    assert 5 < updated.count(False) < 30


def test_a_scale_saves_gradients_from_zero() -> None:
    """A third of the gradients around 10⁻⁷ becomes 0 in fp16, and nearly all
    others lose bits. Scaled by 2^16 none becomes 0, and 5 % lose bits. Scaled
    by 2^28 some overflow."""
    plain, usual, high = (kept(2.0**power) for power in (0, 16, 28))
    assert 0.3 < plain["zero"] < 0.4 < 0.6 < plain["coarse"]
    assert usual["zero"] < 1e-3
    assert usual["coarse"] < 0.06
    assert usual["infinite"] == 0 < high["infinite"] < 0.01
    assert kept(1.0, torch.bfloat16)["zero"] == 0
    assert float(gradients().median()) == pytest.approx(1e-7, rel=0.05)


def test_a_nan_that_stays_takes_the_scale_to_0_and_then_the_weights() -> None:
    """Each step with a NaN halves the scale: from 65,536 it is 0 after 166. The
    next good step is not skipped: its gradients are 0, divided by 0, and write
    NaN into the weights."""
    weight, optimizer = model()
    torchs = torch.amp.GradScaler("cpu")
    scales = []
    for _ in range(166):
        optimizer.zero_grad()
        torchs.scale((weight * NAN).sum()).backward()  # type: ignore[no-untyped-call]
        torchs.step(optimizer)
        torchs.update()
        scales.append(torchs.get_scale())
    assert (scales[-2], scales[-1]) == (2.0**-149, 0)
    assert weight.isfinite().all()
    optimizer.zero_grad()
    torchs.scale(weight.sum()).backward()  # type: ignore[no-untyped-call]
    torchs.step(optimizer)
    assert weight.isnan().all()


def stepped(unscale: bool) -> float:
    """How far a step moves a weight whose gradient of 3 is clipped to 1."""
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    torchs = torch.amp.GradScaler("cpu")
    torchs.scale((3 * weight).sum()).backward()  # type: ignore[no-untyped-call]
    if unscale:
        torchs.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_([weight], 1.0)
    torchs.step(optimizer)
    return -float(weight.detach())


def test_clipped_before_it_is_unscaled_a_gradient_all_but_vanishes() -> None:
    """A gradient of 3, clipped to a norm of 1, moves the weight by 1 if it was
    unscaled before, and by a 65,536th if it was not. Nothing raises."""
    assert stepped(unscale=True) == pytest.approx(1, rel=1e-5)
    assert stepped(unscale=False) == pytest.approx(2.0**-16, rel=1e-5)


def test_grad_scaler_refuses_gradients_in_fp16() -> None:
    """A model whose weights are fp16 has gradients in fp16, and GradScaler
    raises "Attempting to unscale FP16 gradients"."""
    weight = nn.Parameter(torch.zeros(1, dtype=torch.float16))
    torchs = torch.amp.GradScaler("cpu")
    torchs.scale(weight.sum()).backward()  # type: ignore[no-untyped-call]
    with pytest.raises(ValueError, match="Attempting to unscale FP16"):
        torchs.step(torch.optim.SGD([weight], lr=1.0))


def test_one_overflow_spoils_all_accumulated_micro_batches() -> None:
    """One of four accumulated micro-batches overflows: the sum is infinite, the
    update is skipped, and all four are lost to it."""
    weight, optimizer = model()
    before = weight.detach().clone()
    torchs = torch.amp.GradScaler("cpu")
    for times in (1.0, 1.0, 2.0**12, 1.0):
        torchs.scale(loss_of(weight, times)).backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    assert not weight.grad.isfinite().all()
    torchs.step(optimizer)
    torchs.update()
    assert torch.equal(weight, before)
    assert torchs.get_scale() == 2.0**15


def test_a_line_for_each_scale(capsys: pytest.CaptureFixture[str]) -> None:
    """What the page shows can be printed."""
    loss_scaler.main()
    assert len(capsys.readouterr().out.splitlines()) == 6
