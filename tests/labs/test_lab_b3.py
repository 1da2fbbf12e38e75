"""Lab B3's solution beside the package's own loss, and beside one process."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lockstep.bio import labels
from lockstep.labs.lab_b3_masked_loss import sound
from lockstep.trainer.process import joined
from tests import ranks

NAN = math.nan
PARTS = [
    torch.tensor([[1.0, NAN], [NAN, NAN], [2.0, 3.0]]),
    torch.tensor([[NAN, NAN]]),
    torch.tensor([[4.0, NAN]]),
]


def losses() -> list[Any]:
    with joined(20, ranks.store()) as me:
        values, found = PARTS[me.rank], []
        weights = sound.task_weights(values)
        for given in (None, weights):
            for act in (sound.masked_loss, labels.masked_loss):
                predicted = torch.ones_like(values).requires_grad_()
                loss = act(predicted, values, given)
                loss.backward()
                found.append((loss.item(), predicted.grad.tolist()))  # type: ignore[union-attr]
        return [weights.tolist(), *found]


def test_the_loss_is_the_packages() -> None:
    right = labels.task_weights(torch.cat(PARTS)).tolist()
    for weights, *found in ranks.run_ranks(3, losses):
        assert weights == pytest.approx(right)
        for mine, theirs in (found[:2], found[2:]):
            assert mine == theirs
            assert math.isfinite(mine[0])


def refused() -> str:
    with joined(20, ranks.store()) as me:
        with pytest.raises(ValueError, match=r"in column \[1\]") as raised:
            sound.task_weights(PARTS[me.rank + 1])
        return str(raised.value)


def test_a_task_that_nobody_has_is_refused_on_each_rank() -> None:
    assert len({*ranks.run_ranks(2, refused)}) == 1


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.trunk = nn.Linear(2, 2)
        self.heads = nn.ModuleList(nn.Linear(2, 1) for _ in range(2))

    def forward(self, x: Tensor, used: list[int]) -> Tensor:
        hidden = self.trunk(x)
        return torch.cat(
            [
                self.heads[one](hidden) if one in used else 0 * hidden[:, :1]
                for one in range(2)
            ],
            1,
        )


def stepped() -> tuple[float, list[Any]]:
    with joined(20, ranks.store()) as me:
        own = Heads()
        model = sound.replicated(own)
        parts = [PARTS[0], PARTS[1]] if me.rank == 0 else [PARTS[1], PARTS[2]]
        batches = [(torch.ones(len(one), 2), one) for one in parts]
        loss = sound.step(model, batches)
        grads = [one.grad for one in own.parameters()]
        return loss, [None if g is None else g.tolist() for g in grads]


def test_a_step_is_that_of_one_process() -> None:
    values = torch.cat([PARTS[0], PARTS[2]])
    there, whole = ~values.isnan(), Heads()
    predicted = whole(torch.ones(len(values), 2), [0, 1])
    loss = (predicted[there] - values[there]).square().mean()
    loss.backward()
    for found, grads in ranks.run_ranks(2, stepped):
        assert found == pytest.approx(loss.item())
        for one, right in zip(grads, whole.parameters(), strict=True):
            assert right.grad is not None
            assert torch.allclose(torch.tensor(one), right.grad, atol=1e-6)
