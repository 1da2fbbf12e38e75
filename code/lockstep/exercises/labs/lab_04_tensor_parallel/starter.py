"""Lab 04: tensor-parallel linear.

Each class is built, on every rank alike, from a whole module, and keeps this
rank's part of it. What it makes, and the gradients of its input and of its
parameters once `backward` has returned, are those of the whole module: of a
split weight this rank's part, of anything else all of it.

`group` is None for all ranks, or a process group. Rank r of its n ranks has the
r-th of n equal parts. A class that is built where n does not divide what it
splits raises ValueError: one line, with both numbers.

With `sequence_parallel`, a block's input and output are this rank's 1/n of the
sequence, the last dimension but one. Without it they are whole on every rank.
Activations and their gradients take as many bytes on the wire either way.
"""

from collections.abc import Callable

import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

Group = dist.ProcessGroup | None


class ColumnParallelLinear(nn.Module):
    """`full`, of which this rank makes 1/n of the outputs.

    Parameters: `weight` (out / n, in) and `bias` (out / n), or None.
    """

    def __init__(
        self,
        full: nn.Linear,
        group: Group = None,
        sequence_parallel: bool = False,
    ) -> None:
        super().__init__()
        raise NotImplementedError  # TODO: hold no more than 1/n of the weight

    def forward(self, x: Tensor) -> Tensor:
        """Begin a block.

        Args:
            x: (…, in); with `sequence_parallel` (…, sequence / n, in).

        Returns:
            (…, out / n); with `sequence_parallel` (…, sequence, out / n).
        """
        raise NotImplementedError  # TODO: x's gradient is that of all outputs


class RowParallelLinear(nn.Module):
    """`full`, of which this rank takes 1/n of the inputs.

    Parameters: `weight` (out, in / n) and `bias` (out), or None.
    """

    def __init__(
        self,
        full: nn.Linear,
        group: Group = None,
        sequence_parallel: bool = False,
    ) -> None:
        super().__init__()
        raise NotImplementedError  # TODO: hold no more than 1/n of the weight

    def forward(self, x: Tensor) -> Tensor:
        """End a block.

        Args:
            x: (…, in / n); with `sequence_parallel` (…, sequence, in / n).

        Returns:
            (…, out); with `sequence_parallel` (…, sequence / n, out), and
            ValueError if n does not divide the sequence.
        """
        raise NotImplementedError  # TODO: the sum of all ranks' products


class ParallelMLP(nn.Module):
    """`down(activation(up(x)))`, with the hidden layer split over ranks.

    Args:
        activation: it works on each number alone.
    """

    def __init__(
        self,
        up: nn.Linear,
        down: nn.Linear,
        activation: Callable[[Tensor], Tensor] = F.gelu,
        group: Group = None,
        sequence_parallel: bool = False,
    ) -> None:
        super().__init__()
        raise NotImplementedError  # TODO: one all-reduce forward, one backward

    def forward(self, x: Tensor) -> Tensor:
        """(…, sequence, hidden) to the same; with `sequence_parallel`,
        (…, sequence / n, hidden) to the same."""
        raise NotImplementedError  # TODO: ranks speak at its two ends alone


class ParallelAttention(nn.Module):
    """Self-attention, with the heads split over ranks.

    Of `heads` heads of size d, head h has outputs h·d to (h + 1)·d of `q`, `k`
    and `v`, and the same inputs of `o`. Scores are divided by √d.

    Args:
        causal: a token sees itself and what is before it.
    """

    def __init__(
        self,
        q: nn.Linear,
        k: nn.Linear,
        v: nn.Linear,
        o: nn.Linear,
        heads: int,
        causal: bool = False,
        group: Group = None,
        sequence_parallel: bool = False,
    ) -> None:
        super().__init__()
        raise NotImplementedError  # TODO: one all-reduce forward, one backward

    def forward(self, x: Tensor) -> Tensor:
        """(batch, sequence, hidden) to the same; with `sequence_parallel`,
        (batch, sequence / n, hidden) to the same."""
        raise NotImplementedError  # TODO: ranks speak at its two ends alone


def vocab_parallel_cross_entropy(
    logits: Tensor, targets: Tensor, group: Group = None
) -> Tensor:
    """The loss of each token, as `F.cross_entropy(…, reduction="none")`.

    Args:
        logits: (…, vocabulary / n): this rank's part of the vocabulary.
        targets: (…), the same on every rank. Where it is -100, the loss and
            its gradients are 0.

    Returns:
        (…), the same on every rank. Each calls `backward` on it.
    """
    raise NotImplementedError  # TODO: a few numbers a token, never the logits
