"""Lab 02 once more, in another style: an inbox, a map of who used what that
travels by itself, and buckets that close when they are full, as DDP's do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn


class DataParallel(nn.Module):
    def __init__(self, module: nn.Module, bucket_mb: float = 25.0) -> None:
        super().__init__()
        self.module = module
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, 0)
        self.params = [p for p in module.parameters() if p.requires_grad][::-1]
        self.plan = self.planned(bucket_mb * 1024 * 1024)
        self.inbox: dict[int, Tensor] = {}
        self.sums: list[Tensor] = []
        self.synchronized = True
        for i, param in enumerate(self.params):
            param.register_post_accumulate_grad_hook(
                lambda param, i=i: self.arrive(i, param)
            )

    def planned(self, limit: float) -> list[list[int]]:
        """Numbers of parameters, bucket by bucket."""
        plan: list[list[int]] = []
        for dtype in {param.dtype for param in self.params}:
            size = limit
            for i, param in enumerate(self.params):
                if param.dtype != dtype:
                    continue
                if size >= limit:
                    plan.append([])
                    size = 0
                plan[-1].append(i)
                size += param.nbytes
        return sorted(plan, key=max)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def arrive(self, i: int, param: Tensor) -> None:
        if not self.synchronized:
            return
        grad, param.grad = param.grad, None
        assert grad is not None
        if i in self.inbox:
            self.wait_for_gradients()
            assert param.grad is not None
            grad, param.grad = param.grad + grad, None
        self.inbox[i] = grad
        for bucket in self.plan[len(self.sums) :]:
            if not set(bucket) <= self.inbox.keys():
                break
            self.reduce(bucket)

    def reduce(self, bucket: list[int]) -> None:
        flat = [self.inbox[i].reshape(-1) for i in bucket]
        total = functional.all_reduce(torch.cat(flat), "sum", dist.group.WORLD)
        self.sums.append(total)

    def wait_for_gradients(self) -> None:
        late = {}
        for i, param in enumerate(self.params):
            if i in self.inbox:
                late[i] = param.grad
            elif param.grad is not None:
                self.inbox[i] = param.grad
        used = torch.tensor([i in self.inbox for i in range(len(self.params))])
        used = used.to(torch.int32)
        for bucket in self.plan[len(self.sums) :]:
            for i in bucket:
                self.inbox.setdefault(i, torch.zeros_like(self.params[i]))
            self.reduce(bucket)
        dist.all_reduce(used, dist.ReduceOp.MAX)
        for bucket, total in zip(self.plan, self.sums, strict=True):
            mean = total / dist.get_world_size()
            parts = mean.split([self.params[i].numel() for i in bucket])
            for i, part in zip(bucket, parts, strict=True):
                param = self.params[i]
                param.grad = part.view_as(param).clone() if used[i] else None
                if (more := late.get(i)) is not None:
                    param.grad = param.grad + more
        self.inbox, self.sums = {}, []

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        self.synchronized = False
        try:
            yield
        finally:
            self.synchronized = True
