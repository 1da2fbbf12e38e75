"""Lab 02: what data parallelism must hold."""

import sys
from copy import deepcopy
from functools import partial
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lockstep.grading.criteria import Criterion
from lockstep.instruments.traffic import Call, Traffic
from lockstep.parallel.collectives import place

KIB = 2**10
SMALL = 256  # bytes that may say which gradients a rank has
ALONE = 1e-6  # MiB, in which no weight has a neighbor


class Layers(nn.ModuleList):
    """One after the other, or those of them that a pass uses; another dtype's
    get what they can read."""

    def forward(self, x: Tensor, use: tuple[int, ...] = ()) -> Tensor:
        """Numbers of the same shape."""
        for number in use or range(len(self)):
            weight: Any = self[number].weight
            x = self[number](x.to(weight.dtype)).tanh().float()
        return x


def layers(count: int, width: int = 16) -> Layers:
    """The same on every rank; each of them has a weight of 1 KiB."""
    torch.manual_seed(2)
    each = [nn.Linear(width, width, bias=False) for _ in range(count)]
    return Layers(each)


def given(rank: int, step: int = 0) -> Tensor:
    """A batch of `rank`, and of no other."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(3, 16, generator=generator)


def gradients(module: nn.Module) -> list[Tensor | None]:
    """Of all parameters."""
    return [parameter.grad for parameter in module.parameters()]


def expected(
    module: Layers, step: int = 0, uses: tuple[tuple[int, ...], ...] = ()
) -> list[Tensor | None]:
    """Mean gradients of a step over all ranks, by this process alone."""
    _, ranks = place()
    alone = deepcopy(module)
    alone.zero_grad()
    for rank in range(ranks):
        use = uses[rank] if uses else ()
        (alone(given(rank, step), use).square().sum() / ranks).backward()
    return gradients(alone)


def loss(model: nn.Module, *args: Any, step: int = 0) -> Tensor:
    """Of this rank's batch: a sum."""
    found: Tensor = model(given(place()[0], step), *args).square().sum()
    return found


def factor(answer: ModuleType) -> float:
    """What it makes of a gradient that is 1 everywhere: 1, if it takes means.
    So a sum costs one criterion."""
    one = nn.Linear(1, 1, bias=False)
    model = answer.DataParallel(one)
    model(torch.ones(1, 1)).sum().backward()
    model.wait_for_gradients()
    return float(one.weight.grad) if one.weight.grad is not None else 0


def same(
    found: list[Tensor | None],
    right: list[Tensor | None],
    times: float,
    when: str,
) -> None:
    """AssertionError, unless gradients are right, but for rounding."""
    for number, (ours, one) in enumerate(zip(found, right, strict=True)):
        theirs = None if one is None else one * times
        what = f"{when}, rank {place()[0]}'s gradient of layer {number}"
        told = f"{what} is {shown(ours)}, not {shown(theirs)}"
        if theirs is None or ours is None:
            assert ours is theirs, told
        else:
            assert torch.allclose(ours, theirs, 1e-4, 1e-5), told


def shown(grad: Tensor | None) -> str:
    """Its first numbers."""
    if grad is None:
        return "None"
    first = ", ".join(f"{number:.4f}" for number in grad.flatten()[:2].tolist())
    return f"[{first}, …]"


def sizes_sent(model: Any) -> list[int]:
    """Bytes of each all-reduce, from the first gradient to the last."""
    found = loss(model)
    with Traffic() as traffic:
        found.backward()
        model.wait_for_gradients()
    return [call.bytes for call in traffic.calls if call.bytes > SMALL]


def its_state(answer: ModuleType) -> tuple[dict[str, Any], dict[str, Any]]:
    """Before and after, on a rank that starts with its own."""
    rank, _ = place()
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    with torch.no_grad():
        for number, tensor in enumerate(module.state_dict().values()):
            tensor.fill_(10 * rank + number)
    module[0].bias.requires_grad_(False)
    before = {k: v.tolist() for k, v in module.state_dict().items()}
    answer.DataParallel(module)
    return before, {k: v.tolist() for k, v in module.state_dict().items()}


def are_equal(states: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """All have what rank 0 had."""
    right = states[0][0]
    for rank, (_, state) in enumerate(states):
        for name, value in state.items():
            told = f"rank {rank} starts with {name} = {value}"
            assert value == right[name], f"{told}, rank 0 with {right[name]}"


def has_hooks_of_its_own(answer: ModuleType) -> None:
    """Of four layers in two buckets: whose code asks for the all-reduces, and
    which gradients it hears of."""
    module = layers(4)
    arrived: list[int] = []

    def arrive(number: int, _: Tensor) -> None:
        arrived.append(number)

    for number, layer in enumerate(module):  # before the answer's own hooks
        layer.get_parameter("weight").register_hook(partial(arrive, number))
    model = answer.DataParallel(module, bucket_mb=2 / KIB)
    found = loss(model)
    with Traffic() as traffic:
        found.backward()
        model.wait_for_gradients()
    calls = [call for call in traffic.calls if call.bytes > SMALL]
    torchs = [call for call in calls if call.by_torch]
    told = f"torch itself starts {len(torchs)} of {len(calls)} all-reduces"
    assert not torchs, f"{told} of a step, and not your code"

    arrived.clear()
    heard: set[int] = set()

    def watch(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code is not arrive.__code__ and arrived:
            heard.add(arrived[-1])  # and the next one is not there yet

    found = loss(model)
    sys.setprofile(watch)  # sees every call of a Python function, as a hook is
    try:
        found.backward()
    finally:
        sys.setprofile(None)
    model.wait_for_gradients()
    missed = ", ".join(str(n) for n in range(4) if n not in heard)
    told = f"the gradients of layers {missed} of 0 to 3 arrive"
    assert not missed, f"{told}, and no code of yours runs"


def takes_means(answer: ModuleType) -> None:
    """Three steps, each from other data, with gradients set to None or to
    zero before."""
    module = layers(3)
    model = answer.DataParallel(module, bucket_mb=ALONE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(3):
        right = expected(module, step)
        optimizer.zero_grad(set_to_none=step != 1)
        loss(model, step=step).backward()
        model.wait_for_gradients()
        same(gradients(module), right, 1, f"in step {step}")
        optimizer.step()


def fills_buckets(answer: ModuleType) -> None:
    """Two dtypes, in an order of which no run of one fills a bucket."""
    module = layers(12)
    for number in (0, 3, 6, 9):
        module[number].bfloat16()
    sizes = sizes_sent(answer.DataParallel(module, bucket_mb=2 / KIB))
    held = "8 KiB in float32 and 2 KiB in bfloat16, in buckets of 2 KiB, are"
    told = f"{held} 5 all-reduces, not {len(sizes)}, of {sizes} bytes"
    assert len(sizes) == 5, told
    assert max(sizes) <= 2 * KIB + SMALL, told


def overlaps(answer: ModuleType) -> None:
    """Rank 1 holds its backward pass up until rank 0 is through with its own.
    So on rank 0 no all-reduce can end before then: whoever waits for one inside
    the pass waits for ever."""
    rank, _ = place()
    module = layers(5)
    signal = torch.zeros(1)

    def last(_: Tensor) -> None:
        traffic.events.append("last gradient")
        if rank == 0:
            dist.send(signal, 1)

    def first(_: Tensor) -> None:
        if rank == 1:
            dist.recv(signal, 0)

    ends: Any = module[0].weight, module[4].weight
    ends[0].register_hook(last)
    ends[1].register_hook(first)
    model = answer.DataParallel(module, bucket_mb=ALONE)
    found = loss(model)
    with Traffic() as traffic:
        found.backward()
        model.wait_for_gradients()
    before = traffic.events[: traffic.events.index("last gradient")]
    started = [e for e in before if isinstance(e, Call) and e.bytes > SMALL]
    told = f"{len(started)} of 5 all-reduces start before the last gradient"
    assert len(started) == 4, f"{told} exists, not 4"


def shares_and_freezes(answer: ModuleType) -> None:
    """Layers 0 and 3 share a weight, layer 1 is frozen."""
    module = layers(4)
    shared: Any = module[0].weight
    module[3].weight = shared
    module[1].requires_grad_(False)
    right = expected(module)
    sizes = sizes_sent(answer.DataParallel(module, bucket_mb=ALONE))
    told = "one shared weight, one frozen and one more, of 1 KiB each"
    told = f"{told}, send 2 KiB of gradients, not {sum(sizes)} bytes"
    assert 2 * KIB <= sum(sizes) <= 2 * KIB + SMALL, told
    same(gradients(module), right, factor(answer), "with a shared weight")


def waits_for_no_unused(answer: ModuleType) -> None:
    """Layers that one rank uses, and one that none does; then others."""
    times = factor(answer)
    uses: Any
    for uses in ((0, 1), (1, 2)), ((1, 2, 3), (1,)):
        module = layers(4)
        model = answer.DataParallel(module, bucket_mb=ALONE)
        loss(model, uses[place()[0]]).backward()
        model.wait_for_gradients()
        used = " and ".join(map(str, uses))
        when = f"where ranks use layers {used} of 0 to 3"
        same(gradients(module), expected(module, uses=uses), times, when)


def accumulates(answer: ModuleType) -> None:
    """Two passes, the first within no_sync; and two that both send."""
    times = factor(answer)
    module = layers(3)
    means = [expected(module, step) for step in range(2)]
    model = answer.DataParallel(module, bucket_mb=ALONE)
    with model.no_sync():
        found = loss(model, step=0)
        with Traffic() as traffic:
            found.backward()
    told = f"a pass within no_sync sends {traffic.sent:g} bytes"
    assert not traffic.calls, told
    loss(model, step=1).backward()
    model.wait_for_gradients()
    both: list[Tensor | None] = [
        a + b
        for a, b in zip(*means, strict=True)
        if a is not None and b is not None
    ]
    same(gradients(module), both, times, "after a pass within no_sync")
    right = gradients(two_passes(answer, 2))
    same(gradients(two_passes(answer, 1)), right, 1, "after two passes")


def two_passes(answer: ModuleType, waits: int) -> Layers:
    """Their gradients have been waited for once, or twice."""
    module = layers(3)
    model = answer.DataParallel(module, bucket_mb=ALONE)
    loss(model, step=0).backward()
    if waits == 2:
        model.wait_for_gradients()
    loss(model, step=1).backward()
    model.wait_for_gradients()
    return module


def sends_gradients_once(answer: ModuleType) -> None:
    """A whole step, from the forward pass on."""
    model = answer.DataParallel(layers(4), bucket_mb=2 / KIB)
    with Traffic() as traffic:
        loss(model).backward()
        model.wait_for_gradients()
    least, most = (
        Call("all_reduce", 4 * KIB + extra, place()[1]).sent
        for extra in (0, SMALL)
    )
    told = f"a step sends {traffic.sent:g} bytes, and 4 KiB of gradients take"
    assert least <= traffic.sent <= most, f"{told} {least:g}"


CRITERIA = [
    Criterion(
        "equal start",
        10,
        "A buffer and a frozen parameter are part of what a replica is.",
        its_state,
        are_equal,
    ),
    Criterion(
        "hooks and all_reduce",
        10,
        "Register a hook on each parameter, and let the one that fills a bucket"
        " call dist.all_reduce.",
        has_hooks_of_its_own,
        world=2,
    ),
    Criterion(
        "mean of gradients",
        15,
        "Divide by the ranks. Each step begins anew: nothing has arrived yet.",
        takes_means,
    ),
    Criterion(
        "buckets",
        10,
        "Walk backwards; count bytes; each dtype fills a bucket of its own.",
        fills_buckets,
        world=2,
        needs={"hooks and all_reduce": ""},
    ),
    Criterion(
        "overlap",
        20,
        "The last layer's gradient comes first. Start then, and wait later.",
        overlaps,
        world=2,
        needs={"hooks and all_reduce": ""},
    ),
    Criterion(
        "shared and frozen",
        10,
        "A tensor is one parameter, whatever number of names it has.",
        shares_and_freezes,
        world=2,
    ),
    Criterion(
        "unused",
        10,
        "All ranks start all-reduces in one order, and zeros are not None.",
        waits_for_no_unused,
        world=2,
    ),
    Criterion(
        "accumulation",
        10,
        "What counts is .grad, when it is sent, and what came after that.",
        accumulates,
        world=2,
    ),
    Criterion(
        "bytes",
        5,
        "Nothing but gradients travels in a step, and each of them once.",
        sends_gradients_once,
        needs={"hooks and all_reduce": ""},
    ),
]
