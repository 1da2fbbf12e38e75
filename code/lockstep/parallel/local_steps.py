"""Training with little communication: ranks train alone for many steps, and
agree now and then.

What a rank changed since the last agreement is an outer gradient, and an outer
optimizer steps with its mean over the ranks: DiLoCo (Douillard et al. 2023,
algorithm 1, https://arxiv.org/abs/2311.08105). Sent in fragments that take
turns, while training goes on, it is Streaming DiLoCo (Douillard et al. 2025,
https://arxiv.org/abs/2501.18512).
"""

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lockstep.parallel.collectives import Group


class Sent(NamedTuple):
    """A fragment's outer gradient on its way."""

    fragment: int
    arrives: int  # the step after which it is applied
    flat: Tensor
    work: dist.Work


# --8<-- [start:local_steps]
class LocalSteps:
    """Keeps replicas in touch that each take optimizer steps of their own.

    Args:
        fragments: the model's parameters, in parts that take turns.
        every: steps from one agreement on a fragment to the next.
        rate: of the outer optimizer; 1 without momentum averages weights.
        momentum: of the outer optimizer, Nesterov's.
        delay: steps for which training goes on while a fragment is sent.
        keep: the share of a rank's own weights that it keeps on arrival.
    """

    def __init__(
        self,
        fragments: list[list[nn.Parameter]],
        every: int,
        rate: float = 0.7,
        momentum: float = 0.9,
        delay: int = 0,
        keep: float = 0.0,
        group: Group = None,
    ) -> None:
        self.mine, self.every, self.group = fragments, every, group
        self.delay, self.keep = delay, keep
        for param in (p for part in fragments for p in part):
            dist.broadcast(param.detach(), src=0, group=group)
        # What all ranks agreed on last, which every rank keeps a copy of.
        self.agreed = [
            [nn.Parameter(param.detach().clone()) for param in part]
            for part in fragments
        ]
        self.outer = [
            torch.optim.SGD(part, rate, momentum, nesterov=momentum > 0)
            for part in self.agreed
        ]
        self.step, self.under_way = 0, list[Sent]()

    def after_step(self) -> None:
        """Call after every step of the rank's own optimizer."""
        self.step += 1
        for number in range(len(self.mine)):
            turn = number * self.every // len(self.mine)
            if self.step % self.every == turn and self.step >= self.every:
                self._send(number)
        while self.under_way and self.under_way[0].arrives <= self.step:
            self._apply(self.under_way.pop(0))

    def _send(self, number: int) -> None:
        changed = [
            (agreed - mine).detach().flatten()
            for agreed, mine in zip(
                self.agreed[number], self.mine[number], strict=True
            )
        ]
        flat = torch.cat(changed)
        flat /= dist.get_world_size(self.group)
        work = dist.all_reduce(flat, group=self.group, async_op=True)
        self.under_way.append(Sent(number, self.step + self.delay, flat, work))

    @torch.no_grad()
    def _apply(self, sent: Sent) -> None:
        sent.work.wait()
        agreed, mine = self.agreed[sent.fragment], self.mine[sent.fragment]
        parts = sent.flat.split([param.numel() for param in agreed])
        for param, part in zip(agreed, parts, strict=True):
            param.grad = part.view_as(param)
        self.outer[sent.fragment].step()
        for own, common in zip(mine, agreed, strict=True):
            own.lerp_(common, 1 - self.keep)


# --8<-- [end:local_steps]
