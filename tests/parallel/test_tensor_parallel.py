"""Our tensor parallelism beside torch's: a layer of a transformer, its loss."""

from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn.utils import clip_grad_norm_

from lockstep.experiments.demos.tensor_parallel import divide
from lockstep.instruments.traffic import Call, Traffic
from lockstep.parallel.tensor_parallel import (
    ColumnParallelLinear,
    ParallelAttention,
    ParallelMLP,
    RowParallelLinear,
    enter,
    leave,
    vocab_parallel_cross_entropy,
)
from lockstep.planner.communication import communication
from lockstep.planner.models import shape
from lockstep.trainer.process import joined
from tests import ranks

RANKS = 2
BATCH, SEQUENCE, HIDDEN, HEADS, INNER = 2, 8, 16, 4, 32
VOCABULARY = 24
Found = dict[str, Any]
Step = tuple[bool, list[Any]]


def in_a_group(work: Any, *args: Any) -> Any:
    with joined(30, ranks.store()):
        return work(*args)


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


class Attention(nn.Module):
    """Over as many heads as its layers have."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (
            nn.Linear(HIDDEN, HIDDEN) for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (-1, HIDDEN // HEADS)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(found.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(HIDDEN, INNER)
        self.down = nn.Linear(INNER, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))


class Layer(nn.Module):
    """As a transformer has it: two blocks, what comes before them, and what
    goes round them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.attention: nn.Module = Attention()
        self.mlp: nn.Module = MLP()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class Norm(nn.LayerNorm):
    """Of 1/n of the tokens, so its gradients are sums over ranks."""

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = (
            enter(one, None, sequence_parallel=False)
            for one in (self.weight, self.bias)
        )
        return F.layer_norm(x, self.normalized_shape, weight, bias)


def ours(split: bool) -> Layer:
    layer = Layer()
    a, m = layer.attention, layer.mlp
    layer.attention = ParallelAttention(
        *(a.q, a.k, a.v, a.o), HEADS, causal=True, sequence_parallel=split
    )
    layer.mlp = ParallelMLP(m.up, m.down, sequence_parallel=split)
    if split:
        layer.first, layer.second = Norm(HIDDEN), Norm(HIDDEN)
    return layer


def torchs(split: bool) -> Layer:
    layer = Layer()
    divide(layer, init_device_mesh("cpu", (RANKS,)), split)
    return layer


def here(gradient: Tensor) -> Tensor:
    """This rank's part, or all of it if no rank has only a part."""
    if not isinstance(gradient, DTensor):
        return gradient
    if any(isinstance(one, Shard) for one in gradient.placements):
        return gradient.to_local()
    return gradient.full_tensor()


def trained(layer: Layer, split: bool) -> tuple[Found, Traffic]:
    """What comes of a step, and what it sends."""

    def tokens(of_all: Tensor) -> Tensor:
        return of_all.chunk(RANKS, 1)[dist.get_rank()] if split else of_all

    x = tokens(drawn(BATCH, SEQUENCE, HIDDEN)).clone().requires_grad_()
    with Traffic() as traffic:
        y = layer(x)
        (y * tokens(drawn(BATCH, SEQUENCE, HIDDEN).cos())).sum().backward()
    found = {name: here(p.grad) for name, p in layer.named_parameters()}
    return found | {"y": y, "x": x.grad}, traffic


def compared(split: bool) -> tuple[dict[str, float], list[list[Call]]]:
    """By how much ours differ from torch's, and what each sends."""
    (found, our), (expected, their) = (
        trained(make(split), split) for make in (ours, torchs)
    )
    assert found.keys() == expected.keys()
    for name in found:
        assert found[name].shape == expected[name].shape, name
    differences = {
        name: (found[name] - expected[name]).abs().max().item()
        for name in found
    }
    return differences, [our.calls, their.calls]


@pytest.fixture(scope="module", params=[False, True], ids=["whole", "split"])
def step(request: pytest.FixtureRequest) -> Step:
    """With sequence parallelism and without, on all ranks."""
    split = request.param
    return split, ranks.run_ranks(RANKS, in_a_group, compared, split)


def test_a_layer_trains_as_torchs_does(step: Step) -> None:
    """The output and all gradients of a transformer layer of ours are within
    1e-5 of those of torch's tensor-parallel layer, with sequence parallelism
    and without it."""
    for differences, _ in step[1]:
        expected = dict.fromkeys(differences, 0)
        assert differences == pytest.approx(expected, abs=1e-5)


def test_a_layer_sends_what_is_planned(step: Step) -> None:
    """The activations that a step of a transformer layer sends are the bytes
    that the planner says, for our layer and for torch's. Gradients of norms and
    biases, which are smaller, are not counted."""
    model = shape(
        {"layers": 1, "hidden": HIDDEN, "heads": HEADS, "kv_heads": HEADS}
        | {"vocab": VOCABULARY, "ffn": INNER}
    )
    given = {"params": 0, "sequence": SEQUENCE, "micro_batch": BATCH}
    given |= {"tp": RANKS, "bytes_activation": 4}
    planned = communication(model | given)["tensor_bytes"].value
    activation = BATCH * SEQUENCE * HIDDEN * 4
    split, found = step
    for _, senders in found:
        for calls in senders:
            great = [call for call in calls if call.bytes == activation]
            assert sum(call.sent for call in great) == planned
            assert len(great) == (8 if split else 4)


# The loss


def losses() -> tuple[float, list[Call]]:
    """Ours beside torch's: what a padded token has, and what ours sends."""
    whole = 30 * drawn(BATCH, SEQUENCE, VOCABULARY)
    part = whole.chunk(RANKS, -1)[dist.get_rank()]
    targets = torch.arange(BATCH * SEQUENCE).view(BATCH, SEQUENCE) % VOCABULARY
    targets[1, 2] = -100

    mine = part.clone().requires_grad_()
    with Traffic() as traffic:
        loss = vocab_parallel_cross_entropy(mine, targets)
        (loss * loss.detach()).sum().backward()

    theirs = part.clone().requires_grad_()
    mesh = init_device_mesh("cpu", (RANKS,))
    with loss_parallel():
        logits = DTensor.from_local(theirs.flatten(0, 1), mesh, [Shard(1)])
        expected = F.cross_entropy(logits, targets.flatten(), reduction="none")
        (expected * expected.detach()).sum().backward()
    local = expected.full_tensor().view(BATCH, SEQUENCE)
    torch.testing.assert_close(loss, local)
    torch.testing.assert_close(mine.grad, theirs.grad)
    return loss[1, 2].item(), traffic.calls


def test_the_loss_is_torchs_for_three_numbers_a_token() -> None:
    """A maximum, a sum and the target's logit."""
    for padded, found in ranks.run_ranks(RANKS, in_a_group, losses):
        assert padded == 0
        assert {call.op for call in found} == {"all_reduce"}
        assert sum(call.bytes for call in found) == 3 * BATCH * SEQUENCE * 4


def saved() -> tuple[str, list[int]]:
    """Of logits in bfloat16."""
    sizes = []

    def note(tensor: Tensor) -> Tensor:
        sizes.append(tensor.nbytes)
        return tensor

    logits = drawn(64, 512).bfloat16().requires_grad_()
    targets = torch.arange(64)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        loss = vocab_parallel_cross_entropy(logits, targets)
    return str(loss.dtype), sizes


def test_the_loss_keeps_one_tensor_of_its_part_for_backward() -> None:
    for dtype, sizes in ranks.run_ranks(RANKS, in_a_group, saved):
        assert dtype == "torch.float32"
        assert [size for size in sizes if size > 64 * 8] == [64 * 512 * 4]


# What else the page says


def drops() -> list[float]:
    """Of the hidden layer, whose parts ranks have."""
    torch.manual_seed(7)
    return F.dropout(torch.ones(64)).tolist()


def test_equal_seeds_drop_the_same_places_of_every_part() -> None:
    """With equal seeds, dropout drops the same places of each rank's part of a
    block."""
    first, second = ranks.run_ranks(RANKS, in_a_group, drops)
    assert first == second


def test_a_part_made_by_itself_is_drawn_from_a_wider_range() -> None:
    """An `nn.Linear` that is made with a quarter of the inputs draws weights
    with twice the standard deviation of the whole layer's, within 2 %."""
    torch.manual_seed(0)
    whole, part = nn.Linear(4096, 64), nn.Linear(4096 // 4, 64)
    spread = part.weight.std() / whole.weight.std()
    assert spread.item() == pytest.approx(2, rel=0.02)


class BiasTooEarly(RowParallelLinear):
    """Adds the bias to its own term, before the sum."""

    def forward(self, x: Tensor) -> Tensor:
        return leave(F.linear(x, self.weight, self.bias), None, False)


def biases() -> float:
    """How many times the bias is in the output, when it is added early."""
    full = nn.Linear(HIDDEN, 1)
    nn.init.ones_(full.bias)
    return BiasTooEarly(full)(torch.zeros(HIDDEN // RANKS)).item()


def test_a_bias_before_the_sum_counts_once_for_each_rank() -> None:
    """A last matrix whose bias each rank adds to its own term has the bias in
    its output as many times as there are ranks."""
    assert ranks.run_ranks(RANKS, in_a_group, biases) == [RANKS] * RANKS


def clipped() -> list[list[float]]:
    """The gradient of a norm that all ranks share, after each clipped by the
    norm of what it has itself."""
    layer = ours(split=False)
    x = drawn(BATCH, SEQUENCE, HIDDEN)
    layer(x).square().sum().backward()
    shared = layer.first.weight.grad
    assert shared is not None
    before = shared.clone()
    clip_grad_norm_(layer.parameters(), 1.0)
    return [before.tolist(), shared.tolist()]


def test_clipping_by_a_ranks_own_norm_scales_shared_weights_differently() -> (
    None
):
    """The gradient of a layer norm is the same on both ranks. After each rank
    has clipped by the norm of its own parts, it differs, by more than 1 %."""
    (before, after), (other, later) = torch.tensor(
        ranks.run_ranks(RANKS, in_a_group, clipped)
    )
    torch.testing.assert_close(before, other)
    assert (after - later).norm() > 0.01 * after.norm()


def alone() -> float:
    """A group of one says nothing that another would hear."""
    full = MLP()
    block = ParallelMLP(full.up, full.down, sequence_parallel=True)
    x = drawn(BATCH, SEQUENCE, HIDDEN)
    with Traffic() as traffic:
        torch.testing.assert_close(block(x), full(x))
        bare = nn.Linear(HIDDEN, HIDDEN, bias=False)
        torch.testing.assert_close(RowParallelLinear(bare)(x), bare(x))
    return traffic.sent


def test_one_rank_is_the_whole_module() -> None:
    assert ranks.run_ranks(1, in_a_group, alone) == [0]


def refusals() -> list[str]:
    said = []
    layers = [nn.Linear(6, 6) for _ in range(4)]
    attempts = [
        lambda: ColumnParallelLinear(nn.Linear(6, 7)),
        lambda: RowParallelLinear(nn.Linear(7, 6)),
        lambda: ParallelAttention(*layers, heads=3),
        lambda: RowParallelLinear(layers[0], sequence_parallel=True)(
            drawn(3, 3)
        ),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError, match="evenly") as raised:
            attempt()
        said.append(str(raised.value))
    return said


def test_ranks_share_whole_heads_alone() -> None:
    """Two ranks refuse three heads of two outputs each, although they divide
    the six outputs. They refuse seven inputs or outputs as well."""
    for said in ranks.run_ranks(RANKS, in_a_group, refusals):
        assert said == [
            "2 ranks cannot share 7 outputs evenly",
            "2 ranks cannot share 7 inputs evenly",
            "2 ranks cannot share 3 heads evenly",
            "2 ranks cannot share 3 tokens evenly",
        ]
