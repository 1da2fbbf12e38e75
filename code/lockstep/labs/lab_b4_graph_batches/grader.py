"""Lab B4: what a batch of graphs must hold."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from lockstep.grading.criteria import Criterion, named
from lockstep.labs.lab_b4_graph_batches import sound as reference
from lockstep.labs.lab_b4_graph_batches.sound import Batch, Graph

__all__ = ["CRITERIA", "reference"]

FEATURES = 3


def drawn(seed: int, *shape: int) -> Tensor:
    """The same numbers wherever they are drawn."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def ring(seed: int, size: int) -> Graph:
    """Each atom is bonded to the one before, and the first to all: the only
    graph that has another number of bonds into each atom than out of it."""
    after = torch.arange(size)
    around = torch.stack([after, after.roll(-1)])
    spokes = torch.stack([torch.zeros(size - 1).long(), after[1:]])
    return Graph(drawn(seed, size, FEATURES), torch.cat([around, spokes], 1))


def lonely(seed: int, size: int, bonds: int = 0) -> Graph:
    """Atoms without bonds; or the first two have bonds, the others none."""
    both = torch.tensor([[0, 1], [1, 0]])[:, :bonds]
    return Graph(drawn(seed, size, FEATURES), both)


def some() -> list[Graph]:
    """Four sizes; in none of them the last atom is without a bond."""
    return [ring(seed, size) for seed, size in enumerate((5, 3, 7, 4))]


def ragged() -> list[Graph]:
    """With what a data set has once in ten thousand molecules."""
    return [
        lonely(10, 1),
        ring(11, 3),
        lonely(12, 4, bonds=2),
        lonely(13, 0),
        ring(14, 5),
        lonely(15, 2),
        lonely(16, 0),
    ]


def same(found: Any, expected: Tensor, what: str, tight: float = 1e-9) -> None:
    """AssertionError with the first number that is another."""
    assert isinstance(found, Tensor), f"{what} is {found!r}"
    shape, right = tuple(found.shape), tuple(expected.shape)
    assert shape == right, f"{what} has the shape {shape}, not {right}"
    there, here = found.detach(), expected.detach()
    wrong = ~torch.isclose(there.to(here), here, rtol=tight, atol=tight)
    for at in map(tuple, wrong.nonzero().tolist()):
        told = f"{there[at]:.6g}, not {here[at]:.6g}"
        told += f", at {list(at)}" if at else ""
        raise AssertionError(f"{what} is {told}")


def names(found: Any, expected: Tensor, what: str) -> None:
    """The same, of integers, which tensors are indexed with."""
    same(found, expected, what)
    assert found.dtype == torch.int64, f"{what} is {found.dtype}"


# The batch


def its_union(answer: Any, graphs: Sequence[Graph], what: str) -> None:
    """Against bonds that are moved on one by one."""
    atoms = [row for one in graphs for row in one.atoms]
    bonds, before = [], 0
    for one in graphs:
        bonds += [(a + before, b + before) for a, b in one.bonds.T.tolist()]
        before += len(one.atoms)
    sizes = [len(one.atoms) for one in graphs]
    owner = [n for n, size in enumerate(sizes) for _ in range(size)]
    found = named(answer, "union")(graphs, FEATURES)
    same(
        found.atoms,
        torch.stack(atoms) if atoms else torch.empty(0, FEATURES),
        f"atoms of {what}",
    )
    right = torch.tensor(bonds).long().reshape(-1, 2).T
    names(found.bonds, right, f"bonds of {what}")
    names(found.owner, torch.tensor(owner).long(), f"owner of {what}")
    names(found.counts, torch.tensor(sizes).long(), f"counts of {what}")


def joins(answer: Any) -> None:
    """Two batches, and the gradient of what atoms were computed from."""
    its_union(answer, some(), "four graphs")
    its_union(answer, some()[::-1][:3], "three graphs")
    weight = drawn(0, FEATURES).requires_grad_()
    graphs = [Graph(one.atoms * weight, one.bonds) for one in some()]
    batch = named(answer, "union")(graphs, FEATURES)
    assert batch.atoms.requires_grad, "atoms have lost where they come from"
    batch.atoms.sum().backward()
    right = torch.cat([one.atoms for one in some()]).sum(0)
    same(weight.grad, right, "the gradient of what atoms are computed from")


def joins_ragged(answer: Any) -> None:
    """Without bonds, of one atom, of none; and a batch of none."""
    its_union(answer, ragged(), "ragged graphs")
    its_union(answer, [lonely(1, 1)], "one atom")
    its_union(answer, [], "no graphs")


# What works on it


Alone = Callable[[Tensor, Graph], Tensor]


def as_alone(
    work: Callable[[Tensor, Batch], Tensor], alone: Alone, what: str
) -> None:
    """The function's values, and its input's gradient, are those of the graphs
    one by one, in any order of graphs, with and without bonds."""
    for graphs in (some(), ragged(), ragged()[::-1], [ragged()[0]]):
        batch = reference.union(graphs, FEATURES)
        h = drawn(20, len(batch.atoms), FEATURES)
        each = h.clone().requires_grad_()
        parts = each.split(batch.counts.tolist())
        expected = torch.cat(
            [alone(h, one) for h, one in zip(parts, graphs, strict=True)]
        )
        mine = h.clone().requires_grad_()
        kept = mine * 1  # no leaf, so it could be written to
        found = work(kept, batch)
        sizes = ", ".join(str(n) for n in batch.counts.tolist())
        of = f"{what} of graphs with {sizes} atoms"
        same(kept, h, f"what went into {of}")
        same(found, expected, of)
        gradient = drawn(21, *expected.shape)
        (expected * gradient).sum().backward()
        (found * gradient).sum().backward()
        assert each.grad is not None
        same(mine.grad, each.grad, f"the gradient of {of}")


def sends(answer: Any) -> None:
    """As the adjacency matrix does it."""

    def alone(h: Tensor, graph: Graph) -> Tensor:
        adjacent = h.new_zeros(len(h), len(h))
        for a, b in graph.bonds.T.tolist():
            adjacent[b, a] += 1
        return adjacent @ h

    as_alone(named(answer, "messages"), alone, "messages")


WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda h: h.sum(0),
    "mean": lambda h: h.mean(0),
    "max": lambda h: h.max(0).values,
}


def reads(answer: Any) -> None:
    """In all ways; another is refused."""
    act = named(answer, "readout")
    for how, of_atoms in WAYS.items():

        def alone(
            h: Tensor, _: Graph, of_atoms: Callable[[Tensor], Tensor] = of_atoms
        ) -> Tensor:
            return (of_atoms(h) if len(h) else h.sum(0))[None]

        def work(h: Tensor, batch: Batch, how: str = how) -> Tensor:
            # Below zero: a 0 that a maximum starts with would win.
            return act(h - 9, batch, how) + 9 * (batch.counts > 0)[:, None]

        if how == "sum":
            as_alone(lambda h, batch: act(h, batch, "sum"), alone, "the sum")
        else:
            as_alone(work, alone, f"the {how}")
    batch = reference.union(some(), FEATURES)
    try:
        act(batch.atoms, batch, "median")
    except ValueError:
        return
    raise AssertionError('readout(…, "median") raises no ValueError')


def weighs(answer: Any) -> None:
    """Small scores, and great ones beside small ones."""
    act = named(answer, "softmax")
    for scale in (0.0, 1e4):

        def work(h: Tensor, batch: Batch, scale: float = scale) -> Tensor:
            far = scale * (-1.0) ** batch.owner
            return act(h[:, 0] + far, batch)[:, None]

        as_alone(
            work,
            lambda h, _: h[:, :1].softmax(0),
            f"softmax, with scores of about ±{scale:g},",
        )


def renumbers(answer: Any) -> None:
    """A cycle of three is the smallest order that is not its own inverse."""
    for graph in (*some(), *ragged()):
        generator = torch.Generator().manual_seed(len(graph.atoms))
        order = torch.randperm(len(graph.atoms), generator=generator)
        if len(order) == 3:
            order = torch.tensor([1, 2, 0])
        found = named(answer, "permuted")(graph, order)
        what = f"of {len(order)} atoms in the order {order.tolist()}"
        same(found.atoms, graph.atoms[order], f"atoms {what}")
        pairs = sorted(map(tuple, order[found.bonds].T.tolist()))
        right = sorted(map(tuple, graph.bonds.T.tolist()))
        told = f"bonds {what} join what were {pairs}, not {right}"
        assert pairs == right, told


# The check


def plain(graphs: Sequence[Graph]) -> Tensor:
    """A sound network."""
    batch = reference.union(graphs, FEATURES)
    h = batch.atoms
    for _ in range(2):
        h = (h + reference.messages(h, batch)).tanh()
    return reference.readout(h, batch, "sum").sum(1)


def rounds(graphs: Sequence[Graph]) -> Tensor:
    """Sound: far from zero, so rounding is 1e-3."""
    return (1e4 * (plain(graphs) + 1)).float() + 1e-3 * len(graphs)


def no_offset(graphs: Sequence[Graph]) -> Tensor:
    """Bonds lie on the first molecules' atoms."""
    batch = reference.union(graphs, FEATURES)
    bonds = torch.cat([one.bonds for one in graphs], 1)
    h = batch.atoms
    h = (h + reference.messages(h, batch._replace(bonds=bonds))).tanh()
    return reference.readout(h, batch, "sum").sum(1)


def small(graphs: Sequence[Graph]) -> Tensor:
    """The same in a unit that makes its numbers tiny."""
    return 1e-6 * no_offset(graphs)


def of_the_batch(graphs: Sequence[Graph]) -> Tensor:
    """A batch norm in training mode."""
    value = plain(graphs)
    return value - value.mean()


def of_the_one_before(graphs: Sequence[Graph]) -> Tensor:
    """An offset that is one too small: the first graph has none."""
    value = plain(graphs)
    return value + 0.1 * torch.cat([value[:1] * 0, value[:-1]])


def of_the_first(graphs: Sequence[Graph]) -> Tensor:
    """Graphs are cut to the size of the first; in this batch nobody is, and in
    reverse only what is larger than the last."""
    most = len(graphs[0].atoms)
    cut = [
        one
        if len(one.atoms) <= most
        else Graph(one.atoms[:most], torch.empty(2, 0).long())
        for one in graphs
    ]
    return plain(cut)


PREDICTORS = [
    plain,
    rounds,
    no_offset,
    small,
    of_the_batch,
    of_the_one_before,
    of_the_first,
]


def finds(answer: Any) -> None:
    """The graphs whose output is another, and no others."""
    graphs = sorted(some(), key=lambda one: -len(one.atoms))
    for predict in PREDICTORS:
        found = list(named(answer, "company")(predict, graphs))
        right = reference.company(predict, graphs)
        about = (predict.__doc__ or "").partition("\n")[0].rstrip(".")
        told = f"company() finds {found}, not {right}, where: {about}"
        assert found == right, told


# Together


def network(answer: Any, weights: Tensor, graphs: Sequence[Graph]) -> Tensor:
    """Of the answer's functions: two rounds, and attention over atoms."""
    batch = answer.union(graphs, FEATURES)
    h = batch.atoms
    for weight in weights[:2]:
        h = h + answer.messages(h @ weight, batch).tanh()
    heed = answer.softmax((h @ weights[2])[:, 0], batch)
    return answer.readout(heed[:, None] * h, batch, "sum")


def trains(answer: Any) -> None:
    """Two epochs over the same graphs, in another order and with atoms
    renumbered in the second."""
    for name in (*SEGMENTS.values(), "permuted"):
        named(answer, name)
    graphs = [*some(), *ragged()]
    fresh = [*some(), *ragged()]
    for epoch in range(2):
        generator = torch.Generator().manual_seed(epoch)
        order = torch.randperm(len(graphs), generator=generator).tolist()
        mine = [graphs[n] for n in order]
        if epoch:
            mine = [
                answer.permuted(
                    one, torch.randperm(len(one.atoms), generator=generator)
                )
                for one in mine
            ]
        weights = drawn(30, 3, FEATURES, FEATURES).requires_grad_()
        plain = weights.detach().clone().requires_grad_()
        given = [one.bonds.clone() for one in mine]
        found = network(answer, weights, mine)
        for one, bonds in zip(mine, given, strict=True):
            names(one.bonds, bonds, "after union a graph's own bonds")
        each = [network(reference, plain, [fresh[n]]) for n in order]
        expected = torch.cat(each)
        same(found, expected, f"in epoch {epoch}, the graphs' output")
        found.square().sum().backward()
        expected.square().sum().backward()
        assert plain.grad is not None
        told = f"in epoch {epoch}, the gradient of the weights"
        same(weights.grad, plain.grad, told)


# Ranks


def its_mean(
    answer: Any, sizes: list[int], groups: list[list[int]] | None = None
) -> None:
    """Ranks have so many atoms; value and gradient are those of one process."""
    rank = dist.get_rank()
    members, group = list(range(dist.get_world_size())), None
    for ranks in groups or ():
        made = dist.new_group(ranks)
        if rank in ranks:
            members, group = ranks, made
    x = [drawn(40 + r, sizes[r], FEATURES) for r in members]
    weight, plain = (drawn(50, FEATURES).requires_grad_() for _ in range(2))
    errors = (x[members.index(rank)] @ weight).square()
    part = named(answer, "atom_mean")(errors, group)
    held = ", ".join(str(sizes[r]) for r in members)
    about = f"where ranks have {held} atoms"
    right = (torch.cat(x) @ plain).square()
    mean = right.mean() if len(right) else right.sum()
    same(over(part, group), mean, f"the mean over ranks, {about},")
    try:
        part.backward()
    except RuntimeError as error:
        told = f"rank {rank} has no backward pass, {about}: {error}"
        raise AssertionError(told) from None
    mean.backward()
    assert weight.grad is not None, f"rank {rank} has no gradient, {about}"
    assert plain.grad is not None
    averaged = over(weight.grad, group)
    same(averaged, plain.grad, f"the averaged gradient, {about},")


def over(found: Tensor, group: Any) -> Tensor:
    """The mean over a group's ranks, as data-parallel training takes it."""
    total = found.detach().clone()
    dist.all_reduce(total, group=group)
    return total / dist.get_world_size(group)


def averages(answer: Any) -> None:
    """Unequal counts; and bfloat16, which knows no 301."""
    its_mean(answer, [2, 9, 4])
    ones = torch.ones(301 + dist.get_rank(), dtype=torch.bfloat16)
    part = named(answer, "atom_mean")(ones, None)
    told = f"of errors in bfloat16 the mean is {part.dtype}"
    assert part.dtype == torch.float32, told
    what = "the mean of 906 ones in bfloat16"
    same(over(part, None), torch.tensor(1.0), what, 1e-6)


def has_none(answer: Any) -> None:
    """One rank, two, and all of them."""
    for sizes in ([3, 0, 5], [0, 4, 0], [0, 0, 0]):
        its_mean(answer, sizes)


def serves_groups(answer: Any) -> None:
    """Two of two ranks each."""
    its_mean(answer, [1, 2, 3, 4], [[0, 2], [1, 3]])


SEGMENTS = {
    "union": "union",
    "ragged graphs": "union",
    "messages": "messages",
    "readout": "readout",
    "softmax": "softmax",
}

CRITERIA = [
    Criterion(
        "union",
        12,
        "All atoms of the graphs before move a bond on.",
        joins,
        world=1,
    ),
    Criterion(
        "ragged graphs",
        8,
        "Count atoms, and not bonds; of nothing there is a shape too.",
        joins_ragged,
        world=1,
        needs={"union": ""},
    ),
    Criterion(
        "messages",
        12,
        "Where bonds end at one atom they add up: index_add, not `+=`.",
        sends,
        world=1,
    ),
    Criterion(
        "readout",
        12,
        "Ask `counts` how many graphs there are, and how large.",
        reads,
        world=1,
    ),
    Criterion(
        "softmax",
        10,
        "A graph's weights depend on its own scores alone.",
        weighs,
        world=1,
    ),
    Criterion(
        "renumbering",
        8,
        "`order` leads from new to old numbers; a bond needs old to new.",
        renumbers,
        world=1,
    ),
    Criterion(
        "company",
        12,
        "Alone, in the batch, reversed; rounding is relative to outputs.",
        finds,
        world=1,
    ),
    Criterion(
        "two epochs",
        6,
        "What is passed in must stay as it is, and nothing be remembered.",
        trains,
        world=1,
        needs=SEGMENTS | {"renumbering": "permuted"},
    ),
    Criterion(
        "global mean",
        10,
        "Sum the counts of all ranks, as integers; gradients are averaged.",
        averages,
    ),
    Criterion(
        "ranks without atoms",
        6,
        "They call the collective too, and their part hangs on the network.",
        has_none,
        needs={"global mean": ""},
    ),
    Criterion(
        "groups",
        4,
        "Count, and scale, by the ranks that average gradients.",
        serves_groups,
        world=4,
        needs={"global mean": ""},
    ),
]
