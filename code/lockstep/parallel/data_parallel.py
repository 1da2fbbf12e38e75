"""Replicas that start equal and average their gradients, while the backward
pass still runs.

How torch's own does it: Li et al., PyTorch Distributed, VLDB 2020, section 3.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

MIB = 2**20


# --8<-- [start:bucket]
class Bucket:
    """Parameters of one dtype, whose gradients travel in one all-reduce."""

    def __init__(self) -> None:
        self.params: list[nn.Parameter] = []
        self.missing: set[Tensor] = set()  # those still without a gradient

    def add(self, param: nn.Parameter) -> None:
        """Add a parameter whose gradient comes after those already here."""
        self.params.append(param)
        self.missing.add(param)

    def start(self) -> None:
        """Take the gradients, and start to average them over the ranks.

        Where this rank has none, zeros travel. Flags tell them from a gradient
        that is zero.
        """
        self.here = [param.grad is not None for param in self.params]
        grads = [
            torch.zeros_like(param) if param.grad is None else param.grad
            for param in self.params
        ]
        flags = torch.tensor(self.here).to(grads[0], non_blocking=True)
        self.flat = torch.cat([*(grad.flatten() for grad in grads), flags])
        self.flat /= dist.get_world_size()
        self.work = dist.all_reduce(self.flat, async_op=True)
        for param in self.params:
            param.grad = None

    def finish(self) -> None:
        """Wait for the means, and hand them out as views of one buffer."""
        self.work.wait()
        sizes = [param.numel() for param in self.params]
        *means, flags = self.flat.split([*sizes, len(sizes)])
        found = zip(self.params, means, self.here, flags, strict=True)
        for param, mean, here, anywhere in found:
            if here or anywhere:  # reads a flag, for which the CPU waits, last
                mean = mean.view_as(param)
                late = param.grad  # of a second backward pass, since `start`
                param.grad = mean if late is None else mean.add_(late)
        self.missing = set(self.params)


# --8<-- [end:bucket]
# --8<-- [start:fill]
def fill(params: Iterable[nn.Parameter], limit: float) -> list[Bucket]:
    """Buckets of at most `limit` bytes, in the order in which their last
    parameters come. A larger parameter is alone in one."""
    buckets: list[Bucket] = []
    filling: dict[Any, Bucket] = {}
    for param in params:
        kind = param.dtype, param.device
        bucket = filling.get(kind)
        if bucket and param.nbytes + nbytes(bucket) <= limit:
            buckets.remove(bucket)  # to the end: by its last parameter
        else:
            bucket = filling[kind] = Bucket()
        bucket.add(param)
        buckets.append(bucket)
    return buckets


def nbytes(bucket: Bucket) -> int:
    """Return the bytes of its gradients."""
    return sum(param.nbytes for param in bucket.params)


# --8<-- [end:fill]
# --8<-- [start:data_parallel]
class DataParallel(nn.Module):
    """A replica of `module` that averages its gradients with the other ranks'.

    All ranks have the same parameters in the same order, and dense gradients.
    The ranks start with rank 0's parameters and buffers. Their data differ, and
    so may the parameters that a pass uses.

    Args:
        module: some of its parameters may be shared between layers, some frozen
            (`requires_grad` is False), and their dtypes may differ.
        bucket_mb: MiB (2**20 bytes) of gradients of one dtype that travel in
            one all-reduce. A larger parameter is alone in its own.
    """

    def __init__(self, module: nn.Module, bucket_mb: float = 25.0) -> None:
        super().__init__()
        self.module = module
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.detach(), src=0)
        params = [p for p in module.parameters() if p.requires_grad]
        # The backward pass comes to the last layer first.
        self.buckets = fill(reversed(params), bucket_mb * MIB)
        self.bucket: dict[Tensor, Bucket] = {
            param: bucket for bucket in self.buckets for param in bucket.params
        }
        self.waiting = deque(self.buckets)
        self.silent = False
        for param in params:
            param.register_post_accumulate_grad_hook(self._arrived)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what `module` returns."""
        return self.module(*args, **kwargs)

    def _arrived(self, param: Tensor) -> None:
        if self.silent:
            return
        bucket = self.bucket[param]
        if param not in bucket.missing:  # another pass, so another round
            self.wait_for_gradients()
        bucket.missing.remove(param)
        # Strictly in order: the same on every rank, whatever this one used.
        while self.waiting and not self.waiting[0].missing:
            self.waiting.popleft().start()

    def wait_for_gradients(self) -> None:
        """Replace every `.grad` by its mean over all ranks.

        Every rank calls it, after one backward pass or after two, whose
        gradients then have been added up. A bucket's all-reduce starts as soon
        as its last gradient is there, and until this call `.grad` may be None.

        A rank that did not use a parameter counts with zeros, and gets the mean
        as well. What no rank used keeps the `.grad` that it had, mostly None.
        """
        for bucket in self.waiting:
            bucket.start()
        for bucket in self.buckets:
            bucket.finish()
        self.waiting = deque(self.buckets)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, gradients add up on this rank and nothing is sent; the
        next backward pass outside sends the sums."""
        before, self.silent = self.silent, True
        try:
            yield
        finally:
            self.silent = before


# --8<-- [end:data_parallel]
