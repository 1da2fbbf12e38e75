"""Lab 02: data parallel.

Build what torch's DistributedDataParallel is made of, from a module, hooks on
its parameters and `dist.all_reduce`. The ranks are those of the default group.
"""

from contextlib import AbstractContextManager
from typing import Any

from torch import nn


class DataParallel(nn.Module):
    """A replica of `module` that averages its gradients with the other ranks'.

    All ranks have the same parameters in the same order. What they have not in
    common: the data, and sometimes which parameters a pass uses.
    """

    def __init__(self, module: nn.Module, bucket_mb: float = 25.0) -> None:
        """Parameters and buffers become rank 0's.

        Args:
            module: some of its parameters may be shared between layers, some
                frozen (`requires_grad` is False), and their dtypes may differ.
            bucket_mb: how many MiB (2**20 bytes) of gradients of one dtype go
                into one all-reduce. A larger parameter is alone in its own.
        """
        raise NotImplementedError  # TODO: equal replicas, buckets, hooks

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What `module` returns for the same arguments."""
        raise NotImplementedError  # TODO: nothing is sent here

    def wait_for_gradients(self) -> None:
        """Afterwards each `.grad` is the mean over ranks, in the parameter's
        shape and dtype, and an optimizer may step.

        All ranks call it, after one backward pass or after two, whose gradients
        then have been added up. A bucket's all-reduce has started as soon as
        its last gradient was there, and is not waited for before this.

        A rank that did not use a parameter counts with zeros, and gets the mean
        as well. What no rank used keeps the `.grad` that it had, mostly None.
        """
        raise NotImplementedError  # TODO: start what is left, and wait

    def no_sync(self) -> AbstractContextManager[None]:
        """Passes within it send nothing: their gradients add up on this rank,
        and go with those of the next pass outside."""
        raise NotImplementedError  # TODO: for accumulation
