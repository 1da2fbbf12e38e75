"""Lab B3: what the loss, its weights and a step must hold."""

import math
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import SGD, AdamW

from lockstep.grading.criteria import Criterion, named
from lockstep.instruments.traffic import Call, Traffic
from lockstep.labs.lab_b3_masked_loss import sound as reference

__all__ = ["CRITERIA", "reference"]

FEATURES, HIDDEN, TASKS = 3, 32, 4
ROWS = [3, 5, 11]  # of each rank
NAN = math.nan


def drawn(*shape: int, seed: int) -> Tensor:
    """The same numbers on every rank."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def measured(rows: int, seed: int, fill: float = 0.4) -> Tensor:
    """Values of which about a share is there, and each task in the first."""
    generator = torch.Generator().manual_seed(seed)
    there = torch.rand(rows, TASKS, generator=generator) < fill
    there[:1] = True
    return drawn(rows, TASKS, seed=seed).masked_fill(~there, NAN)


def mine(parts: Sequence[Any]) -> Any:
    """This rank's of them."""
    return parts[dist.get_rank()]


def mean(number: Tensor) -> float:
    """Over all ranks."""
    total = number.detach().double().clone()
    dist.all_reduce(total)
    return float(total) / dist.get_world_size()


def error(
    predicted: Tensor, values: Tensor, weights: Tensor | None = None
) -> Tensor:
    """What one process has for all rows."""
    there = ~values.isnan()
    squares = (predicted[there] - values[there]) ** 2
    if weights is not None:
        squares = squares * weights.expand_as(values)[there]
    return squares.sum() / max(1, len(squares))


def close(found: Any, expected: Any, what: str, rtol: float = 1e-6) -> None:
    """AssertionError with the first number that is another."""
    found, expected = (
        torch.as_tensor(one).detach().double() for one in (found, expected)
    )
    same = found.shape == expected.shape
    shapes = f"{list(found.shape)}, not {list(expected.shape)}"
    assert same, f"{what} has the shape {shapes}"
    wrong = ~torch.isclose(found, expected, rtol=rtol, atol=1e-9)
    for at in map(tuple, wrong.nonzero().tolist()):
        told = f"{float(found[at]):.4g}, not {float(expected[at]):.4g}"
        place = f", at {list(at)}" if at else ""
        raise AssertionError(f"{what} is {told}{place}")


def its_loss(
    answer: Any, values: list[Tensor], weights: Tensor | None = None
) -> None:
    """The loss of ranks that have these values, and its gradients, are those of
    one process."""
    rank = dist.get_rank()
    whole = drawn(sum(map(len, values)), TASKS, seed=90).requires_grad_()
    sizes = [len(one) for one in values]
    own = mine(whole.detach().split(sizes)).clone().requires_grad_()
    found = named(answer, "masked_loss")(own, mine(values), weights)
    told = f"with {[int((~one.isnan()).sum()) for one in values]} labels on"
    told = f"{told} ranks 0 to {len(values) - 1} the"
    found.backward()
    expected = error(whole, torch.cat(values), weights)
    expected.backward()
    close(mean(found), float(expected), f"{told} mean of the ranks' losses")
    assert own.grad is not None, f"{told} predictions have no gradient"
    assert whole.grad is not None
    # DDP would divide it by the ranks.
    right = mine(whole.grad.split(sizes)) * dist.get_world_size()
    close(own.grad, right, f"{told} gradient on rank {rank}")


def is_a_mean_over_labels(answer: Any) -> None:
    """Ranks have labels, and one more than another."""
    for seed in range(3):
        its_loss(answer, [measured(r, 10 * seed + r) for r in ROWS])


NOBODY = torch.full((2, TASKS), NAN)
LACKS = {
    "rank 0 has no label": (NOBODY, measured(5, 1), measured(7, 2)),
    "rank 1 has no molecule": (measured(5, 1), NOBODY[:0], measured(7, 2)),
    "nobody has a label": (NOBODY, NOBODY, NOBODY[:0]),
}


def bears_empty_ranks(answer: Any) -> dict[str, list[str]]:
    """What this rank has called in each case; numbers are numbers."""
    calls = {}
    for case, values in LACKS.items():
        own = mine(values)
        predicted = drawn(*own.shape, seed=3).requires_grad_()
        with Traffic() as traffic:
            loss = named(answer, "masked_loss")(predicted, own)
            loss.backward()
        calls[case] = [f"{one.op} of {one.bytes} B" for one in traffic.calls]
        told = f"{case}: on rank {dist.get_rank()} the"
        there = ~own.isnan()
        value = float(loss.detach())
        assert math.isfinite(value), f"{told} loss is {value}"
        assert there.any() or value == 0, f"{told} loss is {value:.4g}, not 0"
        grad = predicted.grad
        assert grad is not None, f"{told} predictions have no gradient"
        assert grad.isfinite().all(), f"{told} gradient is {grad.tolist()}"
        assert not grad[~there].any(), f"{told} gradient is {grad.tolist()}"
    return calls


def are_alike(results: list[dict[str, list[str]]]) -> None:
    """No rank has made a call that another has not."""
    for case, first in results[0].items():
        for rank, found in enumerate(results):
            told = f"{case}: rank 0 calls {first}, rank {rank} {found[case]}"
            assert found[case] == first, told


def is_wide(answer: Any) -> None:
    """Models that predict in 16 bits. 1,000 squares of 10 are no float16, and
    259 labels no bfloat16."""
    cases = [
        (torch.float16, 10.0, [1000, 1, 1]),
        (torch.bfloat16, 1.0, [257, 1, 1]),
    ]
    for dtype, off, labels in cases:
        values = torch.zeros(mine(labels), 1)
        predicted = torch.full_like(values, off, dtype=dtype)
        loss = named(answer, "masked_loss")(predicted.requires_grad_(), values)
        told = f"of {sum(labels)} labels, {off:g} off in {dtype}, the"
        wide = loss.dtype in (torch.float32, torch.float64)
        assert wide, f"{told} loss is {loss.dtype}"
        loss.backward()
        close(mean(loss), off**2, f"{told} mean of the ranks' losses", 1e-3)
        assert predicted.grad is not None, f"{told} gradient is None"
        finite = bool(predicted.grad.isfinite().all())
        assert finite, f"{told} gradient is not finite"


def sends_little(answer: Any) -> None:
    """Counts travel, and cells do not."""
    values = measured(64, dist.get_rank())
    predicted = drawn(64, TASKS, seed=1).requires_grad_()
    most = Call("all_reduce", 8 * (TASKS + 2), dist.get_world_size()).sent
    for name, args in (
        ("masked_loss", (predicted, values)),
        ("task_weights", (values,)),
    ):
        with Traffic() as traffic:
            found = named(answer, name)(*args)
            if found.requires_grad:
                found.backward()
        told = f"{name} of 64 x {TASKS} cells sends {traffic.sent:g} bytes"
        used = ", ".join(sorted({call.op for call in traffic.calls}))
        assert traffic.sent <= most, f"{told} by {used}; {most:g} are plenty"


def counts_tasks_alike(answer: Any) -> None:
    """Weights of the training set, and the loss with them: of all rows the mean
    of the tasks' means, and of a batch the same objective."""
    values = [measured(rows, rows, 0.3) for rows in ROWS]
    for task, one in enumerate(values):  # rarer and rarer, never gone
        one[1:, : task + 1] = NAN
    whole = torch.cat(values)
    counts = (~whole.isnan()).sum(0)
    expected = counts.sum() / (TASKS * counts.double())
    found = named(answer, "task_weights")(mine(values))
    told = f"of tasks with {counts.tolist()} labels on all ranks, a weight"
    close(found, expected, f"{told} on rank {dist.get_rank()}")
    its_loss(answer, values, expected)
    its_loss(answer, [one[:2] for one in values], expected)


def bears_rare_tasks(answer: Any) -> None:
    """One rank has the only label of a task; then nobody has."""
    act = named(answer, "task_weights")
    values = [measured(rows, rows) for rows in ROWS]
    for one in values[:2]:
        one[:, 2] = NAN
    counts = (~torch.cat(values).isnan()).sum(0)
    expected = counts.sum() / (TASKS * counts.double())
    told = "if one rank alone has labels of a task,"
    try:
        found = act(mine(values))
    except ValueError as wrong:
        raise AssertionError(f"{told} ValueError: {wrong}") from None
    close(found, expected, f"{told} a weight")
    values[2][:, 2] = NAN
    told = f"no rank has a label of task 2, and on rank {dist.get_rank()}"
    try:
        found = act(mine(values))
    except ValueError as error:
        said = str(error)
        clear = "\n" not in said and "2" in said
        assert clear, f"{told} the error says {said!r}"
    else:
        raise AssertionError(f"{told} its weights are {found.tolist()}")


class Assays(nn.Module):
    """A trunk, and a head for each task; the trunk is always in the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(FEATURES, HIDDEN)
        self.heads = nn.ModuleList(nn.Linear(HIDDEN, 1) for _ in range(TASKS))
        self.asked = 0  # heads, in all forward passes
        self.double()
        for seed, parameter in enumerate(self.parameters()):
            parameter.data = drawn(*parameter.shape, seed=seed) / 2

    def forward(self, x: Tensor, used: Sequence[int]) -> Tensor:
        """Predictions [molecules, tasks], 0 of a head that is not used."""
        self.asked += len(used)
        hidden = self.trunk(x).tanh()
        none = 0 * hidden[:, :1]
        columns = [
            self.heads[task](hidden) if task in used else none
            for task in range(TASKS)
        ]
        return torch.cat(columns, 1)


def gradients(model: nn.Module) -> dict[str, Tensor]:
    """By name; zeros for None."""
    return {
        name: torch.zeros_like(one) if one.grad is None else one.grad.clone()
        for name, one in model.named_parameters()
    }


def same(found: nn.Module, right: nn.Module, when: str) -> None:
    """The gradients of both."""
    expected = gradients(right)
    rank = dist.get_rank()
    for name, grad in gradients(found).items():
        close(grad, expected[name], f"{when}, {name}.grad on rank {rank}")


def joins_heads(answer: Any) -> None:
    """Ranks use other heads, and in the next step others again."""
    own, whole = Assays(), Assays()
    model = named(answer, "replicated")(own)
    ranks = dist.get_world_size()
    ours, theirs = (SGD(one.parameters(), lr=0.1) for one in (own, whole))
    for number in range(3):
        used = [[(rank + number) % TASKS] for rank in range(ranks)]
        parts = [drawn(2, FEATURES, seed=10 * number + r) for r in range(ranks)]
        model(mine(parts), mine(used)).square().sum().backward()
        for x, heads in zip(parts, used, strict=True):
            (whole(x, heads).square().sum() / ranks).backward()
        same(own, whole, f"in step {number}, where ranks use heads {used}")
        for optimizer in (ours, theirs):
            optimizer.step()
            optimizer.zero_grad()


def leaves_the_idle(answer: Any) -> None:
    """AdamW decays what has a gradient of zeros."""
    own = Assays()
    model = named(answer, "replicated")(own)
    idle = own.get_parameter(f"heads.{TASKS - 1}.weight")
    before = idle.detach().clone()
    optimizer = AdamW(own.parameters(), lr=0.1, weight_decay=0.5)
    for number in range(2):
        x = drawn(2, FEATURES, seed=number)
        model(x, [dist.get_rank() % 2]).square().sum().backward()
        grad = idle.grad
        zeros = "zeros" if grad is not None and not grad.any() else "numbers"
        told = f"no rank has used head {TASKS - 1}, and in step {number} its"
        assert grad is None, f"{told} grad is {zeros}, not None"
        optimizer.step()
        optimizer.zero_grad()
    assert torch.equal(idle, before), "a head that nobody uses has moved"


Batches = list[tuple[Tensor, Tensor]]


def micro_batches(rank: int) -> Batches:
    """Three; rank 1 ends with one without labels, rank 2 begins with one
    without molecules, and the others have as many as they are."""
    sizes = [[2, 6, 3], [1, 4, 2], [0, 3, 9]][rank]
    made = []
    for number, size in enumerate(sizes):
        seed = 10 * rank + number
        values = measured(size, seed)
        values[:, (rank + number) % TASKS] = NAN  # a head that it leaves out
        if (rank, number) == (1, 2):
            values[:] = NAN
        made.append((drawn(size, FEATURES, seed=seed), values))
    return made


def accumulates(answer: Any) -> None:
    """Two steps, as of one process with all micro-batches in one."""
    own, whole = Assays(), Assays()
    model = named(answer, "replicated")(own)
    ranks = dist.get_world_size()
    parts = [one for rank in range(ranks) for one in micro_batches(rank)]
    x, values = map(torch.cat, zip(*parts, strict=True))
    batches = micro_batches(dist.get_rank())
    heads = sum(len(reference.in_use(one)) for _, one in batches)
    weights = torch.arange(1.0, 1 + TASKS).double()
    for given in (None, weights):
        own.asked = 0
        found = named(answer, "step")(model, deepcopy(batches), given)
        assert own.asked <= heads, (
            f"on rank {dist.get_rank()} labels of three micro-batches are of"
            f" {heads} heads, and the step asks for {own.asked}"
        )
        loss = error(whole(x, range(TASKS)), values, given)
        loss.backward()
        told = "of three micro-batches" + (
            " with weights" if given is not None else ""
        )
        what = f"the error {told} on rank {dist.get_rank()}"
        close(found, float(loss), what)
        same(own, whole, told)
        for one in (own, whole):
            one.zero_grad()


def sends_once(answer: Any) -> None:
    """A step of three micro-batches sends what one would."""
    own = Assays()
    model = named(answer, "replicated")(own)
    batches = micro_batches(dist.get_rank())
    named(answer, "step")(model, deepcopy(batches))
    with Traffic() as traffic:
        named(answer, "step")(model, batches)
    parameters = [*own.parameters()]
    size = sum(one.nbytes for one in parameters)
    bits = 8 * len(parameters) + 8 * 8 * len(batches)  # who uses what; counts
    most = Call("all_reduce", size + bits, dist.get_world_size()).sent
    told = f"a step of {len(batches)} micro-batches sends {traffic.sent:g} B"
    assert traffic.sent <= most, (
        f"{told}, and one all-reduce of the gradients is"
        f" {Call('all_reduce', size, dist.get_world_size()).sent:g}"
    )


LOSS = dict.fromkeys(("loss", "empty ranks", "16 bits"), "masked_loss")

CRITERIA = [
    Criterion(
        "loss",
        16,
        "Divide by what all ranks have; DDP divides by ranks once more.",
        is_a_mean_over_labels,
    ),
    Criterion(
        "empty ranks",
        14,
        "Count first, on every rank; 0/0 and NaN · 0 are NaN.",
        bears_empty_ranks,
        are_alike,
    ),
    Criterion(
        "16 bits",
        8,
        "Add errors in float32, and labels as what counts exactly.",
        is_wide,
    ),
    Criterion(
        "bytes",
        8,
        "A sum over ranks needs a number from each, or one for each task.",
        sends_little,
    ),
    Criterion(
        "by task",
        12,
        "Weights come from the training set once, not from each batch.",
        counts_tasks_alike,
        needs=LOSS,
    ),
    Criterion(
        "rare tasks",
        8,
        "Decide by what all ranks know, after all have counted.",
        bears_rare_tasks,
    ),
    Criterion(
        "heads",
        12,
        "DDP waits for every gradient, unless it is told to look.",
        joins_heads,
    ),
    Criterion(
        "idle heads",
        6,
        "An optimizer skips None and steps by zeros.",
        leaves_the_idle,
    ),
    Criterion(
        "accumulation",
        10,
        "Count the labels of all micro-batches, then begin.",
        accumulates,
        needs=LOSS | {"heads": "replicated"},
    ),
    Criterion(
        "sent once",
        6,
        "no_sync has to hold in the forward pass too.",
        sends_once,
        needs={"accumulation": "", "heads": "replicated"},
    ),
]
