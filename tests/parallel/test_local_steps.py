"""Ranks that take steps of their own and agree now and then."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lockstep.parallel.local_steps import LocalSteps
from lockstep.trainer.process import joined
from tests import ranks

RANKS, STEPS = 2, 6


def layers() -> nn.Sequential:
    """Alike everywhere."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))


def batch(rank: int, step: int) -> Tensor:
    """A rank's inputs at a step."""
    chance = torch.Generator().manual_seed(100 * rank + step)
    return torch.randn(8, 4, generator=chance)


def stepped(
    net: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor
) -> None:
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()


def flat(net: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def in_a_group(layerwise: bool, settings: dict[str, Any]) -> list[list[float]]:
    """This rank's weights after each step."""
    with joined(30, ranks.store()):
        net = layers()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        parts = net if layerwise else [net]
        local = LocalSteps([list(p.parameters()) for p in parts], **settings)
        found = []
        for step in range(STEPS):
            stepped(net, optimizer, batch(dist.get_rank(), step))
            local.after_step()
            found.append(flat(net).tolist())
        return found


def trained(layerwise: bool = False, **settings: Any) -> Tensor:
    """The weights, (rank, step, parameter)."""
    found = ranks.run_ranks(RANKS, in_a_group, layerwise, settings)
    return torch.tensor(found)


def test_averaging_weights_after_each_step_is_data_parallelism() -> None:
    """Two ranks that average their weights after every step of SGD have the
    weights of one process that steps with both batches together."""
    net = layers()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(STEPS):
        stepped(net, optimizer, torch.cat([batch(0, step), batch(1, step)]))
    for weights in trained(every=1, rate=1.0, momentum=0.0):
        torch.testing.assert_close(weights[-1], flat(net))


def test_an_outer_step_is_nesterovs_with_the_mean_change() -> None:
    """DiLoCo on two ranks is computed once more in one process: three steps on
    each of two copies, the mean of what they changed as a gradient, a step of
    torch's Nesterov SGD with it, and on from there. The weights are equal."""
    agreed = nn.Parameter(flat(layers()))
    outer = torch.optim.SGD([agreed], 0.7, 0.9, nesterov=True)
    for start in (0, 3):
        changes = []
        for rank in range(RANKS):
            net = layers()
            # A copy: parameters become views of the vector.
            vector = agreed.detach().clone()
            nn.utils.vector_to_parameters(vector, net.parameters())
            optimizer = torch.optim.SGD(net.parameters(), 0.1)
            for step in range(start, start + 3):
                stepped(net, optimizer, batch(rank, step))
            changes.append(agreed.detach() - flat(net))
        agreed.grad = torch.stack(changes).mean(0)
        outer.step()
    for weights in trained(every=3):
        torch.testing.assert_close(weights[-1], agreed.detach())


def test_ranks_differ_until_they_agree() -> None:
    """After three steps of their own two ranks agree to the last bit; a step
    before and a step after they differ."""
    one, other = trained(every=3)
    alike = [torch.equal(a, b) for a, b in zip(one, other, strict=True)]
    assert alike == [False, False, True, False, False, True]


def test_fragments_take_turns_and_arrive_late() -> None:
    """Two layers in two fragments, every four steps, with a delay of one. The
    first sets out after step 4 and arrives after step 5, where a rank keeps
    half of its own weights. Only the first layer's come nearer to the other
    rank's then."""
    settings: dict[str, Any] = {"every": 4, "rate": 1.0, "momentum": 0.0}
    late = trained(layerwise=True, delay=1, keep=0.5, **settings)
    alone = trained(every=STEPS + 1)
    torch.testing.assert_close(late[:, :4], alone[:, :4])
    size = sum(p.numel() for p in layers()[0].parameters())
    mean = alone[:, 3].mean(0)  # what was sent after step 4
    expected = (alone[:, 4] + mean) / 2
    torch.testing.assert_close(late[:, 4, :size], expected[:, :size])
    torch.testing.assert_close(late[:, 4, size:], alone[:, 4, size:])
