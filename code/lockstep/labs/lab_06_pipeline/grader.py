"""Lab 06: what schedules, and a stage that runs them, must hold."""

import gc
from collections import defaultdict
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from weakref import WeakSet

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from lockstep.grading.criteria import Criterion, named
from lockstep.instruments.traffic import Traffic
from lockstep.parallel import pipeline as reference
from lockstep.planner.communication import PIPELINE
from lockstep.planner.pipeline import pipeline

Lists = list[list[tuple[str, int, int]]]  # what each stage does

FUNCTIONS = {
    "gpipe": "gpipe_schedule",
    "1f1b": "one_f_one_b_schedule",
    "interleaved": "interleaved_schedule",
}
# Stages, micro-batches, chunks.
PLAIN = [(1, 2, 1), (2, 5, 1), (3, 3, 1), (4, 8, 1), (4, 2, 1)]
IN_ROUNDS = [(2, 2, 3), (2, 4, 2), (3, 6, 3), (4, 8, 2)]
COSTS = {"F": 1, "B": 2}
WIDTH = 4


# Schedules


def played(answer: ModuleType, name: str) -> Iterator[tuple[str, Any, Lists]]:
    """A schedule for some sizes: how it was asked for, its sizes, its lists."""
    function = named(answer, FUNCTIONS[name])
    for sizes in IN_ROUNDS if name == "interleaved" else PLAIN:
        stages, micro_batches, chunks = sizes
        asked: list[int] = [stages, micro_batches]
        if name == "interleaved":
            asked.append(chunks)
        lists = [list(function(stage, *asked)) for stage in range(stages)]
        told = f"{FUNCTIONS[name]}(…, {', '.join(map(str, asked))})"
        yield told, sizes, lists


def called(action: tuple[str, int, int]) -> str:
    """As a message has it: B3, or B3 of chunk 1."""
    kind, micro_batch, chunk = action
    return f"{kind}{micro_batch}" + (f" of chunk {chunk}" if chunk else "")


def complete(told: str, sizes: tuple[int, int, int], lists: Lists) -> None:
    """Every stage does each action once, and no backward before its forward."""
    _, micro_batches, chunks = sizes
    for stage, actions in enumerate(lists):
        at = f"stage {stage} of {told}"
        todo = {
            (kind, m, chunk)
            for kind in "FB"
            for m in range(micro_batches)
            for chunk in range(chunks)
        }
        for action in actions:
            kind, m, chunk = action
            told_of = f"{at} does {called(action)}"
            assert action in todo, f"{told_of} twice, or there is none"
            early = kind == "B" and ("F", m, chunk) in todo
            assert not early, f"{told_of} before its forward"
            todo.remove((kind, m, chunk))
        assert not todo, f"{at} leaves out {called(min(todo))}"


def time(told: str, lists: Lists, message: float = 0) -> float:
    """Until the last action has ended, if each message takes so long and they
    arrive in the order in which they were sent."""
    stages = len(lists)
    last = max(chunk for _, _, chunk in lists[0]) * stages + stages - 1
    clocks, todo = [0.0] * stages, [list(actions) for actions in lists]
    # By kind and receiver: micro-batch and part, and when it is there.
    arrivals: dict[Any, list[tuple[tuple[int, int], float]]] = defaultdict(list)
    moved = True
    while moved:
        moved = False
        for stage, left in enumerate(todo):
            while left:
                kind, micro_batch, chunk = left[0]
                part = chunk * stages + stage
                step, begin, end = (
                    (1, 0, last) if kind == "F" else (-1, last, 0)
                )
                if part != begin:
                    queue = arrivals[kind, stage]
                    if not queue or queue[0][0] != (micro_batch, part):
                        break
                    clocks[stage] = max(clocks[stage], queue.pop(0)[1])
                clocks[stage] += COSTS[kind]
                if part != end:
                    there = (micro_batch, part + step), clocks[stage] + message
                    arrivals[kind, (stage + step) % stages].append(there)
                del left[0]
                moved = True
    stuck = [
        f"stage {stage} waits for its {called(left[0])}"
        for stage, left in enumerate(todo)
        if left
    ]
    assert not stuck, f"{told}: {', '.join(stuck)}, for ever"
    return max(clocks)


def held(lists: Lists) -> int:
    """Forwards whose backward is not done, on the stage that has most."""
    most = 0
    for actions in lists:
        now = 0
        for kind, _, _ in actions:
            now += 1 if kind == "F" else -1
            most = max(most, now)
    return most


def planned(name: str, sizes: tuple[int, int, int]) -> dict[str, Any]:
    """What the planner says of a schedule."""
    stages, micro_batches, chunks = sizes
    given = {"stages": stages, "microbatches": micro_batches}
    return pipeline(given | {"schedule": name, "virtual_stages": chunks})


def flushes(answer: ModuleType) -> None:
    """GPipe: legal, and all forwards come first."""
    for told, sizes, lists in played(answer, "gpipe"):
        complete(told, sizes, lists)
        for stage, actions in enumerate(lists):
            kinds = "".join(kind for kind, _, _ in actions)
            goes = f"stage {stage} of {told} goes {kinds}"
            assert "BF" not in kinds, goes
        time(told, lists)


def legal(answer: ModuleType, name: str) -> None:
    """Everything is done, and nobody waits for ever."""
    for told, sizes, lists in played(answer, name):
        complete(told, sizes, lists)
        time(told, lists)


def holds_little(answer: ModuleType) -> None:
    """Activations of no more micro-batches than planned, in parts of a stage's
    where it has several chunks."""
    for name in FUNCTIONS:
        for told, sizes, lists in played(answer, name):
            most = float(planned(name, sizes)["in_flight_microbatches"])
            found = held(lists) / sizes[2]
            assert found <= most, f"{told} holds {found:g}, not {most:g}"


def idles_little(answer: ModuleType) -> None:
    """No longer than planned beside the time that the work takes."""
    for name in FUNCTIONS:
        for told, sizes, lists in played(answer, name):
            _, micro_batches, chunks = sizes
            ideal = sum(COSTS.values()) * micro_batches * chunks
            most = float(planned(name, sizes)["bubble_overhead"])
            found = time(told, lists) / ideal - 1
            said = f"{told} idles for {found:.1%} of ideal, not {most:.1%}"
            assert found <= most + 1e-9, said


# Runs


class Part(nn.Module):
    """A layer of the model."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Both terms reach the part before."""
        y: Tensor = self.linear(x).tanh() + x
        return y


class Held:
    """A tensor that autograd saves, and in which forward; it dies with it."""

    def __init__(self, forward: int, tensor: Tensor) -> None:
        self.forward, self.tensor = forward, tensor


class Counting(Part):
    """It counts the forwards of which autograd still has anything."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__(dtype)
        self.alive: WeakSet[Held] = WeakSet()
        self.forwards = self.most = 0

    def forward(self, x: Tensor) -> Tensor:
        """The same."""
        self.forwards += 1
        with saved_tensors_hooks(self.hold, lambda one: one.tensor):
            y = super().forward(x)
        if self.now() > 1:
            gc.collect()  # a cycle is no leak
        self.most = max(self.most, self.now())
        return y

    def hold(self, tensor: Tensor) -> Held:
        """What autograd keeps in the tensor's place."""
        self.alive.add(one := Held(self.forwards, tensor))
        return one

    def now(self) -> int:
        """Forwards that are alive."""
        return len({one.forward for one in self.alive})


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    """Squared differences, some weighing more."""
    return ((output - target) ** 2 * target).sum()


class Run:
    """A pipeline over `group` of an answer's, and the model that it cuts."""

    def __init__(
        self,
        answer: ModuleType,
        chunks: int = 1,
        group: dist.ProcessGroup | None = None,
        dtype: torch.dtype = torch.float64,
        layer: type[Part] = Part,
    ) -> None:
        self.layer, self.dtype = layer, dtype
        kind = named(answer, "PipelineStage")
        self.stage = dist.get_rank(group)
        self.stages = dist.get_world_size(group)
        self.whole, cut = (self.model(chunks) for _ in range(2))
        self.parts = cut[self.stage :: self.stages]
        self.micro_batches = 2 * self.stages
        shape = 2, self.micro_batches, 2, WIDTH
        self.inputs, self.targets = torch.rand(shape, dtype=dtype).unbind()
        boundary = torch.empty_like(self.inputs[0])
        self.staged = kind(self.parts, loss_of, boundary, group)

    def model(self, chunks: int) -> list[Part]:
        """All parts, the same on every rank and in every call."""
        torch.manual_seed(0)
        return [self.layer(self.dtype) for _ in range(self.stages * chunks)]

    def step(self, schedule: list[reference.Action]) -> list[Tensor]:
        """Only the ends are given anything."""
        first, last = self.stage == 0, self.stage == self.stages - 1
        found = self.staged.run(
            schedule,
            tuple(self.inputs) if first else (),
            tuple(self.targets) if last else (),
        )
        return list(found or ())

    def equals(self, schedule: list[reference.Action], what: str) -> None:
        """A step does what the uncut model does in one."""
        losses = self.step(schedule)
        expected = []
        for x, target in zip(self.inputs, self.targets, strict=True):
            loss = loss_of(nn.Sequential(*self.whole)(x), target)
            loss.backward()
            expected.append(loss.item())
        if self.stage < self.stages - 1:
            expected = []
        found = [float(loss) for loss in losses]
        told = f"{what}: stage {self.stage} returns losses {found}"
        same = len(found) == len(expected) and all(
            abs(a - b) < 1e-9 for a, b in zip(found, expected, strict=True)
        )
        assert same, f"{told}, not {expected}"
        for chunk, part in enumerate(self.parts):
            alone = self.whole[chunk * self.stages + self.stage].linear
            for name, ours in part.linear.named_parameters():
                theirs = alone.get_parameter(name).grad
                told = (
                    f"{what}: {name}.grad of stage {self.stage}, chunk {chunk}"
                )
                assert ours.grad is not None, f"{told} is None"
                assert theirs is not None
                off = (ours.grad - theirs).abs().max().item()
                assert off < 1e-9, f"{told} is off by {off:.3g}"


def trains(answer: ModuleType) -> None:
    """Losses and gradients are the uncut model's, over two steps."""
    run = Run(answer)
    given = run.stage, run.stages, run.micro_batches
    for step in ("in a step of GPipe", "with another step's on top"):
        run.equals(reference.gpipe_schedule(*given), step)


def one_ahead(stage: int, micro_batches: int) -> list[reference.Action]:
    """Of two stages with two chunks. The second takes micro-batches one by one;
    the first is a forward ahead, so it sends first what is wanted last."""
    actions = []
    for one in range(micro_batches):
        now = [("F", one, 0), ("F", one, 1), ("B", one, 1), ("B", one, 0)]
        if stage == 0:
            del now[: one > 0]
            if one + 1 < micro_batches:
                now.insert(-2, ("F", one + 1, 0))
        actions += [reference.Action(*action) for action in now]
    return actions


def runs_any(answer: ModuleType) -> None:
    """Two pipelines side by side, as data parallelism has them, and lists in
    which neighbors send to each other at once."""
    groups = [dist.new_group(ranks) for ranks in ([0, 2], [1, 3])]
    group = groups[dist.get_rank() % 2]
    run = Run(answer, 1, group)
    given = run.stage, run.stages, run.micro_batches
    run.equals(reference.one_f_one_b_schedule(*given), "1F1B")
    gpipe = reference.gpipe_schedule(*given)
    backwards = gpipe[: run.micro_batches - 1 : -1]
    run.equals(
        gpipe[: run.micro_batches] + backwards, "the last one back first"
    )
    run = Run(answer, 2, group)
    run.equals(reference.interleaved_schedule(*given, 2), "interleaved")
    ahead = one_ahead(run.stage, run.micro_batches)
    run.equals(ahead, "the first stage one forward ahead")


def frees(answer: ModuleType) -> None:
    """After a backward nothing of its forward is left."""
    run = Run(answer, layer=Counting)
    one_by_one = [
        reference.Action(kind, micro_batch)
        for micro_batch in range(run.micro_batches)
        for kind in "FB"
    ]
    run.step(one_by_one)
    most = max(part.most for part in run.parts if isinstance(part, Counting))
    assert most <= 1, f"activations of {most} micro-batches are alive, not 1"


def sends_little(answer: ModuleType) -> None:
    """What the planner says; of the ends, each has one neighbor."""
    run = Run(answer, dtype=torch.float32)
    given = run.stage, run.stages, run.micro_batches
    with Traffic() as traffic:
        run.step(reference.gpipe_schedule(*given))
    asked = {"pp": run.stages, "microbatches": run.micro_batches}
    asked |= {"virtual_stages": 1, "tp": 1, "sequence_parallel": False}
    asked |= {"activation_bytes": run.inputs[0].nbytes}
    neighbors = 2 - (run.stage == 0) - (run.stage == run.stages - 1)
    most = float(PIPELINE(asked)) / 2 * neighbors
    told = f"stage {run.stage} sends {traffic.sent:g} bytes, not {most:g}"
    assert traffic.sent <= most, told


CRITERIA = [
    Criterion(
        "gpipe",
        6,
        "On every stage, all forwards come first.",
        flushes,
        world=1,
    ),
    Criterion(
        "1f1b",
        12,
        "How many forwards can a stage do before its first gradient is there?",
        lambda answer: legal(answer, "1f1b"),
        world=1,
    ),
    Criterion(
        "interleaved",
        16,
        "Backwards take the chunks in the opposite order.",
        lambda answer: legal(answer, "interleaved"),
        world=1,
    ),
    Criterion(
        "in flight",
        12,
        "A stage begins a micro-batch when it has ended another.",
        holds_little,
        world=1,
        needs=FUNCTIONS,
    ),
    Criterion(
        "bubble",
        12,
        "Earlier stages run further ahead than later ones.",
        idles_little,
        world=1,
        needs=FUNCTIONS,
    ),
    Criterion(
        "gradients",
        16,
        "Follow one micro-batch: what comes in, what is kept, what goes out.",
        trains,
    ),
    Criterion(
        "any schedule",
        12,
        "A neighbor may send first, send another kind, or be of a group.",
        runs_any,
        world=4,
        needs={"gradients": ""},
    ),
    Criterion(
        "freed",
        7,
        "What a backward has used up is kept by nobody.",
        frees,
        world=2,
        needs={"gradients": ""},
    ),
    Criterion(
        "bytes",
        7,
        "One boundary tensor forward, and one back.",
        sends_little,
        needs={"gradients": ""},
    ),
]
