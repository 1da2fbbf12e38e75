"""Pipeline schedules, and a stage that runs any of them.

A model is cut into parts, one after the other; each stage is a rank and holds
one part, or several, which are its chunks: chunk c of stage s is part
c * stages + s. A schedule is what one stage does, in order.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, product
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

Group = dist.ProcessGroup | None


# --8<-- [start:action]
class Action(NamedTuple):
    """Forward or backward of one micro-batch through one of a stage's parts."""

    kind: str  # "F" or "B"
    micro_batch: int
    chunk: int = 0


# --8<-- [end:action]
# --8<-- [start:alternate]
def alternate(
    forwards: Sequence[Action], backwards: Sequence[Action], warm_up: int
) -> list[Action]:
    """Return `warm_up` forwards, then pairs with a backward, then the rest."""
    steady = zip(forwards[warm_up:], backwards, strict=False)
    left = backwards[len(forwards[warm_up:]) :]
    return [*forwards[:warm_up], *chain.from_iterable(steady), *left]


# --8<-- [end:alternate]
# --8<-- [start:in_order]
def in_order(kind: str, micro_batches: int) -> list[Action]:
    """Return that kind of action for every micro-batch."""
    return [Action(kind, number) for number in range(micro_batches)]


def gpipe_schedule(stage: int, stages: int, micro_batches: int) -> list[Action]:
    """Return all forwards, then backwards: Huang et al. 2019, section 2.2."""
    return alternate(
        in_order("F", micro_batches),
        in_order("B", micro_batches),
        warm_up=micro_batches,
    )


def one_f_one_b_schedule(
    stage: int, stages: int, micro_batches: int
) -> list[Action]:
    """Return each backward as early as possible: Narayanan et al. 2021, 2.2.1.

    The idle time is GPipe's. A stage holds the activations of at most `stages`
    micro-batches.
    """
    # Until its first gradient arrives, a stage runs a forward for each later
    # stage. Then it starts a micro-batch whenever it has finished one.
    return alternate(
        in_order("F", micro_batches),
        in_order("B", micro_batches),
        warm_up=stages - 1 - stage,
    )


# --8<-- [end:in_order]
# --8<-- [start:interleaved]
def interleaved_schedule(
    stage: int, stages: int, micro_batches: int, chunks: int
) -> list[Action]:
    """1F1B over `chunks` parts a stage: Narayanan et al. 2021, section 2.2.2.

    Its idle time is 1F1B's, divided by `chunks`.

    Raises:
        ValueError: `stages` does not divide `micro_batches`.
    """
    # As many micro-batches as there are stages pass a chunk, and then the next
    # chunk: when the last of them enters, the first has been round.
    if micro_batches % stages:
        raise ValueError(f"{stages} stages, {micro_batches} micro-batches")
    every = list(product(range(micro_batches), range(chunks)))
    every.sort(key=lambda one: (one[0] // stages, one[1]))
    backwards = [Action("B", m, chunks - 1 - chunk) for m, chunk in every]
    return alternate(
        [Action("F", *one) for one in every],
        backwards,
        # To the last chunk, and two for each later stage. One would do if
        # messages took no time.
        warm_up=(chunks - 1) * stages + 2 * (stages - 1 - stage),
    )


# --8<-- [end:interleaved]
class PipelineStage:
    """This rank's parts of a model, and the messages to its neighbors.

    Ranks of `group` are the stages, in order. All of them make theirs together.

    Args:
        parts: this stage's, by chunk; with two or more, two stages or more.
        loss_fn: of an output and its target, to a scalar. Gradients are those
            of the sum of losses, so weights of micro-batches belong in it.
        boundary: a tensor like each that passes from part to part: its shape,
            dtype and device.
    """

    # --8<-- [start:channels]
    def __init__(
        self,
        parts: Sequence[nn.Module],
        loss_fn: Callable[[Tensor, Tensor], Tensor],
        boundary: Tensor,
        group: Group = None,
    ) -> None:
        self.parts, self.loss_fn, self.boundary = parts, loss_fn, boundary
        self.stage = dist.get_rank(group)
        self.stages = dist.get_world_size(group)
        self.under_way: list[tuple[dist.Work | None, Tensor]] = []
        # NCCL lets the messages between two ranks of a group wait for each
        # other, whichever way they go. So each kind has groups of its own, and
        # so have the directions: one sender is even, the other odd.
        ranks = dist.get_process_group_ranks(group)
        self.channels = {
            channel: dist.new_group(ranks, use_local_synchronization=True)
            for channel in product("FB", (0, 1))
        }

    # --8<-- [end:channels]
    # --8<-- [start:messages]
    def send(self, kind: str, tensor: Tensor, to: int) -> None:
        """Let it go, and do not wait: its receiver may have to send first."""
        channel = self.channels[kind, self.stage % 2]
        tensor = tensor.detach().contiguous()
        work = dist.isend(tensor, group=channel, group_dst=to % self.stages)
        self.under_way.append((work, tensor))

    def receive(self, kind: str, source: int) -> Tensor:
        """Return the next message of its kind from there."""
        source %= self.stages
        tensor = torch.empty_like(self.boundary)
        channel = self.channels[kind, source % 2]
        dist.recv(tensor, group=channel, group_src=source)
        return tensor

    # --8<-- [end:messages]
    # --8<-- [start:run]
    def run(
        self,
        schedule: Iterable[Action],
        inputs: Sequence[Tensor] = (),
        targets: Sequence[Tensor] = (),
    ) -> list[Tensor]:
        """One step's forwards and backwards; gradients add up in `.grad`.

        Any schedule will do in which no action waits for a later one, and
        neighbors agree on the order of forwards and on that of backwards.

        Args:
            inputs: by micro-batch, on the first stage.
            targets: by micro-batch, on the last stage.

        Returns:
            On the last stage the loss of each micro-batch; elsewhere nothing.
        """
        saved: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        losses: dict[int, Tensor] = {}
        for kind, micro_batch, chunk in schedule:
            part = chunk * self.stages + self.stage
            first = part == 0
            last = part == len(self.parts) * self.stages - 1
            if kind == "F":
                if first:
                    x = inputs[micro_batch]
                else:
                    x = self.receive("F", self.stage - 1).requires_grad_()
                y = self.parts[chunk](x)
                if last:
                    y = self.loss_fn(y, targets[micro_batch])
                    losses[micro_batch] = y.detach()
                else:
                    self.send("F", y, self.stage + 1)
                saved[micro_batch, chunk] = x, y
            else:
                x, y = saved.pop((micro_batch, chunk))
                y.backward(None if last else self.receive("B", self.stage + 1))
                if not first:
                    assert x.grad is not None, "a part must use its input"
                    self.send("B", x.grad, self.stage - 1)
        for work, _ in self.under_way:  # most have arrived long since
            if work:
                work.wait()
        self.under_way.clear()
        return [losses[micro_batch] for micro_batch in sorted(losses)]

    # --8<-- [end:run]
