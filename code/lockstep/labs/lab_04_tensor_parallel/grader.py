"""Lab 04: what the layers, the blocks and the loss must hold."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from lockstep.grading.criteria import Criterion, named
from lockstep.instruments.traffic import Call, Traffic
from lockstep.parallel import tensor_parallel as reference
from lockstep.parallel.collectives import Group, place

__all__ = ["CRITERIA", "reference"]

HIDDEN, INNER, HEADS = 4, 12, 6
SEQUENCE = 6
IGNORED = -100


def drawn(*shape: int, seed: int) -> Tensor:
    """The same numbers on every rank."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def linear(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """A whole layer, the same on every rank."""
    layer = nn.Linear(inputs, outputs, bias, dtype=torch.float64)
    for seed, parameter in enumerate(layer.parameters()):
        parameter.data = drawn(*parameter.shape, seed=seed + inputs) / 2
    return layer


def same(found: Tensor | None, expected: Tensor, what: str) -> None:
    """AssertionError with the first number that is another."""
    what = f"{what} on rank {dist.get_rank()}"
    assert found is not None, f"{what} is None"
    shape, right = tuple(found.shape), tuple(expected.shape)
    assert shape == right, f"{what} has the shape {shape}, not {right}"
    wrong = ~torch.isclose(found.to(expected), expected, rtol=1e-8, atol=1e-8)
    for at in map(tuple, wrong.nonzero().tolist()):
        told = f"{found[at]:.4g}, not {expected[at]:.4g}"
        raise AssertionError(f"{what} is {told}, at {list(at)}")


def part(of_all: Tensor, dim: int, group: Group = None) -> Tensor:
    """This rank's."""
    rank, ranks = place(group)
    return of_all.chunk(ranks, dim)[rank]


def back(output: Tensor, gradient: Tensor) -> None:
    """As output.backward(gradient), which would import all of sympy first."""
    (output * gradient).sum().backward()


def grad(of: Tensor) -> Tensor:
    """That of a whole module's parameter or input."""
    assert of.grad is not None
    return of.grad


# One layer


def its_layer(layer: Any, full: nn.Linear, dim: int) -> None:
    """`layer` has `full`'s part along `dim` of its weight, and makes of its
    input what `full` does: 0 splits the outputs, 1 the inputs."""

    def inputs(x: Tensor) -> Tensor:
        return x if dim == 0 else part(x, -1)

    def outputs(y: Tensor) -> Tensor:
        return part(y, -1) if dim == 0 else y

    whole = drawn(2, SEQUENCE, full.in_features, seed=20).requires_grad_()
    mine = inputs(whole.detach()).clone().requires_grad_()
    expected, found = full(whole), layer(mine)
    same(found, outputs(expected), "the output")
    gradient = drawn(*expected.shape, seed=21)
    back(expected, gradient)
    back(found, outputs(gradient))
    same(mine.grad, inputs(grad(whole)), "the input's gradient")
    same(layer.weight.grad, part(grad(full.weight), dim), "weight.grad")
    if full.bias is not None:
        bias = outputs(grad(full.bias))
        same(layer.bias.grad, bias, "bias.grad")


def splits_outputs(answer: Any) -> None:
    """With a bias and without."""
    build = named(answer, "ColumnParallelLinear")
    for bias in (True, False):
        full = linear(HIDDEN, INNER, bias)
        its_layer(build(deepcopy(full)), full, dim=0)


def splits_inputs(answer: Any) -> None:
    """With a bias and without."""
    build = named(answer, "RowParallelLinear")
    for bias in (True, False):
        full = linear(INNER, HIDDEN, bias)
        its_layer(build(deepcopy(full)), full, dim=1)


# A block


class WholeMLP(nn.Module):
    """What ParallelMLP and the two layers must be equal to."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [linear(HIDDEN, INNER), linear(INNER, HIDDEN)]
        )

    def forward(self, x: Tensor) -> Tensor:
        up, down = self.layers
        return down(F.silu(up(x)))


class WholeAttention(nn.Module):
    """What ParallelAttention must be equal to."""

    def __init__(self, heads: int, causal: bool) -> None:
        super().__init__()
        ins = [linear(HIDDEN, INNER) for _ in range(3)]
        for seed, layer in enumerate(ins):
            layer.weight.data = drawn(INNER, HIDDEN, seed=seed + 30)
        self.layers = nn.ModuleList([*ins, linear(INNER, HIDDEN)])
        self.heads, self.causal = heads, causal

    def forward(self, x: Tensor) -> Tensor:
        *ins, o = self.layers
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in ins
        )
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if self.causal:
            later = torch.ones(SEQUENCE, SEQUENCE).triu(1).bool()
            scores = scores.masked_fill(later, -torch.inf)
        return o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


Pair = tuple[nn.Module, nn.Module]  # the answer's block, and a whole one


def layers(answer: Any, **given: Any) -> Pair:
    """An MLP of the answer's two layers."""
    whole = WholeMLP()
    up, down = deepcopy(list(whole.layers))
    column = named(answer, "ColumnParallelLinear")(up, **given)
    row = named(answer, "RowParallelLinear")(down, **given)
    return nn.Sequential(column, nn.SiLU(), row), whole


def mlp(answer: Any, **given: Any) -> Pair:
    """The answer's own."""
    whole = WholeMLP()
    up, down = deepcopy(list(whole.layers))
    return named(answer, "ParallelMLP")(up, down, F.silu, **given), whole


def attention(
    answer: Any, heads: int = HEADS, causal: bool = True, **given: Any
) -> Pair:
    """The answer's own."""
    whole = WholeAttention(heads, causal)
    copies = deepcopy(list(whole.layers))
    block = named(answer, "ParallelAttention")
    return block(*copies, heads=heads, causal=causal, **given), whole


BLOCKS: dict[str, Callable[..., Pair]] = {
    "the two layers": layers,
    "ParallelMLP": mlp,
    "ParallelAttention": attention,
}


def its_block(
    name: str,
    answer: Any,
    seed: int = 20,
    group: Group = None,
    sequence_parallel: bool = False,
    **given: Any,
) -> None:
    """The block's output, its input's gradient, and its output after a step of
    SGD are the whole one's; an all-reduce's bytes are sent each way."""

    def tokens(x: Tensor) -> Tensor:
        return part(x, 1, group) if sequence_parallel else x

    given |= {"group": group, "sequence_parallel": sequence_parallel}
    block, whole = BLOCKS[name](answer, **given)
    x = drawn(2, SEQUENCE, HIDDEN, seed=seed)
    full, mine = (one.clone().requires_grad_() for one in (x, tokens(x)))
    expected = whole(full)
    with Traffic() as forward:
        found = block(mine)
    same(found, tokens(expected), f"{name}: the output")
    gradient = drawn(*x.shape, seed=seed + 1)
    back(expected, gradient)
    with Traffic() as backward:
        back(found, tokens(gradient))
    same(mine.grad, tokens(grad(full)), f"{name}: the input's gradient")
    for module in (block, whole):
        step(module)
    again = f"{name}: the output after a step of SGD"
    same(block(mine), tokens(whole(full)), again)
    ranks = dist.get_world_size(group)
    planned = Call("all_reduce", x.nbytes, ranks).sent
    sends(forward, planned, f"{name}: the forward pass")
    if sequence_parallel:  # a bias is added to 1/n of the tokens
        planned += Call("all_reduce", x[0, 0].nbytes, ranks).sent
    sends(backward, planned, f"{name}: the backward pass")


def step(module: nn.Module) -> None:
    """Of SGD, on all parameters."""
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, f"{name} has no gradient"
        parameter.data -= parameter.grad


def sends(traffic: Traffic, planned: float, what: str) -> None:
    """No more than is planned."""
    ops = ", ".join(call.op for call in traffic.calls)
    told = (
        f"{what} sends {traffic.sent:g} bytes ({ops}); {planned:g} are enough"
    )
    assert round(traffic.sent - planned, 3) <= 0, told


def is_an_mlp(answer: Any) -> None:
    """The answer's."""
    its_block("ParallelMLP", answer)


def attends(answer: Any) -> None:
    """To all tokens, and to those before."""
    for causal in (False, True):
        its_block("ParallelAttention", answer, causal=causal)


def splits_the_sequence(answer: Any) -> None:
    """In every block."""
    for name in BLOCKS:
        its_block(name, answer, sequence_parallel=True)


# The loss


def its_loss(answer: Any, logits: Tensor, group: Group = None) -> None:
    """Values and gradients, with targets in every rank's part."""
    batch, length, words = logits.shape
    targets = torch.arange(batch * length).view(batch, length) * 5 % words
    targets[0, 1] = IGNORED
    full = logits.clone().requires_grad_()
    mine = part(logits, -1, group).clone().requires_grad_()
    expected = F.cross_entropy(full.mT, targets, reduction="none")
    act = named(answer, "vocab_parallel_cross_entropy")
    found = act(mine, targets, group)
    greatest = f"the loss, with logits up to {logits.abs().max():.2g},"
    same(found, expected, greatest)
    gradient = drawn(*targets.shape, seed=21)
    back(expected, gradient)
    back(found, gradient)
    same(mine.grad, part(grad(full), -1, group), "the gradient of the logits")


def loses(answer: Any) -> None:
    """As one rank does, with small logits and great ones, for few bytes."""
    for scale in (1, 1e4):
        its_loss(answer, scale * drawn(2, SEQUENCE, INNER, seed=20))
    mine = drawn(1, 2, 64, seed=20).requires_grad_()
    act = named(answer, "vocab_parallel_cross_entropy")
    with Traffic() as traffic:
        act(mine, torch.tensor([[0, 1]]), None).sum().backward()
    # Three numbers a token would do; eight leave room for other ways.
    planned = Call("all_reduce", 2 * 8 * mine.itemsize, place(None)[1]).sent
    sends(traffic, planned, "the loss of two tokens")


# What a rank holds, and in which group


def holds_its_part(answer: Any) -> None:
    """In memory as well, and nothing where ranks do not divide it."""
    _, ranks = place(None)
    for name, build in BLOCKS.items():
        block, whole = build(answer)
        planned = sum(
            one.nbytes // (1 if one.shape == (HIDDEN,) else ranks)
            for one in whole.parameters()
        )
        held = {
            storage.data_ptr(): storage.nbytes()
            for one in (*block.parameters(), *block.buffers())
            for storage in [one.untyped_storage()]
        }
        total = sum(held.values())
        told = f"{name}: a rank holds {total} bytes, not {planned}"
        assert total <= planned, told
    column = named(answer, "ColumnParallelLinear")
    refuses(lambda: column(linear(HIDDEN, 7)), 7, "7 outputs")
    row = named(answer, "RowParallelLinear")
    refuses(lambda: row(linear(7, HIDDEN)), 7, "7 inputs")
    refuses(lambda: attention(answer, heads=4), 4, "4 heads")
    tokens = row(linear(3, HIDDEN), sequence_parallel=True)
    few = drawn(1, 4, 1, seed=20)
    refuses(lambda: tokens(few), 4, "4 tokens, sequence-parallel,")


def refuses(act: Callable[[], Any], count: int, what: str) -> None:
    """In one line, with both numbers."""
    ranks = dist.get_world_size()
    what = f"{what} on {ranks} ranks"
    try:
        act()
    except ValueError as error:
        said = str(error)
        clear = "\n" not in said and str(count) in said and str(ranks) in said
        assert clear, (
            f"{what}: the error says {said!r}, without {count}, {ranks}"
        )
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}") from error
    else:
        raise AssertionError(f"{what} are accepted")


def serves_groups(answer: Any) -> None:
    """Two groups of two, with other data each."""
    rank, _ = place(None)
    groups = [dist.new_group(members) for members in ([0, 2], [1, 3])]
    group = groups[rank % 2]
    seed = 20 + 2 * (rank % 2)
    for name in BLOCKS:
        its_block(name, answer, seed, group)
    its_loss(answer, drawn(2, SEQUENCE, INNER, seed=seed), group)


NAMES = {
    "column layer": "ColumnParallelLinear",
    "row layer": "RowParallelLinear",
    "MLP": "ParallelMLP",
    "attention": "ParallelAttention",
}
LOSS = {"cross entropy": "vocab_parallel_cross_entropy"}

CRITERIA = [
    Criterion(
        "column layer",
        12,
        "Each rank has used x for some of the outputs: whose gradient is that?",
        splits_outputs,
    ),
    Criterion(
        "row layer",
        12,
        "The sum is of products. Its gradient is the same on every rank.",
        splits_inputs,
    ),
    Criterion(
        "MLP",
        14,
        "What a rank's columns make is what its rows take.",
        is_an_mlp,
    ),
    Criterion(
        "attention",
        16,
        "A rank has whole heads. Its three products begin one block.",
        attends,
    ),
    Criterion(
        "cross entropy",
        16,
        "Of each token ranks need the greatest logit, a sum, the target's.",
        loses,
    ),
    Criterion(
        "sequence parallel",
        14,
        "Gather tokens where a block begins; sum and split them where it ends.",
        splits_the_sequence,
        needs=NAMES,
    ),
    Criterion(
        "shards",
        8,
        "Hold a copy of the part, and see first that there is one.",
        holds_its_part,
        needs=NAMES,
    ),
    Criterion(
        "groups",
        8,
        "Ask the group for this rank's number, and reduce in it.",
        serves_groups,
        world=4,
        needs=NAMES | LOSS,
    ),
]
