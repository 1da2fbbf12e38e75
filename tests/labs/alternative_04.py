"""Lab 04 once more, in another style: a Function for each end of a block, a sum
of tokens that came by all-to-all, one matrix for q, k and v, and a loss with a
backward of its own."""

import torch
import torch.nn.functional as F
from torch import Tensor, distributed, nn


def world(group):
    return group or distributed.group.WORLD


def reduced(x, group, op=distributed.ReduceOp.SUM):
    y = x.clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(y, op, group, async_op=True).wait()
    return y


def cut(whole, dim, group):
    """As rows of n parts, of which one is this rank's."""
    n = world(group).size()
    if whole.shape[dim] % n:
        raise ValueError(f"cannot split {whole.shape[dim]} in {n}")
    parts = torch.tensor_split(whole.detach(), n, dim)
    return parts[world(group).rank()].clone().contiguous()


class Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return reduced(gradient, ctx.group), None


class Reduced(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        return reduced(x, group)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        parts = x.new_empty(group.size(), *x.shape)
        distributed.all_gather(list(parts), x.contiguous(), group)
        return parts.movedim(0, -3).flatten(-3, -2)

    @staticmethod
    def backward(ctx, gradient):
        return Scattered.forward(ctx, gradient, ctx.group), None


class Scattered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        if x.shape[-2] % group.size():
            raise ValueError(f"{x.shape[-2]} tokens, {group.size()} ranks")
        theirs = x.unflatten(-2, (group.size(), -1)).movedim(-3, 0)
        mine = torch.empty_like(theirs.contiguous())
        distributed.all_to_all_single(mine, theirs.contiguous(), group=group)
        return mine.sum(0)

    @staticmethod
    def backward(ctx, gradient):
        return Gathered.forward(ctx, gradient, ctx.group), None


class ColumnParallelLinear(nn.Linear):
    def __init__(self, full, group=None, sequence_parallel=False):
        weight = cut(full.weight, 0, group)
        super().__init__(*weight.T.shape, full.bias is not None)
        self.weight = nn.Parameter(weight)
        if full.bias is not None:
            self.bias = nn.Parameter(cut(full.bias, 0, group))
        self.begin = Gathered if sequence_parallel else Copied
        self.among = world(group)

    def forward(self, x):
        return super().forward(self.begin.apply(x, self.among))


class RowParallelLinear(nn.Module):
    def __init__(self, full, group=None, sequence_parallel=False):
        super().__init__()
        self.weight = nn.Parameter(cut(full.weight, 1, group))
        self.bias = None if full.bias is None else nn.Parameter(1 * full.bias)
        self.among = world(group)
        self.end = Scattered if sequence_parallel else Reduced
        if sequence_parallel and self.bias is not None:
            self.bias.register_hook(
                lambda gradient: reduced(gradient, self.among)
            )

    def forward(self, x):
        y = self.end.apply(x @ self.weight.mT, self.among)
        return y if self.bias is None else y + self.bias


class ParallelMLP(nn.Sequential):
    def __init__(
        self, up, down, activation=F.gelu, group=None, sequence_parallel=False
    ):
        super().__init__(
            ColumnParallelLinear(up, group, sequence_parallel),
            RowParallelLinear(down, group, sequence_parallel),
        )
        self.activation = activation

    def forward(self, x):
        first, last = self
        return last(self.activation(first(x)))


class ParallelAttention(nn.Module):
    """One product for q, k and v, whose rows come rank by rank."""

    def __init__(
        self,
        q,
        k,
        v,
        o,
        heads,
        causal=False,
        group=None,
        sequence_parallel=False,
    ):
        super().__init__()
        n = world(group).size()
        if heads % n:
            raise ValueError(f"{heads} heads on {n} ranks")
        self.size = q.out_features // heads
        three = [q, k, v]
        fused = nn.Linear(q.in_features, 3 * q.out_features, q.bias is not None)
        for name, _ in fused.named_parameters():
            whole = torch.stack([getattr(one, name) for one in three])
            by_rank = whole.detach().unflatten(1, (n, -1)).transpose(0, 1)
            setattr(fused, name, nn.Parameter(by_rank.flatten(0, 2)))
        self.fused = ColumnParallelLinear(fused, group, sequence_parallel)
        self.last = RowParallelLinear(o, group, sequence_parallel)
        self.causal = causal

    def forward(self, x):
        made = self.fused(x).unflatten(-1, (3, -1, self.size))
        q, k, v = made.movedim(-3, 0).transpose(-2, -3)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / self.size**0.5
        if self.causal:
            ones = torch.ones_like(scores[0, 0], dtype=torch.bool)
            scores = scores.where(ones.tril(), -torch.inf)
        values = torch.einsum("bhqk,bhkd->bqhd", scores.softmax(-1), v)
        return self.last(values.flatten(-2))


class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets, group):
        words = torch.arange(logits.shape[-1], device=logits.device)
        words = words + group.rank() * len(words)
        hot = (targets[..., None] == words).to(logits.dtype)
        top = reduced(logits.amax(-1), group, distributed.ReduceOp.MAX)
        exps = (logits - top[..., None]).exp()
        total = reduced(exps.sum(-1), group)
        chosen = reduced((hot * logits).sum(-1), group)
        counted = targets != -100
        ctx.save_for_backward(exps / total[..., None], hot, counted)
        return (top + total.log() - chosen) * counted

    @staticmethod
    def backward(ctx, gradient):
        probabilities, hot, counted = ctx.saved_tensors
        each = (gradient * counted)[..., None]
        return (probabilities - hot) * each, None, None


def vocab_parallel_cross_entropy(
    logits: Tensor, targets: Tensor, group=None
) -> Tensor:
    return Loss.apply(logits, targets, world(group))
