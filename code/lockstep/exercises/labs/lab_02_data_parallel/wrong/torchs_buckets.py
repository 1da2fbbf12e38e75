"""One hook for each of torch's buckets, and none on a parameter."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

FAILS = {"hooks and all_reduce"}


def mean(_: None, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """An all-reduce of ours, of a bucket that torch has filled."""
    flat = bucket.buffer().div_(dist.get_world_size())
    work = dist.all_reduce(flat, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


class DataParallel(DistributedDataParallel):
    """Torch sees the gradients arrive, and says when a bucket is full."""

    def __init__(self, module: nn.Module, bucket_mb: float = 25.0) -> None:
        given: dict[str, Any] = {"find_unused_parameters": True}
        super().__init__(module, bucket_cap_mb=bucket_mb, **given)
        self.register_comm_hook(None, mean)

    def wait_for_gradients(self) -> None:
        """The backward pass has waited already."""
