"""Lab B6: what updates of tiles must hold."""

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lockstep.grading.criteria import Criterion, named
from lockstep.instruments.memory import Memory
from lockstep.instruments.traffic import Call, Traffic
from lockstep.labs.lab_b6_pair_axes import sound as reference
from lockstep.labs.lab_b6_pair_axes.sound import Mesh
from lockstep.parallel.collectives import place

__all__ = ["CRITERIA", "reference"]

RESIDUES, CHANNELS, HEADS, SIZE = 12, 3, 2, 5
ROWS, COLUMNS = 3, 2  # unequal: what is the wrong way round does not fit


def drawn(seed: int, *shape: int) -> Tensor:
    """The same numbers on every rank."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def mesh(rows: int, columns: int) -> Mesh:
    """Of rows × columns ranks, as many times as there are ranks for it."""
    world = range(dist.get_world_size())
    ranks = torch.tensor(world).view(-1, rows, columns)
    found: list[Any] = []
    for lines in (ranks.transpose(1, 2), ranks):
        for members in lines.flatten(0, 1).tolist():
            group = dist.new_group(members)
            if dist.get_rank() in members:
                found.append(group)
    return Mesh(*found)


def same(found: Any, expected: Tensor, what: str) -> None:
    """AssertionError with the first number that is another."""
    what = f"{what} on rank {dist.get_rank()}"
    assert isinstance(found, Tensor), f"{what} is {found!r}"
    shape, right = tuple(found.shape), tuple(expected.shape)
    assert shape == right, f"{what} has the shape {shape}, not {right}"
    there, here = found.detach(), expected.detach()
    wrong = ~torch.isclose(there, here, rtol=1e-9, atol=1e-9)
    for at in map(tuple, wrong.nonzero().tolist()):
        told = f"{there[at]:.4g}, not {here[at]:.4g}, at {list(at)}"
        raise AssertionError(f"{what} is {told}")


# Tiles


def cuts(answer: Any) -> None:
    """Rows by one axis, columns by the other; a copy; and no rest."""
    act = named(answer, "part")
    layout = mesh(ROWS, COLUMNS)
    rank = dist.get_rank()
    r, c = divmod(rank, COLUMNS)
    z = drawn(1, RESIDUES, RESIDUES, CHANNELS)
    high, wide = RESIDUES // ROWS, RESIDUES // COLUMNS
    found = act(z, layout)
    right = z[r * high : (r + 1) * high, c * wide : (c + 1) * wide]
    same(found, right, "the tile")
    kept, own = found.untyped_storage().nbytes(), right.nbytes
    assert kept == own, f"a tile of {own} bytes keeps {kept}"
    for size in ((RESIDUES, RESIDUES + 1), (RESIDUES + 1, RESIDUES)):
        what = f"{size[0]} × {size[1]} pairs on {ROWS} × {COLUMNS} ranks"
        try:
            act(z.new_zeros(*size, CHANNELS), layout)
        except ValueError:
            continue
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}") from error
        raise AssertionError(f"{what} are accepted")


# Collectives


def moves(name: str, op: str) -> Callable[[Any], None]:
    """Along both dimensions, in both groups, with the gradient."""

    def check(answer: Any) -> None:
        act, layout = named(answer, name), mesh(ROWS, COLUMNS)
        for group in layout:
            rank, ranks = place(group)
            for dim in (0, 1):
                shape = [RESIDUES, RESIDUES, CHANNELS]
                if name == "gather":
                    shape[dim] //= ranks
                parts = [drawn(10 + n, *shape) for n in range(ranks)]
                every = [one.requires_grad_() for one in parts]
                if name == "gather":
                    whole = torch.cat(every, dim)
                    results = [whole] * ranks
                else:
                    whole = torch.stack(every).sum(0)
                    results = list(whole.chunk(ranks, dim))
                mine = parts[rank].detach().clone().requires_grad_()
                found = act(mine, dim, group)
                what = f"{name} along {dim}"
                same(found, results[rank], what)
                weights = [
                    drawn(20 + n, *one.shape) for n, one in enumerate(results)
                ]
                total = torch.stack(
                    [
                        (one * weight).sum()
                        for one, weight in zip(results, weights, strict=True)
                    ]
                )
                total.sum().backward()
                loss = (found * weights[rank]).sum()
                told = f"{what} has lost the gradient"
                assert loss.requires_grad, told
                loss.backward()
                right = every[rank].grad
                assert right is not None
                same(mine.grad, right, f"the gradient of {what}")
        with Traffic() as traffic:
            act(mine.detach(), 0, layout.down)
        size = ranks_of(layout.down) if name == "gather" else 1
        planned = Call(op, size * mine.nbytes, ranks_of(layout.down)).sent
        sends(traffic, planned, name)

    return check


def ranks_of(group: Any) -> int:
    """How many."""
    return place(group)[1]


def sends(traffic: Traffic, planned: float, what: str) -> None:
    """No more than is planned."""
    ops = ", ".join(call.op for call in traffic.calls)
    told = f"{what} sends {traffic.sent:g} bytes ({ops})"
    enough = round(traffic.sent - planned, 3) <= 0
    assert enough, f"{told}; {planned:g} are enough"


# Updates


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Of whole edges that go out."""
    return torch.einsum("ikc,jkc->ijc", a, b)


def multiply_in(a: Tensor, b: Tensor) -> Tensor:
    """Of whole edges that come in."""
    return torch.einsum("kic,kjc->ijc", a, b)


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """On one device, of whole rows."""
    scores = torch.einsum("ijhd,ikhd->ihjk", q, k) / q.shape[-1] ** 0.5
    weights = (scores + bias.permute(2, 0, 1)).softmax(-1)
    return torch.einsum("ihjk,ikhd->ijhd", weights, v)


SQUARE = RESIDUES, RESIDUES
EDGES = [(*SQUARE, CHANNELS)] * 2
INPUTS = [(*SQUARE, HEADS, SIZE)] * 3 + [(*SQUARE, HEADS)]
UPDATES: dict[str, tuple[Callable[..., Tensor], list[Any], list[str]]] = {
    "outgoing": (multiply, EDGES, ["a", "b"]),
    "incoming": (multiply_in, EDGES, ["a", "b"]),
    "attention": (attend, INPUTS, ["q", "k", "v", "bias"]),
}


def tiles_of(name: str, layout: Mesh) -> tuple[list[Tensor], list[Tensor]]:
    """Whole inputs of an update, and this rank's tiles of them."""
    shapes = UPDATES[name][1]
    full = [drawn(n, *one).requires_grad_() for n, one in enumerate(shapes)]
    mine = [reference.part(one.detach(), layout) for one in full]
    return full, [one.requires_grad_() for one in mine]


def its_update(name: str, answer: Any) -> None:
    """The result, and the gradient of each input, by tiles."""
    act, layout = named(answer, name), mesh(ROWS, COLUMNS)
    alone, _, letters = UPDATES[name]
    full, mine = tiles_of(name, layout)
    expected, found = alone(*full), act(*mine, layout)
    same(found, reference.part(expected.detach(), layout), f"{name}'s tile")
    gradient = drawn(30, *expected.shape)
    (expected * gradient).sum().backward()
    (found * reference.part(gradient, layout)).sum().backward()
    for letter, whole, tile in zip(letters, full, mine, strict=True):
        assert whole.grad is not None
        right = reference.part(whole.grad, layout)
        same(tile.grad, right, f"{name}: the gradient of {letter}")


# What a rank sends, and keeps


def planned(name: str, layout: Mesh) -> float:
    """Bytes of both passes: each way there comes back with the gradient."""
    down, across = map(ranks_of, layout)
    z = 8 * RESIDUES * RESIDUES * CHANNELS
    if name == "incoming":
        down, across = across, down
    calls = [
        Call("all_gather", z // across, down),
        Call("reduce_scatter", z // down, across),
    ]
    if name == "attention":
        z = 8 * RESIDUES * RESIDUES * HEADS
        calls = [
            Call("all_gather", z * SIZE // down, across),
            Call("all_gather", z * SIZE // down, across),
            Call("all_gather", z // down, across),
            Call("all_gather", z, down),
        ]
    return 2 * sum(call.sent for call in calls)


def sends_little(answer: Any) -> None:
    """Each update, as a ring of the planner's sends it."""
    layout = mesh(ROWS, COLUMNS)
    for name in UPDATES:
        _, mine = tiles_of(name, layout)
        with Traffic() as traffic:
            named(answer, name)(*mine, layout).sum().backward()
        sends(traffic, planned(name, layout), f"{name}, both passes,")


def needed(name: str, layout: Mesh) -> int:
    """Bytes that backward needs beside this rank's tiles: what was gathered,
    and the weights of attention; and the result."""
    down, across = map(ranks_of, layout)
    z = 8 * RESIDUES * RESIDUES
    if name != "attention":
        gathered = z * CHANNELS // (across if name == "outgoing" else down)
        return gathered + z * CHANNELS // (down * across)
    rows = 2 * z * HEADS * SIZE // down
    scores = z * HEADS * RESIDUES // (down * across)
    return rows + z * HEADS + scores + z * HEADS * SIZE // (down * across)


def keeps_little(answer: Any) -> None:
    """Until backward, a copy of a tile or two beside what is needed."""
    layout = mesh(ROWS, COLUMNS)
    gc.freeze()  # what there is already need not be looked at
    for name in UPDATES:
        _, mine = tiles_of(name, layout)
        with Memory() as seen:
            result = named(answer, name)(*mine, layout)
        most = needed(name, layout) + 2 * sum(tile.nbytes for tile in mine)
        gc.collect()
        kept = seen.settled(most)
        told = f"{name} keeps {kept} bytes for backward on a rank"
        assert kept <= most, f"{told}; {most} are enough"
        result.sum().backward()


# Weights


def adds_up(answer: Any) -> None:
    """Two meshes of two ranks, each with a sample of its own."""
    layout, rank = mesh(2, 1), dist.get_rank()
    act = named(answer, "sum_gradients")
    z = drawn(40 + rank // 2, RESIDUES, RESIDUES, CHANNELS)
    mine, plain = (
        nn.Linear(CHANNELS, 2, dtype=torch.float64) for _ in range(2)
    )
    mine.bias.requires_grad_(False)
    for layer in (mine, plain):
        layer.weight.data = drawn(50, 2, CHANNELS)
        layer.bias.data = drawn(51, 2)
    mine(reference.part(z, layout)).square().sum().backward()
    plain(z).square().sum().backward()
    act(mine, layout)
    assert plain.weight.grad is not None
    same(mine.weight.grad, plain.weight.grad, "a weight's gradient")
    assert mine.bias.grad is None, "a frozen bias has got a gradient"


NEEDS = {name: name for name in UPDATES}
RANKS = ROWS * COLUMNS

CRITERIA = [
    Criterion(
        "tiles",
        8,
        "Ranks down have rows, ranks across columns; hold a copy.",
        cuts,
        world=RANKS,
    ),
    Criterion(
        "gather",
        12,
        "Every rank has used the whole: its gradients add up.",
        moves("gather", "all_gather"),
        world=RANKS,
    ),
    Criterion(
        "scatter",
        12,
        "A term of a sum has the gradient of the sum, all of it.",
        moves("scatter", "reduce_scatter"),
        world=RANKS,
    ),
    Criterion(
        "outgoing",
        16,
        "All rows of b at our k; then the sum over the others' k.",
        partial(its_update, "outgoing"),
        world=RANKS,
    ),
    Criterion(
        "incoming",
        12,
        "Transpose, and let the axes change names; then whose rows come out?",
        partial(its_update, "incoming"),
        world=RANKS,
    ),
    Criterion(
        "attention",
        16,
        "Whole rows of k and v; of the bias, the rows of our columns.",
        partial(its_update, "attention"),
        world=RANKS,
    ),
    Criterion(
        "weights",
        8,
        "Sum over one sample's ranks, neither fewer nor more; do not average.",
        adds_up,
        world=4,
    ),
    Criterion(
        "bytes",
        8,
        "Gather along one axis, reduce-scatter along the other.",
        sends_little,
        world=RANKS,
        needs=NEEDS,
    ),
    Criterion(
        "memory",
        8,
        "Multiply and sum at once; no rank needs all pairs of all channels.",
        keeps_little,
        world=RANKS,
        needs=NEEDS,
    ),
]
