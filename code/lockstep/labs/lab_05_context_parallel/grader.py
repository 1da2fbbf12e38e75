"""Lab 05: what attention over a split sequence must hold."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from lockstep.grading.criteria import Criterion
from lockstep.instruments.memory import Memory
from lockstep.instruments.traffic import Call, Traffic
from lockstep.parallel import context_parallel as reference
from lockstep.parallel.collectives import place
from lockstep.planner.communication import communication

HEADS, WIDTH = 12, 4
POSITION = 8  # bytes of one
Act = Callable[..., Tensor]
Tensors = list[Tensor]
ATEN = torch.ops.aten
# What counts as a product, and how many operations it takes.
PRODUCTS: dict[Any, Callable[..., int]] = {
    **flop_registry,
    ATEN._scaled_dot_product_flash_attention_for_cpu: (
        lambda q, k, v, *_, **__: sdpa_flop_count(q.shape, k.shape, v.shape)
    ),
    ATEN._scaled_dot_product_flash_attention_for_cpu_backward: (
        lambda *_, **__: 0  # only the forward pass is counted
    ),
}


class Watch(Memory):
    """Traffic and memory, with marks for products and for waits among the
    events, and the operations that were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Note what it is."""
        if "wait_tensor" in func.__name__:
            self.events.append("wait")
        found = super().__torch_dispatch__(func, types, args, kwargs)
        if count := PRODUCTS.get(func.overloadpacket):
            self.events.append("product")
            given = kwargs or {}
            self.operations += count(*args, **given, out_val=found)
        return found


@contextmanager
def watched() -> Iterator[Watch]:
    """What this rank does; torch waits for its messages in Work.wait."""
    real = dist.Work.wait
    watch = Watch()

    def wait(work: dist.Work, *args: Any, **given: Any) -> Any:
        watch.events.append("wait")
        return real(work, *args, **given)

    with watch, patch.object(dist.Work, "wait", wait):
        yield watch


def drawn(length: int, heads: int = HEADS) -> Tensors:
    """q, k, v and a gradient of the output, of a whole sequence."""
    generator = torch.Generator().manual_seed(length)
    shape = 1, heads, length, WIDTH
    return [torch.randn(shape, generator=generator) for _ in range(4)]


def orders(length: int, rank: int, ranks: int) -> dict[str, Tensor]:
    """Positions of this rank in three splits of the sequence."""
    whole = torch.arange(length)
    return {
        "contiguous": whole.chunk(ranks)[rank],
        "zig-zag": reference.zigzag_positions(length, rank, ranks),
        "every n-th": whole[rank::ranks],
    }


def alone(whole: Tensors, causal: bool) -> Tensors:
    """The output, and the gradients of q, k and v, by one process."""
    q, k, v, grad = (x.double() for x in whole)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad)]


def part(whole: Tensors, positions: Tensor) -> Tensors:
    """Of a rank that has these positions; q, k and v want gradients."""
    *qkv, grad = (x[:, :, positions].clone() for x in whole)
    return [*(x.requires_grad_() for x in qkv), grad]


def both_passes(
    act: Act, whole: Tensors, positions: Tensor, **given: Any
) -> Tensors:
    """The output on this rank, and the gradients of its q, k and v."""
    *qkv, grad = part(whole, positions)
    out = act(*qkv, positions, **given)
    assert out.requires_grad, "the output has no path back to q, k and v"
    out.backward(grad)
    for name, x in zip("qkv", qkv, strict=True):
        assert x.grad is not None, f"no gradient reaches {name}"
    return [out.detach(), *(x.grad for x in qkv if x.grad is not None)]


NAMES = "the output", "q's gradient", "k's gradient", "v's gradient"


def same(
    found: Tensors, expected: Tensors, positions: Tensor, how: str
) -> None:
    """AssertionError, with the worst place, unless they are close."""
    for name, one, of_all in zip(NAMES, found, expected, strict=False):
        right = of_all[:, :, positions]
        shape = tuple(one.shape)
        assert shape == right.shape, f"{name} has the shape {shape}"
        off = (one - right).abs().nan_to_num(torch.inf)
        worst = int(off.argmax())
        at = positions[worst // WIDTH % len(positions)]
        told = (
            f"{name} at position {at} is {one.flatten()[worst]:.4f}, not"
            f" {right.flatten()[worst]:.4f} (rank {place()[0]}, {how})"
        )
        assert off.max() < 1e-3, told


def runs_forward(answer: ModuleType) -> None:
    """All see all."""
    rank, ranks = place()
    whole, positions = drawn(12), orders(12, rank, ranks)["contiguous"]
    *qkv, _ = part(whole, positions)
    out = answer.ring_attention(*qkv, positions, causal=False)
    same([out.detach()], alone(whole, False), positions, "not causal")


def runs_backward(answer: ModuleType) -> None:
    """All see all."""
    rank, ranks = place()
    whole, positions = drawn(12), orders(12, rank, ranks)["contiguous"]
    found = both_passes(answer.ring_attention, whole, positions, causal=False)
    same(found, alone(whole, False), positions, "not causal")


def sees_by_position(answer: ModuleType) -> None:
    """On four ranks, and on three of them."""
    members = [1, 2, 3]
    for group in (None, dist.new_group(members)):
        if group and dist.get_rank() not in members:
            continue
        rank, ranks = place(group)
        whole = drawn(24)
        for how, positions in orders(24, rank, ranks).items():
            found = both_passes(
                answer.ring_attention, whole, positions, group=group
            )
            told = f"{how}, {ranks} ranks"
            same(found, alone(whole, True), positions, told)


def counts_scores(answer: ModuleType) -> tuple[int, int]:
    """In how many scores of a head this rank's forward pass results, with the
    answer's own zig-zag and with contiguous parts."""
    rank, ranks = place()
    length = 4 * ranks
    zigzag = answer.zigzag_positions(length, rank, ranks)
    right = reference.zigzag_positions(length, rank, ranks).tolist()
    told = f"rank {rank} of {ranks} has {zigzag.tolist()}, not {right}"
    assert zigzag.tolist() == right, told
    refuses(
        lambda: answer.zigzag_positions(length + ranks, rank, ranks),
        f"{length + ranks} tokens on {ranks} ranks",
    )
    found = []
    for positions in (zigzag, orders(length, rank, ranks)["contiguous"]):
        *qkv, _ = part(drawn(length), positions)
        with watched() as watch:
            answer.ring_attention(*qkv, positions)
        # Two products, and an addition for each multiplication.
        found.append(watch.operations // (4 * HEADS * WIDTH))
    return found[0], found[1]


def is_balanced(counts: list[tuple[int, int]]) -> None:
    """As many scores as are seen, in chunks of two tokens."""
    ranks, chunk = len(counts), 2 * 2
    zigzag = [of_rank[0] for of_rank in counts]
    assert all(zigzag), "no matmul is seen"
    most = (2 * ranks + 2) * chunk
    told = f"ranks compute {zigzag} scores in zig-zag order, where {most} do"
    assert max(zigzag) <= most, told
    told = f"ranks compute {zigzag} scores in zig-zag order: they differ"
    assert max(zigzag) - min(zigzag) <= chunk, told
    for rank, (_, found) in enumerate(counts):
        most = (rank + 1) * 4 * chunk
        told = f"with contiguous parts rank {rank} computes {found} scores"
        assert found <= most, f"{told}, where {most} do"


def refuses(act: Callable[[], Any], what: str) -> str:
    """What the ValueError says."""
    try:
        act()
    except ValueError as error:
        return str(error)
    raise AssertionError(f"{what}: no ValueError")


def sends_as_planned(
    act: Act, positions: Tensor, length: int, context: str
) -> None:
    """Both passes in bfloat16, on all ranks."""
    _, ranks = place()
    whole = [x.bfloat16() for x in drawn(length)]
    with Traffic() as traffic:
        both_passes(act, whole, positions)
    asked = {"cp": ranks, "context": context, "sequence": length}
    asked |= {"layers": 1, "heads": HEADS, "kv_heads": HEADS, "experts": 0}
    asked |= {"hidden": HEADS * WIDTH, "head_dim": WIDTH, "params": 0}
    asked |= {"dense_layers": 0, "experts_per_token": 0}
    planned = float(communication(asked)["context_bytes"])
    # Positions may go round as well, with the keys and with the gradients.
    spare = 2 * POSITION * length
    told = f"a rank sends {traffic.sent:g} bytes in both passes ({context})"
    assert traffic.sent <= planned + spare, f"{told}, planned {planned:g}"


def holds(answer: ModuleType) -> list[int]:
    """Bytes that are held at a time in both passes, on three ranks of four and
    on all: as much of the sequence on each."""
    rank, ranks = place()
    positions = orders(4 * ranks, rank, ranks)["zig-zag"]
    sends_as_planned(answer.ring_attention, positions, 4 * ranks, "ring")
    found = []
    for group in (dist.new_group([0, 1, 2]), None):
        if group and rank == 3:
            continue
        inside, size = place(group)
        positions = orders(4 * size, inside, size)["zig-zag"]
        whole, peaks = drawn(4 * size), []
        for _ in range(3):  # gloo's threads may let go of a buffer late
            with watched() as watch:
                both_passes(
                    answer.ring_attention, whole, positions, group=group
                )
            peaks.append(watch.peak)
        found.append(min(peaks))
    return found


def holds_no_more(peaks: list[list[int]]) -> None:
    """On more ranks."""
    three = max(of_rank[0] for of_rank in peaks[:3])
    four = max(of_rank[-1] for of_rank in peaks)
    block = 2 * 4 * HEADS * 4 * WIDTH  # keys and values of four tokens
    told = f"a rank holds {three} bytes on 3 ranks and {four} on 4"
    assert four - three < block / 2, f"{told}; its part is as long"


def overlaps(answer: ModuleType) -> None:
    """In what order things start: blocks, products, waits."""
    rank, ranks = place()
    length = 4 * ranks
    positions = orders(length, rank, ranks)["zig-zag"]
    *qkv, grad = part(drawn(length), positions)
    with watched() as forward:
        out = answer.ring_attention(*qkv, positions)
    with watched() as backward:
        out.backward(grad)
    block = qkv[1].nbytes
    steps = started(forward.events, block), started(backward.events, block)
    for name, found in zip(("forward", "backward"), steps, strict=True):
        assert found[:2] == ["block", "product"], (
            f"rank {rank} begins its {name} pass with {' and '.join(found[:2])}"
            ", not with a block under way and a product"
        )
    told = f"rank {rank}'s {len(steps[0])} forward steps are {steps[0]}"
    pairs = zip(steps[0], steps[0][1:], strict=False)
    assert ("block", "wait") not in pairs, f"{told}: it only waits"


def started(events: list[Call | str], block: int) -> list[str]:
    """Blocks, products and waits in order, with repetitions left out. A block
    is what has the bytes of a rank's keys, or more."""
    found: list[str] = []
    for event in events:
        if isinstance(event, Call):
            if event.op == "recv" or event.bytes < block:
                continue
            event = "block"
        if not found and event == "wait":
            continue  # for positions, say
        if found[-1:] != [event]:
            found.append(event)
    return found


def is_stable(answer: ModuleType) -> None:
    """Large scores, and sums that bfloat16 cannot hold."""
    rank, ranks = place()
    positions = orders(12, rank, ranks)["contiguous"]
    whole = drawn(12)
    # Scores of about -200, 200 and 0, for the keys of rank 0, 1 and 2.
    whole[0][..., 0] = 20
    far = torch.tensor([-20.0, 20, 0]).repeat_interleave(4)
    whole[1][..., 0] = far
    for causal in (False, True):
        found = both_passes(
            answer.ring_attention, whole, positions, causal=causal
        )
        same(found, alone(whole, causal), positions, "scores of ±200")
    # All scores are 0: outputs and gradients are means.
    whole = [torch.zeros_like(x).bfloat16() for x in whole]
    each = torch.tensor([256.0, 258, 1]).repeat_interleave(4)
    whole[2] += each[:, None]
    each = torch.tensor([256.0, 1, 1]).repeat_interleave(4) * 3
    whole[3] += each[:, None]
    out, _, _, dv = both_passes(
        answer.ring_attention, whole, positions, causal=False
    )
    assert out.dtype == torch.bfloat16, f"the output is {out.dtype}"
    for mean, right, what in (
        (out, 172, "a mean of 256, 258 and 1"),
        (dv, 258, "a gradient of 256 + 1 + 1"),
    ):
        value = mean.flatten()[0].item()
        told = f"{what} in bfloat16 is {value:g} on rank {rank}, not {right}"
        assert value == right, told


def exchanges(answer: ModuleType) -> None:
    """Values in three orders, bytes, and heads that cannot be divided."""
    rank, ranks = place()
    act = answer.ulysses_attention
    whole = drawn(12)
    for how, positions in orders(12, rank, ranks).items():
        for causal in (False, True):
            found = both_passes(act, whole, positions, causal=causal)
            same(found, alone(whole, causal), positions, how)
    positions = orders(12, rank, ranks)["zig-zag"]
    sends_as_planned(act, positions, 12, "ulysses")
    *qkv, _ = part(drawn(12, ranks + 1), positions)
    what = f"{ranks + 1} heads on {ranks} ranks"
    said = refuses(lambda: act(*qkv, positions), what)
    told = f"{what}: the error says '{said}', without both numbers"
    assert str(ranks) in said, told
    assert str(ranks + 1) in said, told


CRITERIA = [
    Criterion(
        "ring forward",
        14,
        "A block's weights are right only beside the other blocks': keep the"
        " log of their sum.",
        runs_forward,
    ),
    Criterion(
        "ring backward",
        16,
        "Each rank has a part of a block's gradients; the block's owner wants"
        " their sum.",
        runs_backward,
        needs={"ring forward": ""},
    ),
    Criterion(
        "global positions",
        14,
        "Compare positions, not places in a block or ranks; a row may see"
        " nothing of a block.",
        sees_by_position,
        world=4,
        needs={"ring forward": "", "ring backward": ""},
    ),
    Criterion(
        "balance",
        12,
        "An early and a late chunk; of a block, leave out what nobody here"
        " sees.",
        counts_scores,
        is_balanced,
        world=4,
        needs={"ring forward": "", "global positions": ""},
    ),
    Criterion(
        "bytes sent and held",
        12,
        "A block makes n - 1 hops and its gradients n; the backward pass"
        " computes weights anew.",
        holds,
        holds_no_more,
        world=4,
        needs={"ring forward": "", "ring backward": ""},
    ),
    Criterion(
        "overlap",
        10,
        "Start the next block, compute with this one, then wait.",
        overlaps,
        needs={"ring backward": "", "global positions": ""},
    ),
    Criterion(
        "stability",
        8,
        "No exponent may be above zero, no sum in less than float32.",
        is_stable,
        needs={"ring backward": "", "global positions": ""},
    ),
    Criterion(
        "Ulysses",
        14,
        "Each rank gets whole sequences of some heads; tokens come in the"
        " order of ranks.",
        exchanges,
    ),
]
