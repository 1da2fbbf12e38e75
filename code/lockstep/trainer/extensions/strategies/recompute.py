"""Activation checkpointing: compute again what is not worth keeping."""

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ...config import ConfigError
from ...model import DataParallel


# --8<-- [start:recomputing]
def recomputing(strategy: DataParallel) -> DataParallel:
    """`strategy`, over a model whose forward pass keeps only its input and the
    input of its last layer; the backward pass computes the rest again.

    The random state is put back for the second pass, so that dropout drops the
    same, and the result is bitwise that of the strategy alone.
    """
    wrap = strategy.wrap

    def wrap_recomputing(model: nn.Sequential, *where: object) -> nn.Module:
        if not isinstance(model, nn.Sequential):
            kind = type(model).__name__
            raise ConfigError(
                "--activation-checkpointing needs a model that is an"
                f" nn.Sequential, whose layers it can tell apart, not a {kind}"
            )
        body, head = model[:-1], model[-1]

        def forward(x: Tensor) -> Tensor:
            return head(checkpoint(body, x, use_reentrant=False))

        # The model itself stays what it was, and so do its weights' names.
        model.forward = forward  # type: ignore[method-assign]
        return wrap(model, *where)  # type: ignore[arg-type]

    strategy.wrap = wrap_recomputing  # type: ignore[assignment,method-assign]
    return strategy


# --8<-- [end:recomputing]
