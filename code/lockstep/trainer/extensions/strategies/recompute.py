"""Activation checkpointing: compute again what is not worth keeping."""

from collections import OrderedDict

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ...config import ConfigError
from ...model import DataParallel


# --8<-- [start:recomputing]
class Recomputed(nn.Sequential):
    """The layers of a model, under its weights' names. The forward pass keeps
    only the model's input and the input of its last layer; the backward pass
    computes the rest again.

    The RNG state is restored for the second pass, so that dropout drops the
    same, and the result is bitwise that of the model itself.
    """

    def forward(self, x: Tensor) -> Tensor:
        *body, head = self
        return head(checkpoint(nn.Sequential(*body), x, use_reentrant=False))


def recomputing(strategy: DataParallel) -> DataParallel:
    """`strategy`, which wraps a `Recomputed` in place of each model."""
    wrap = strategy.wrap

    def wrap_recomputed(model: nn.Module, *where: object) -> nn.Module:
        if not isinstance(model, nn.Sequential):
            kind = type(model).__name__
            raise ConfigError(
                "--activation-checkpointing needs a model that is an"
                f" nn.Sequential, whose layers it can tell apart, not a {kind}"
            )
        layers = OrderedDict(model.named_children())
        return wrap(Recomputed(layers), *where)  # type: ignore[arg-type]

    strategy.wrap = wrap_recomputed  # type: ignore[assignment,method-assign]
    return strategy


# --8<-- [end:recomputing]
