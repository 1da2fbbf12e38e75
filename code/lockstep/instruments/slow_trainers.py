"""Four slow trainers, for what finds out why they are slow.

They share one loop, which is written as many are. What differs stands in the
four classes at the end: the data, the model, and how often it is saved.
"""

import io
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function

LETTERS = "ACDEFGHIKLMNPQRSTVWY"  # of amino acids
PHASES = "load", "forward", "backward", "sync", "optimizer", "save"


class Timer(Protocol):
    """What a trainer tells when a step or a phase begins and ends."""

    def step(self) -> AbstractContextManager[None]: ...
    def phase(self, name: str) -> AbstractContextManager[None]: ...


class Store:
    """An object store far away: each `put` takes `seconds`."""

    def __init__(self, seconds: float = 0.03) -> None:
        self.seconds = seconds
        self.objects: dict[str, bytes] = {}

    def put(self, name: str, data: bytes) -> None:
        """Keep `data`; when it returns, they are safe."""
        time.sleep(self.seconds)
        self.objects[name] = data


class Sample(NamedTuple):
    """A line of the data set, decoded."""

    tokens: Tensor  # (length,), int64: letters, by their place in LETTERS
    y: float


class Model(nn.Module):
    """Attention, whose cost is the square of the length; a mean; `depth`
    residual layers."""

    letters: Tensor  # (20, 16), fixed

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.register_buffer("letters", torch.randn(len(LETTERS), 16))
        self.mix = nn.Linear(16, 16, bias=False)
        self.layers = nn.ModuleList(
            nn.Linear(16, 16, bias=False) for _ in range(depth)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Return a number for a sample."""
        x = self.letters[tokens]
        h = ((self.mix(x) @ x.T).softmax(-1) @ x).mean(0)
        for layer in self.layers:
            h = h + layer(h).tanh() / len(self.layers)
        return h.sum()


# --8<-- [start:trainer]
class Trainer:
    """Data parallel, on the ranks of the default group."""

    steps = 8
    every = steps  # from a checkpoint to the next
    batch_size = 4  # of all ranks together; a step is an epoch
    lengths: tuple[int, ...] = (16,)  # of sequences, in turn
    reads = 1  # of each sequence
    depth = 0

    def __init__(self, store: Store) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.store = store
        torch.manual_seed(11)
        self.lines = [self.line(i) for i in range(self.batch_size)]
        self.model = Model(self.depth).double()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, 0.9)

    def train(self, timer: Timer) -> None:
        """All steps; afterwards every checkpoint is in the store."""
        for step in range(self.steps):
            with timer.step():
                with timer.phase("load"):
                    samples = self.load(step)
                with timer.phase("forward"):
                    loss = self.loss(samples)
                with timer.phase("backward"):
                    loss.backward()
                with timer.phase("sync"):
                    self.sync()
                with timer.phase("optimizer"):
                    self.optimizer.step()
                    self.optimizer.zero_grad()
                with timer.phase("save"):
                    if (step + 1) % self.every == 0:
                        self.save(step + 1)
        self.finish()

    def load(self, step: int) -> list[Sample]:
        """Return this rank's samples of a step."""
        mine = self.share([*range(self.batch_size)])
        return [self.decode(self.lines[i]) for i in mine]

    def share(self, ids: list[int]) -> list[int]:
        """Those of a step's samples that this rank trains on."""
        part = len(ids) // self.world
        return ids[part * self.rank :][:part]

    def decode(self, line: str) -> Sample:
        """Decode a JSON line: reads of one sequence, and what to predict. At
        each position the letter that most reads have is the right one."""
        reads, y = json.loads(line)
        columns = list(zip(*reads, strict=True))
        letters = [max(set(column), key=column.count) for column in columns]
        return Sample(torch.tensor([*map(LETTERS.index, letters)]), y)

    def loss(self, samples: list[Sample]) -> Tensor:
        """Return this rank's part of the mean over the step's samples."""
        errors = [(self.model(x) - y).square() for x, y in samples]
        return torch.stack(errors).sum() / self.batch_size

    def sync(self) -> None:
        """Add up the ranks' gradients."""
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad)

    def save(self, step: int) -> None:
        """Put a checkpoint into the store, as `step-…`."""
        if self.rank == 0:
            state = {"step": step, "model": self.model.state_dict()}
            torch.save(state, file := io.BytesIO())
            self.store.put(f"step-{step}", file.getvalue())

    def finish(self) -> None:
        """Finish after the last step."""

    def line(self, i: int) -> str:
        """Sample `i`, as an instrument has written it: one read in ten has
        another letter there."""
        draw = Random(i)
        right = draw.choices(LETTERS, k=self.lengths[i % len(self.lengths)])
        reads = [[*right] for _ in range(self.reads)]
        for at in range(len(right)):
            for read in draw.sample(reads, self.reads // 10):
                read[at] = draw.choice(LETTERS)
        y = right.count("W") / len(right)
        return json.dumps([["".join(read) for read in reads], y])


class A(Trainer):
    """Two thousand reads of every sequence."""

    reads = 2000


class B(Trainer):
    """A deep model."""

    depth = 32


class C(Trainer):
    """Sequences of many lengths, the long ones of a step at its end."""

    batch_size = 12
    lengths = 64, 64, 64, 64, 80, 80, 96, 128, 128, 192, 192, 384


class D(Trainer):
    """Long sequences, and a checkpoint at every fourth step."""

    lengths = (160,)
    every = 4


# --8<-- [end:trainer]


class Tracer:
    """A timer that writes a trace: each step is a span `step N`, each phase
    one of its name."""

    def __init__(self) -> None:
        self.steps = 0
        self.profile = profile(activities=[ProfilerActivity.CPU])

    @contextmanager
    def step(self) -> Iterator[None]:
        with record_function(f"step {self.steps}"):
            yield
        self.steps += 1

    def phase(self, name: str) -> AbstractContextManager[None]:
        return record_function(name)


def traced(trainer: Trainer) -> dict[str, Any]:
    """Train, and return the trace as torch.profiler exports it."""
    tracer = Tracer()
    with tracer.profile:
        trainer.train(tracer)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        tracer.profile.export_chrome_trace(os.fspath(file))
        found: dict[str, Any] = json.loads(file.read_text())
    return found
