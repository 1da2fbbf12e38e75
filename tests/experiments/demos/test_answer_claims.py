"""What hard questions ask of torch, counted on the torch that is here."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from lockstep.experiments.benchmarks import traces
from lockstep.experiments.demos.peak_memory import GPT3, MODES, of_blocks
from lockstep.experiments.slow_jobs import padding
from lockstep.parallel.expert_parallel import route
from lockstep.trainer.process import joined
from tests import ranks


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    """Eight ranks, of which one is here and nothing is sent."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    yield init_device_mesh("cpu", (8,))
    dist.destroy_process_group()


def sent(call: Callable[[], Any]) -> dict[str, int]:
    """How many collectives of each kind it calls."""
    with CommDebugMode() as mode:
        call()
    return {str(k).split(".")[-1]: n for k, n in mode.get_comm_counts().items()}


class Ops(TorchDispatchMode):
    """Counts kernels by name."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.calls[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("around", "products"),
    [
        (lambda module, x: module(x), 6),
        (partial(checkpoint, use_reentrant=True), 8),
        (partial(checkpoint, use_reentrant=False), 7),
    ],
)
def test_recomputation_ends_before_the_last_product(
    around: Callable[..., Tensor], products: int
) -> None:
    mlp = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
    x = torch.randn(4, 8, requires_grad=True)
    with Ops() as ops:
        (x + around(mlp, x)).sum().backward()
    assert ops.calls["mm"] + ops.calls["addmm"] == products


def stepped(optimizer: torch.optim.Optimizer, weight: Tensor) -> None:
    weight.grad = torch.ones_like(weight)
    optimizer.step()


def test_an_optimizer_loads_the_very_tensors_that_it_is_given() -> None:
    first, second = (nn.Parameter(torch.ones(3)) for _ in range(2))
    a, b = (torch.optim.AdamW([one]) for one in (first, second))
    for _ in range(3):
        stepped(a, first)
    b.load_state_dict(a.state_dict())
    stepped(a, first)
    stepped(b, second)
    assert b.state[second]["step"].item() == 5
    assert b.state[second]["exp_avg"] is a.state[first]["exp_avg"]


@pytest.mark.parametrize(("saved", "step", "part"), [(0, 3, 1), (1, 4, 0.744)])
def test_a_state_that_is_asked_for_early_has_made_a_step(
    saved: int, step: int, part: float
) -> None:
    model = nn.Linear(3, 3, bias=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0)
    if saved:
        get_state_dict(model, optimizer)
    before = model.weight.detach().clone()
    stepped(optimizer, model.weight)
    moved = (before - model.weight.detach()) / 0.1
    torch.testing.assert_close(
        moved, torch.full_like(moved, part), rtol=0, atol=1e-3
    )
    for _ in range(2):
        stepped(optimizer, model.weight)
    assert optimizer.state[model.weight]["step"].item() == step


class Scaled(nn.Module):
    """Multiplies by a number of Python's."""

    def __init__(self) -> None:
        super().__init__()
        self.by: float = 0

    def forward(self, x: Tensor) -> Tensor:
        return x * self.by


@pytest.mark.parametrize(("by", "graphs"), [(0.37, 2), (1, 8)])
def test_a_float_is_compiled_twice_and_an_integer_eight_times(
    by: float, graphs: int
) -> None:
    made = []

    def backend(graph: Any, _: Any) -> Any:
        made.append(graph)
        return graph.forward

    torch._dynamo.reset()
    module = Scaled()
    compiled = torch.compile(module, backend=backend)
    for i in range(2, 22):
        module.by = by * i
        compiled(torch.ones(4))
    torch._dynamo.reset()
    assert len(made) == graphs


@pytest.mark.parametrize(
    ("mib", "cap", "buckets"),
    [(24, 25, [1] + [2] * 6), (24, 20, [1] * 13), (26, 25, [1] * 13)],
)
def test_a_bucket_closes_once_it_is_full(
    mib: int, cap: int, buckets: list[int]
) -> None:
    weights = [torch.empty(mib << 18, device="meta") for _ in range(13)]
    found, _ = dist._compute_bucket_assignment_by_size(
        weights, [1 << 20, cap << 20]
    )
    assert [len(one) for one in found] == buckets


@pytest.mark.parametrize(("autocast", "copies"), [(False, 1), (True, 3)])
def test_autocast_casts_an_activation_for_each_that_reads_it(
    autocast: bool, copies: int
) -> None:
    kept: dict[int, Tensor] = {}

    def pack(one: Tensor) -> Tensor:
        kept[one.untyped_storage().data_ptr()] = one
        return one

    dtype = torch.float32 if autocast else torch.bfloat16
    layers = [nn.Linear(64, 64, bias=False, dtype=dtype) for _ in range(3)]
    leaf = torch.randn(256, 64, dtype=dtype, requires_grad=True)
    x = leaf * 1  # the cast of a leaf would be cached
    with (
        saved_tensors_hooks(pack, lambda one: one),
        torch.autocast("cpu", torch.bfloat16) if autocast else nullcontext(),
    ):
        [layer(x) for layer in layers]
    inputs = [one for one in kept.values() if one.shape == x.shape]
    assert {one.dtype for one in inputs} == {torch.bfloat16}
    assert len(inputs) == copies


def test_parallelize_module_sends_each_weight(mesh: DeviceMesh) -> None:
    def parallelize(device: str) -> dict[str, int]:
        with torch.device(device):
            mlp = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))
        plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        return sent(lambda: parallelize_module(mlp, mesh, plan))

    assert parallelize("cpu") == {"scatter_": 3, "broadcast_": 1}
    assert parallelize("meta") == {}


class Block(nn.Module):
    """A norm and two layers, beside a residual."""

    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def test_the_gradient_of_a_norm_is_summed_in_the_optimizer(
    mesh: DeviceMesh,
) -> None:
    block = Block()
    plan = {
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(
            output_layouts=Shard(1), use_local_output=False
        ),
    }
    parallelize_module(block, mesh, plan)
    x = distribute_tensor(torch.randn(2, 16, 16), mesh, [Shard(1)])
    x.requires_grad_()
    gather, scatter = "all_gather_into_tensor", "reduce_scatter_tensor"
    y: list[Tensor] = []
    assert sent(lambda: y.append(block(x))) == {gather: 1, scatter: 1}
    assert sent((y[0] ** 2).sum().backward) == {gather: 1, scatter: 1}
    optimizer = torch.optim.AdamW(block.parameters())
    for _ in range(2):
        assert sent(optimizer.step) == {"all_reduce": 6}


def test_a_deviation_gathers_what_a_norm_does_not(mesh: DeviceMesh) -> None:
    def read(name: str) -> dict[str, int]:
        weight = DTensor.from_local(torch.randn(2, 32), mesh, [Shard(0)])
        return sent(lambda: getattr(weight, name)().full_tensor())

    assert read("norm") == read("mean") == {"all_reduce": 1}
    assert read("std") == {"all_gather_into_tensor": 1}


def asked_of_ranks() -> dict[str, Any]:
    """Answers of one of two ranks on gloo."""
    found: dict[str, Any] = {}
    with joined(30, ranks.store()):
        rank = dist.get_rank()
        pair = init_device_mesh("cpu", (2,))
        weight = distribute_tensor(torch.arange(4.0) + 1, pair, [Shard(0)])
        whole = weight.sum()
        assert isinstance(whole, DTensor)
        found["items"] = [
            whole.item(),
            weight.norm().item(),
            bool((weight > 2).all()),
            whole.full_tensor().item(),
        ]
        mean = torch.full((1,), float(rank))
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        part, half = torch.zeros(1), torch.zeros(1)
        dist.reduce_scatter(part, [torch.ones(1)] * 2)
        dist.reduce_scatter_tensor(half, torch.ones(2), op=dist.ReduceOp.AVG)
        swapped = [torch.zeros(1), torch.zeros(1)]
        dist.all_to_all(swapped, [torch.full((1,), float(rank))] * 2)
        found["gloo"] = [one.item() for one in (mean, part, half, *swapped)]
        found["broadcasts"] = broadcasts()
    return found


def broadcasts() -> list[str]:
    """The forward passes in which DDP broadcasts buffers."""
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    ddp = DistributedDataParallel(model)
    synced, now, found = ddp._sync_buffers, "", []

    def noted() -> None:
        found.append(now)
        synced()

    ddp._sync_buffers = noted  # type: ignore[method-assign]
    for step in range(3):
        now = f"train {step}"
        ddp.train()
        ddp(torch.randn(4, 4)).sum().backward()
        ddp.eval()
        for batch in range(5):
            now = f"eval {step}.{batch}"
            with torch.no_grad():
                ddp(torch.randn(4, 4))
    return found


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    return ranks.run_ranks(2, asked_of_ranks)


Answers = list[dict[str, Any]]


def test_a_number_of_a_sharded_tensor_is_this_ranks(answers: Answers) -> None:
    zero, one = (each["items"] for each in answers)
    assert zero == [3, pytest.approx(5**0.5), False, 10]
    assert one == [7, pytest.approx(5), True, 10]


def test_gloo_averages_scatters_and_swaps(answers: Answers) -> None:
    for each in answers:
        assert each["gloo"] == [0.5, 2, 1, 0, 1]


def test_a_forward_after_evaluation_broadcasts_nothing(
    answers: Answers,
) -> None:
    for each in answers:
        assert each["broadcasts"] == [
            "train 0",
            "eval 0.0",
            "eval 1.0",
            "eval 2.0",
        ]


def thousand(name: str) -> float:
    """The sum that it makes of a thousand ones in bf16."""
    rows, ones = torch.zeros(1000, dtype=torch.long), torch.ones(1000, 1)
    ones = ones.bfloat16()
    if name == "embedding":
        table = nn.Embedding(2, 1, dtype=torch.bfloat16)
        table(rows).float().sum().backward()
        assert table.weight.grad is not None
        return float(table.weight.grad[0])
    if name == "bias":
        layer = nn.Linear(1, 1, dtype=torch.bfloat16)
        layer(ones).float().sum().backward()
        assert layer.bias.grad is not None
        return float(layer.bias.grad)
    into = torch.zeros(1, dtype=torch.bfloat16)
    if name == "index_add_":
        return into.index_add_(0, rows, ones[:, 0]).item()
    if name == "index_add_ into a matrix":
        matrix, wide = into.new_zeros(1, 4), ones.expand(1000, 4)
        return matrix.index_add_(0, rows, wide)[0, 0].item()
    return into.scatter_add_(0, rows, ones[:, 0]).item()


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("bias", 1000),
        ("embedding", 256),
        ("scatter_add_", 1000),
        ("index_add_", 256),
        ("index_add_ into a matrix", 1000),
    ],
)
def test_a_thousand_ones_in_bf16(name: str, total: int) -> None:
    assert thousand(name) == total


def test_on_two_blocks_full_recomputation_peaks_second() -> None:
    """Of four it is last but one."""
    orders = []
    for layers in (4, 2):
        shape = GPT3 | {"layers": layers}
        peaks = {
            name: of_blocks(mode, shape).peak for name, mode in MODES.items()
        }
        orders.append(sorted(peaks, key=peaks.__getitem__, reverse=True))
    four, two = orders
    assert four == ["none", "selective", "flash", "full", "flash, full"]
    assert two == ["none", "full", "selective", "flash", "flash, full"]


def test_most_drops_are_forced_by_capacity() -> None:
    """The routers of lab 07's demo, whose output a question shows."""
    tokens, k, experts = 8, 2, 4
    dropped, touched = [], []
    for rank in (0, 1):
        torch.manual_seed(rank)
        x = torch.randn(tokens, 4)
        torch.manual_seed(0)
        logits = nn.Linear(4, experts)(x)
        lost = ~route(logits, k, 3).kept
        dropped.append(int(lost.sum()))
        touched.append(int(lost.any(1).sum()))
        if rank == 0:
            assert lost.all(1).nonzero().flatten().tolist() == [6]
            assert int(route(logits, k, 4).dropped) == 3
    one = torch.eye(experts)  # each token chooses the next expert as well
    even = (one + one.roll(1, 1)).repeat(tokens // experts, 1)
    forced = int(route(even, k, 3).dropped)
    assert forced == tokens * k - experts * 3 == 4
    assert (touched[0], sum(dropped), sum(dropped) - 2 * forced) == (5, 12, 4)


def test_padding_costs_more_flops_than_tokens() -> None:
    """So an epoch gains more than the share of real tokens does."""
    lengths = padding.drawn()
    slow, mended = padding.in_order(lengths), padding.alike(lengths)
    positions = [
        sum(len(batch) * max(batch) for batch in batches)
        for batches in (slow, mended)
    ]
    tokens = positions[0] / positions[1]
    epoch = padding.flops(slow) / padding.flops(mended)
    assert tokens == pytest.approx(88 / 49, rel=0.02)
    assert epoch == pytest.approx(78 / 31, rel=0.02)


@pytest.mark.parametrize("rank", [0, 1])
def test_overlap_hides_a_third_of_what_it_saves(rank: int) -> None:
    """In the kept traces, at little cost: operators take about as long."""
    apart, overlap = (traces.read(case)[rank] for case in ("apart", "overlap"))
    saved = apart["exposed"] - overlap["exposed"]
    gone = apart["communication"] - overlap["communication"]
    assert 0.3 < (saved - gone) / saved < 0.37
    assert 1 < overlap["computation"] / apart["computation"] < 1.2
