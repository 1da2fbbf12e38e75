"""Lab 06: pipeline schedules: GPipe, 1F1B, interleaved.

A model is cut into parts, one after the other. Each of `stages` ranks holds
one part, or several, its chunks: chunk c of stage s is part c * stages + s, so
what leaves the last stage comes back to the first for the next chunk.

A schedule is what one stage does in a step, in order: a forward and a backward
of each micro-batch through each of its chunks. Both are numbered from 0.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch.distributed as dist
from torch import Tensor, nn

Group = dist.ProcessGroup | None


class Action(NamedTuple):
    """Forward or backward of one micro-batch through one of a stage's parts."""

    kind: str  # "F" or "B"
    micro_batch: int
    chunk: int = 0


def gpipe_schedule(stage: int, stages: int, micro_batches: int) -> list[Action]:
    """All forwards, then all backwards."""
    raise NotImplementedError  # TODO: the activations of all are held


def one_f_one_b_schedule(
    stage: int, stages: int, micro_batches: int
) -> list[Action]:
    """GPipe's idle time, and activations of at most `stages` micro-batches.

    Args:
        micro_batches: may be fewer than stages.
    """
    raise NotImplementedError  # TODO: a backward as soon as it can be


def interleaved_schedule(
    stage: int, stages: int, micro_batches: int, chunks: int
) -> list[Action]:
    """1F1B over `chunks` parts a stage: 1 / chunks of the idle time.

    Args:
        micro_batches: a multiple of stages.
    """
    raise NotImplementedError  # TODO: nobody waits longer than it must


class PipelineStage:
    """This rank's parts of a model, and the messages to its neighbors.

    Ranks of `group` are the stages, in order. All of them make theirs together.

    Args:
        parts: this stage's, by chunk.
        loss_fn: of an output and its target, to a scalar.
        boundary: a tensor like each that passes from part to part: its shape,
            dtype and device.
    """

    def __init__(
        self,
        parts: Sequence[nn.Module],
        loss_fn: Callable[[Tensor, Tensor], Tensor],
        boundary: Tensor,
        group: Group = None,
    ) -> None:
        raise NotImplementedError

    def run(
        self,
        schedule: Iterable[Action],
        inputs: Sequence[Tensor] = (),
        targets: Sequence[Tensor] = (),
    ) -> list[Tensor]:
        """Carry out a schedule. Gradients of the sum of all losses add up in
        the parameters' `.grad`.

        Any schedule will do in which no action waits for a later one, and
        neighbors agree on the order of forwards and on that of backwards.

        Args:
            inputs: by micro-batch, on the first stage; elsewhere none.
            targets: by micro-batch, on the last stage; elsewhere none.

        Returns:
            On the last stage the loss of each micro-batch, by its number;
            elsewhere nothing.
        """
        raise NotImplementedError  # TODO: whichever neighbor sends first
