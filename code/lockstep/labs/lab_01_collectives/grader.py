"""Lab 01: what the collectives must hold."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil, log2
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.grading.criteria import Criterion, named
from lockstep.instruments.traffic import Call, Traffic
from lockstep.parallel import collectives as reference

NAMES = (
    *("ring_reduce_scatter", "ring_all_gather", "ring_all_reduce"),
    *("tree_broadcast", "all_to_all"),
)


@contextmanager
def only(answer: ModuleType, name: str) -> Iterator[Callable[..., None]]:
    """The answer's function, beside sound ones: one mistake costs once."""
    named(answer, name)
    sound = {n: getattr(reference, n) for n in NAMES if n != name}
    with patch.multiple(answer, create=True, **sound):
        yield getattr(answer, name)


def given(part: int, rank: int, size: int) -> Tensor:
    """What `rank` has for `part`: no two numbers are alike."""
    return torch.arange(size, dtype=torch.float64) + 100 * rank + 10 * part + 1


def same(found: Tensor, expected: Tensor, what: str) -> None:
    """AssertionError, unless they are equal."""
    told = f"{what} is {found.tolist()}, not {expected.tolist()}"
    assert torch.equal(found, expected), told


def reduce_scatters(answer: ModuleType) -> None:
    """Parts of three sizes, one of them empty."""
    rank, ranks = reference.place()
    sizes = [2, 0, 3][:ranks]
    inputs = [given(p, rank, size) for p, size in enumerate(sizes)]
    before = [one.clone() for one in inputs]
    output = torch.zeros(sizes[rank], dtype=torch.float64)
    with only(answer, "ring_reduce_scatter") as act:
        act(output, inputs)
    every = [given(rank, r, sizes[rank]) for r in range(ranks)]
    same(output, torch.stack(every).sum(0), f"the sum on rank {rank}")
    for p, (now, old) in enumerate(zip(inputs, before, strict=True)):
        same(now, old, f"inputs[{p}] of rank {rank}, after the call,")


def all_gathers(answer: ModuleType) -> None:
    """Parts of three sizes, one of them empty."""
    rank, ranks = reference.place()
    sizes = [2, 0, 3][:ranks]
    outputs = [torch.zeros(size, dtype=torch.float64) for size in sizes]
    with only(answer, "ring_all_gather") as act:
        act(outputs, given(0, rank, sizes[rank]))
    for r, output in enumerate(outputs):
        same(output, given(0, r, sizes[r]), f"outputs[{r}] on rank {rank}")


def all_reduces(answer: ModuleType) -> None:
    """Lengths that ranks divide, and others."""
    rank, ranks = reference.place()
    with only(answer, "ring_all_reduce") as act:
        for shape in ((3, 2), (2, 5), (1,), (7,)):
            size = torch.Size(shape).numel()
            tensor = given(0, rank, size).view(shape)
            act(tensor)
            every = [given(0, r, size).view(shape) for r in range(ranks)]
            expected = torch.stack(every).sum(0)
            same(tensor, expected, f"the sum of shape {shape} on rank {rank}")


def broadcasts(answer: ModuleType) -> None:
    """From each rank in turn."""
    rank, ranks = reference.place()
    with only(answer, "tree_broadcast") as act:
        for src in range(ranks):
            tensor = given(0, rank, 3)
            act(tensor, src)
            what = f"what rank {rank} got of rank {src}"
            same(tensor, given(0, src, 3), what)


def exchanges(answer: ModuleType) -> None:
    """No two messages are of one size."""
    rank, ranks = reference.place()
    inputs = [given(to, rank, rank + 2 * to) for to in range(ranks)]
    outputs = [
        torch.zeros(source + 2 * rank, dtype=torch.float64)
        for source in range(ranks)
    ]
    with only(answer, "all_to_all") as act:
        act(outputs, inputs)
    for r, output in enumerate(outputs):
        expected = given(rank, r, r + 2 * rank)
        same(output, expected, f"outputs[{r}] on rank {rank}")


def keeps_dtypes(answer: ModuleType) -> None:
    """What comes of a large number is what comes of 1, times that number."""
    _, ranks = reference.place()

    def reduced(dtype: torch.dtype, each: int) -> Tensor:
        with only(answer, "ring_all_reduce") as act:
            act(tensor := torch.full((4,), each, dtype=dtype))
        return tensor

    def scattered(dtype: torch.dtype, each: int) -> Tensor:
        inputs = [torch.full((2,), each, dtype=dtype) for _ in range(ranks)]
        with only(answer, "ring_reduce_scatter") as act:
            act(output := torch.zeros(2, dtype=dtype), inputs)
        return output

    # 2**53 + 1 is no float64; 2**30 is a bfloat16.
    for dtype, each in ((torch.int64, 2**53 + 1), (torch.bfloat16, 2**30)):
        for name, act in (("reduce", reduced), ("reduce_scatter", scattered)):
            expected = act(dtype, 1) * each
            same(act(dtype, each), expected, f"a sum in {dtype} ({name})")


def on_all(answer: ModuleType) -> Iterator[tuple[str, Callable[[], None]]]:
    """Each function on parts of equal size, of 4,000 bytes in all."""
    rank, ranks = reference.place()
    whole = torch.ones(1000 // ranks * ranks)
    parts = list(whole.chunk(ranks))
    part = torch.ones_like(parts[rank])
    outputs = [torch.zeros_like(part) for _ in parts]
    calls: dict[str, tuple[Any, ...]] = {
        "ring_reduce_scatter": (part, parts),
        "ring_all_gather": (outputs, part),
        "ring_all_reduce": (whole,),
        "tree_broadcast": (whole, 0),
        "all_to_all": (outputs, parts),
    }

    def call(name: str) -> None:
        with only(answer, name) as act:
            act(*calls[name])

    for name in NAMES:
        yield name, lambda name=name: call(name)  # type: ignore[misc]


def by_messages_alone(answer: ModuleType) -> None:
    """No collective of torch's is called."""
    for name, act in on_all(answer):
        with Traffic() as traffic:
            act()
        called = {call.op for call in traffic.calls}
        others = ", ".join(sorted(called - {"send", "recv"}))
        assert not others, f"{name} calls torch's {others}"
        assert called, f"{name} sends no message"


def sends_little(answer: ModuleType) -> None:
    """As few bytes as the planner says."""
    _, ranks = reference.place()
    for name, act in on_all(answer):
        op = name.removeprefix("ring_")
        if op == name:
            continue
        with Traffic() as traffic:
            act()
        size = 4 * (1000 // ranks * ranks)
        planned = Call(op, size, ranks).sent
        told = f"{name} sends {traffic.sent} bytes of {size}, not {planned:g}"
        assert traffic.sent <= planned, told


def its_messages(answer: ModuleType) -> list[Call]:
    """Of a broadcast, as this rank has them."""
    with only(answer, "tree_broadcast") as act, Traffic() as traffic:
        act(torch.ones(1), 1)
    return traffic.calls


def is_a_tree(messages: list[list[Call]]) -> None:
    """No more rounds than doubling takes."""
    ranks = len(messages)
    rounds, least = depth(messages), ceil(log2(ranks))
    told = f"{ranks} ranks take {rounds} rounds, not {least}"
    assert rounds <= least, told


def depth(messages: list[list[Call]]) -> int:
    """Rounds until the last message has arrived, if one rank sends one message
    in a round, and waits for what it has to receive first."""
    clocks = [0] * len(messages)
    todo = [list(one) for one in messages]
    arrivals: dict[tuple[int | None, int | None], list[int]] = {}
    moved = True
    while moved:
        moved = False
        for rank, left in enumerate(todo):
            while left:
                peer = left[0].peer
                if left[0].op == "send":
                    clocks[rank] += 1
                    place = arrivals.setdefault((rank, peer), [])
                    place.append(clocks[rank])
                elif waiting := arrivals.get((peer, rank)):
                    clocks[rank] = max(clocks[rank], waiting.pop(0))
                else:
                    break
                del left[0]
                moved = True
    return max(clocks)


def serves_groups(answer: ModuleType) -> None:
    """Of three ranks of four, in another order."""
    rank, _ = reference.place()
    members = [3, 1, 2]
    group = dist.new_group(members)
    if rank not in members:
        return
    inside = dist.get_rank(group)
    with only(answer, "ring_all_reduce") as act:
        act(total := given(0, rank, 4), group)
    every = torch.stack([given(0, r, 4) for r in members])
    same(total, every.sum(0), f"ring_all_reduce's sum on rank {rank}")
    with only(answer, "tree_broadcast") as act:
        act(copy := given(0, rank, 2), 2, group)
    same(copy, given(0, 2, 2), f"what rank {rank} got of rank 2")
    with only(answer, "all_to_all") as act:
        outputs = [torch.zeros(2, dtype=torch.float64) for _ in members]
        act(outputs, [given(to, rank, 2) for to in range(3)], group)
    for place, r in enumerate(dist.get_process_group_ranks(group)):
        expected = given(inside, r, 2)
        same(outputs[place], expected, f"outputs[{place}] on rank {rank}")


CRITERIA = [
    Criterion(
        "send and recv alone",
        6,
        "Each function is made of messages between two ranks.",
        by_messages_alone,
    ),
    Criterion(
        "reduce-scatter",
        13,
        "A sum starts after its owner, and each rank adds its own part.",
        reduce_scatters,
    ),
    Criterion(
        "all-gather",
        13,
        "In each step a rank passes on what it got in the step before.",
        all_gathers,
    ),
    Criterion(
        "all-reduce",
        13,
        "Its length is whatever the reader's tensor has.",
        all_reduces,
    ),
    Criterion(
        "broadcast",
        11,
        "Number the ranks from src on, then build the tree.",
        broadcasts,
    ),
    Criterion(
        "all-to-all",
        11,
        "What rank r gives us has the shape of outputs[r].",
        exchanges,
    ),
    Criterion(
        "dtypes",
        8,
        "Add in the dtype that came.",
        keeps_dtypes,
    ),
    Criterion(
        "bytes",
        9,
        "Send a part of the buffer in each step, never all of it.",
        sends_little,
        needs={"send and recv alone": ""},
    ),
    Criterion(
        "tree",
        9,
        "In each round, whoever has it sends it on.",
        its_messages,
        is_a_tree,
        world=5,
        needs={"send and recv alone": ""},
    ),
    Criterion(
        "groups",
        7,
        "A rank has another number in a group; src is a global one.",
        serves_groups,
        world=4,
        needs={
            "all-reduce": "ring_all_reduce",
            "broadcast": "tree_broadcast",
            "all-to-all": "all_to_all",
        },
    ),
]
