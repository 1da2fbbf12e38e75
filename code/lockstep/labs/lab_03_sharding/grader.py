"""Lab 03: what sharded state must hold."""

import gc
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import StepLR
from torch.utils._pytree import tree_leaves

from lockstep.grading.criteria import Criterion, named
from lockstep.instruments.memory import Memory
from lockstep.instruments.traffic import Call, Traffic
from lockstep.planner.memory import BYTES, OPTIMIZERS, memory

Params = list[nn.Parameter]


def drawn(seed: int, *shape: int) -> Tensor:
    """Numbers that are the same wherever they are drawn."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def close(found: Tensor, expected: Tensor, what: str) -> None:
    """AssertionError, unless they are equal but for rounding."""
    told = f"{what} is {numbers(found)}, not {numbers(expected)}"
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5), told


def numbers(tensor: Tensor) -> str:
    """To be read."""
    return f"[{', '.join(f'{x:.4g}' for x in tensor.flatten().tolist())}]"


def planned(params: int, ranks: int, stage: int, kind: str, *of: str) -> float:
    """The planner's bytes of parameters, gradients or optimizer on one rank."""
    sizes = dict(zip(BYTES, OPTIMIZERS[kind], strict=False))
    given = {"params": params, "dp": ranks, "zero_stage": stage}
    plan = memory(sizes | given)
    return sum(float(plan[f"{what}_bytes"]) for what in of)


# ZeRO-1


def parameters(*sizes: int) -> Params:
    """The same on every rank."""
    return [nn.Parameter(drawn(n, size)) for n, size in enumerate(sizes)]


def turn(optimizer: Optimizer, params: Params, number: int) -> Any:
    """A step with gradients as an all-reduce leaves them. Every other time the
    second parameter has none."""
    for n, param in enumerate(params):
        param.grad = drawn(100 * number + n, *param.shape)
    if number % 2:
        params[1].grad = None
    found = optimizer.step(lambda: number)
    optimizer.zero_grad()
    return found


def same(mine: Params, plain: Params, when: str) -> None:
    """The answer's parameters are those of one process."""
    for n, (found, expected) in enumerate(zip(mine, plain, strict=True)):
        what = f"parameter {n} on rank {dist.get_rank()} after {when}"
        close(found, expected, what)


def steps(answer: ModuleType) -> None:
    """As on one process, for two optimizers."""
    sharded = named(answer, "ShardedOptimizer")
    optimizers: dict[type[Optimizer], dict[str, Any]] = {
        AdamW: {"lr": 0.1, "weight_decay": 0.5},
        SGD: {"lr": 0.1, "momentum": 0.9},
    }
    for kind, given in optimizers.items():
        mine, plain = parameters(7, 2, 12, 4), parameters(7, 2, 12, 4)
        ours, theirs = sharded(mine, kind, **given), kind(plain, **given)
        for number in range(4):
            found = turn(ours, mine, number)
            turn(theirs, plain, number)
            same(mine, plain, f"step {number} of {kind.__name__}")
            told = f"step returns {found}, and its closure {number}"
            assert found == number, told


class Watched(SGD):
    """One number of state for a parameter; it knows who was made."""

    made: list[Optimizer] = []  # noqa: RUF012

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.made.append(self)


SIZES = [256] * 3 + [16] * 6


def its_state(answer: ModuleType) -> int:
    """Bytes that this rank keeps."""
    params = parameters(*SIZES)
    ours = named(answer, "ShardedOptimizer")(
        params, Watched, lr=0.1, momentum=0.9
    )
    turn(ours, params, 0)
    kept = tree_leaves([list(one.state.values()) for one in Watched.made])
    return sum(one.nbytes for one in kept if isinstance(one, Tensor))


def is_shared_out(kept: list[int]) -> None:
    """A rank keeps its share, give or take a tensor."""
    given = sum(SIZES), len(kept), 1, "sgd-momentum-fp32"
    share, tensor = planned(*given, "optimizer"), 4 * max(SIZES)
    for rank, found in enumerate(kept):
        told = f"rank {rank} keeps {found} bytes of state; a share is {share:g}"
        assert found <= share + tensor, told
    whole = 4 * sum(SIZES)
    told = f"optimizer_cls keeps {sum(kept)} bytes on all ranks, of {whole}"
    assert sum(kept) >= whole, told


def groups(answer: ModuleType) -> None:
    """Each with its settings, one that comes later, and a scheduler."""
    sharded = named(answer, "ShardedOptimizer")
    make: Callable[..., Optimizer]
    found: list[list[Tensor]] = []
    for make in (partial(sharded, optimizer_cls=SGD), SGD):
        params = parameters(5, 4, 6, 3)
        given: list[dict[str, Any]] = [
            {"params": params[:1]},
            {"params": params[1:3], "lr": 0.5, "weight_decay": 0.1},
        ]
        optimizer = make(params=given, lr=0.1)
        scheduler = StepLR(optimizer, 1, 0.5)
        for number in range(3):
            if number == 1:
                late = {"params": params[3:], "lr": 0.05, "momentum": 0.9}
                optimizer.add_param_group(late)
            turn(optimizer, params, number)
            scheduler.step()
            found.append([one.detach().clone() for one in params])
    for number in range(3):
        same(found[number], found[3 + number], f"step {number}")  # type: ignore[arg-type]


# ZeRO-3


class Block(nn.Module):
    """A parameter of its own beside a child's."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(drawn(1, 7))
        self.inner = nn.Linear(7, 7)

    def forward(self, x: Tensor) -> Tensor:
        """(rows, 7) to the same."""
        return x + self.scale * self.inner(x).tanh()


class Model(nn.Module):
    """No number of parameters here that three divides; a block used twice."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Linear(4, 7)
        self.block = Block()
        self.last = nn.Linear(7, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(rows, 4) to (rows, 2)."""
        return self.last(self.block(self.block(self.first(x))))


def trains(answer: ModuleType) -> None:
    """As one process that has all samples: two steps of two micro-batches, and
    what comes out after each."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine, plain = named(answer, "ShardedDataParallel")(Model(rank)), Model(0)
    ours, theirs = (
        SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (mine, plain)
    )
    for number in range(3):
        x = drawn(number, 1, 4)
        with torch.no_grad():
            what = f"the output on rank {rank} after {number} steps"
            close(mine(x), plain(x), what)
        for micro in range(2):
            x = drawn(10 * number + micro, 2 * ranks, 4)
            mine(x.chunk(ranks)[rank]).square().mean().backward()
            mine.wait_for_gradients()
            plain(x).square().mean().backward()
        for optimizer in (ours, theirs):
            optimizer.step()
            optimizer.zero_grad()


def frozen() -> nn.Module:
    """Between others."""
    torch.manual_seed(0)
    layers = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))
    layers[1].requires_grad_(False)
    return layers


def shared() -> nn.Module:
    """One matrix in two modules."""
    layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    layers[1].weight = layers[0].weight
    return layers


def half_frozen() -> nn.Module:
    """One module's bias."""
    layer = nn.Linear(4, 4)
    layer.bias.requires_grad_(False)
    return layer


def treats_them(answer: ModuleType) -> None:
    """A frozen module stays as it is; what cannot be cut is refused."""
    sharded = named(answer, "ShardedDataParallel")
    mine, plain = sharded(frozen()), frozen()
    x = drawn(0, 1, 4)
    for model in (mine, plain):
        optimizer = SGD(model.parameters(), lr=0.1, weight_decay=5)
        (0 * model(x).sum()).backward()
        if model is mine:
            model.wait_for_gradients()
        optimizer.step()  # it halves what is trained
    close(mine(x), plain(x), "the output when all but the middle is halved")
    for make, what in (
        (shared, "a parameter that two modules share"),
        (half_frozen, "a module with one of two parameters frozen"),
    ):
        try:
            sharded(make())
        except ValueError:
            continue
        raise AssertionError(f"{what} raises no ValueError")


LAYERS, WIDTH = 12, 12


def layers(count: int) -> nn.Sequential:
    """Each with as many parameters, which three divides."""
    made = (nn.Linear(WIDTH, WIDTH) for _ in range(count))
    return nn.Sequential(*(nn.Sequential(one, nn.Tanh()) for one in made))


def keeps_little(answer: ModuleType) -> None:
    """Between steps what is planned, within one a few layers more."""
    sharded = named(answer, "ShardedDataParallel")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    params = LAYERS * WIDTH * (WIDTH + 1)
    plan = partial(planned, params, ranks, 3, "adam-fp32")
    x = drawn(0, 1, WIDTH)
    gc.freeze()  # what there is already need not be looked at
    with Memory() as seen:
        model = sharded(layers(LAYERS))
        optimizer = Adam(model.parameters())
        for _ in range(2):
            gc.collect()
            between = seen.peak = seen.live
            model(x).sum().backward()
            model.wait_for_gradients()
            peak = seen.peak
            optimizer.step()
            optimizer.zero_grad()
    expected = plan("parameters", "optimizer")
    assert between <= 1.25 * expected, (
        f"rank {rank} keeps {between} bytes between steps; the plan is"
        f" {expected:g}"
    )
    more = peak - between - plan("gradients")
    assert more <= 4 * params / 2, (
        f"within a step rank {rank} needs {more:g} bytes beside the parts;"
        f" the whole model has {4 * params}, a layer {4 * params // LAYERS}"
    )


def sent(answer: ModuleType) -> tuple[Traffic, Traffic]:
    """Of both passes through three layers, and of a step on nine parameters."""
    model = named(answer, "ShardedDataParallel")(layers(3))
    params = parameters(*[WIDTH] * 9)
    optimizer = named(answer, "ShardedOptimizer")(params, SGD, lr=0.1)
    x = drawn(dist.get_rank(), 1, WIDTH)
    with Traffic() as passes:
        model(x).sum().backward()
        model.wait_for_gradients()
    with Traffic() as step:
        turn(optimizer, params, 0)
    return passes, step


def by_collectives_alone(answer: ModuleType) -> None:
    """Whoever shards calls them, and torch's own sharding does not."""
    whats = "ShardedDataParallel", "ShardedOptimizer"
    for what, traffic in zip(whats, sent(answer), strict=True):
        calls = traffic.calls
        torchs = [call for call in calls if call.by_torch]
        told = f"{len(torchs)} of {len(calls)} collectives of {what} are called"
        assert not torchs, f"{told} by {torchs[0].by}, not by your code"


def sends_little(answer: ModuleType) -> None:
    """As few bytes as theory asks for."""
    traffic, step = sent(answer)
    size = 4 * 3 * WIDTH * (WIDTH + 1)
    ops = ("all_gather", "all_gather", "reduce_scatter")
    most = sum(Call(op, size, dist.get_world_size()).sent for op in ops)
    used = ", ".join(sorted({call.op for call in traffic.calls}))
    told = (
        f"both passes send {traffic.sent:g} bytes by {used}, not {most:g};"
        f" the parameters have {size}"
    )
    assert traffic.sent <= most, told
    most = 4 * WIDTH * 9
    told = f"step sends {step.sent:g} bytes; the parameters have {most}"
    assert step.sent <= most, told


def names_them(answer: ModuleType) -> None:
    """What rank 0 had, whole, on every rank."""
    rank = dist.get_rank()
    found = named(answer, "ShardedDataParallel")(Model(rank)).full_parameters()
    expected = dict(Model(0).named_parameters())
    told = f"full_parameters() has {sorted(found)}, not {sorted(expected)}"
    assert set(found) == set(expected), told
    for name, tensor in expected.items():
        shape = tuple(found[name].shape)
        told = f"{name} has shape {shape}, not {tuple(tensor.shape)}"
        assert shape == tuple(tensor.shape), told
        close(found[name], tensor, f"{name} on rank {rank}")


class Typed(nn.Linear):
    """It notes in which dtypes it computes."""

    seen: set[torch.dtype] = set()  # noqa: RUF012

    def forward(self, x: Tensor) -> Tensor:
        """Linear's."""
        self.seen |= {x.dtype, self.weight.dtype}
        return super().forward(x)


def rounds_little(answer: ModuleType) -> None:
    """16 bits to compute with, 32 to keep and to add up in."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    low = torch.bfloat16
    sharded = named(answer, "ShardedDataParallel")
    model = sharded(Typed(2 * ranks, 1, bias=False), low_precision=low)
    # 256 + 1 is no bfloat16.
    x = torch.full((1, 2 * ranks), 256.0 if rank == 0 else 1.0)
    with Traffic() as traffic:
        output = model(x)
    told = f"it computes in {', '.join(map(str, Typed.seen))}"
    assert Typed.seen == {low}, told
    most = Call("all_gather", 2 * 2 * ranks, ranks).sent
    told = f"forward sends {traffic.sent:g} bytes, not {most:g}"
    assert traffic.sent <= most, told
    output.sum().backward()
    model.wait_for_gradients()
    parts = [part for part in model.parameters() if part.numel()]
    for part in parts:
        assert part.dtype == torch.float32, f"a part is in {part.dtype}"
        assert part.grad is not None, "a part has no gradient"
        for found in part.grad.tolist():
            # The sum, its mean, or padding: "training" tells them apart.
            told = f"gradients of 256 and {ranks - 1} times 1 become {found}"
            whole = 256 + ranks - 1
            near = (abs(found - each) for each in (whole, whole / ranks, 0))
            assert min(near) < 1e-3, told


CRITERIA = [
    Criterion(
        "collectives alone",
        6,
        "Call torch.distributed's collectives in both classes yourself; torch's"
        " own sharding stays out of it.",
        by_collectives_alone,
    ),
    Criterion(
        "step",
        12,
        "Step what is yours, then let everybody have it.",
        steps,
    ),
    Criterion(
        "optimizer state",
        12,
        "Count numbers, and give optimizer_cls this rank's alone.",
        its_state,
        is_shared_out,
    ),
    Criterion(
        "groups",
        10,
        "Settings live in param_groups, and are read at each step.",
        groups,
        needs={"step": ""},
    ),
    Criterion(
        "training",
        14,
        "A mean over ranks of means over equal batches; gradients add up.",
        trains,
    ),
    Criterion(
        "memory",
        12,
        "Look who still refers to what is whole: modules, graphs, hooks.",
        keeps_little,
    ),
    Criterion(
        "bytes",
        10,
        "Two gathers and one reduce-scatter; a step gathers once.",
        sends_little,
        needs={"collectives alone": ""},
    ),
    Criterion(
        "full parameters",
        8,
        "The module's own names, from named_parameters() before you cut it.",
        names_them,
    ),
    Criterion(
        "low precision",
        8,
        "Round just before the gather, and widen just before the sum.",
        rounds_little,
    ),
    Criterion(
        "frozen and shared",
        8,
        "A unit is trained as a whole, or not at all, and alone has its own.",
        treats_them,
    ),
]
