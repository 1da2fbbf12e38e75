"""What the labs build beside torch's own, on equal inputs: what comes of a
step, what it sends, and the time that it takes."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from time import process_time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import pipelining
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

from lockstep.experiments import markdown
from lockstep.experiments.demos.bytes_on_wire import sent
from lockstep.experiments.markdown import measured, table, with_quartiles
from lockstep.experiments.provenance import about, write
from lockstep.instruments.forked import in_a_group
from lockstep.parallel.collectives import ring_all_reduce
from lockstep.parallel.data_parallel import DataParallel
from lockstep.parallel.pipeline import PipelineStage, one_f_one_b_schedule
from lockstep.parallel.sharding import ShardedDataParallel, ShardedOptimizer
from lockstep.parallel.tensor_parallel import ParallelMLP

RESULT = Path(__file__).with_name("labs_vs_torch.json")
RANKS, WIDTH, ROWS, LAYERS, MICRO_BATCHES = 2, 512, 128, 4, 4
# A step of one side, and what came of its last one.
Side = tuple[Callable[[], object], Callable[[], Tensor]]


@dataclass(frozen=True)
class Settings:
    """How much is measured; each field is a flag of the command line."""

    rounds: int = 40  # of each pair, who comes first in turns
    steps: int = 5  # of each side in a round


class MLP(nn.Module):
    """Two matrices, as a block of a transformer has them."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """(…, WIDTH) to the same."""
        return self.down(nn.functional.gelu(self.up(x)))


def drawn(seed: int) -> Tensor:
    """Rows of input, the same for one seed."""
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(ROWS, WIDTH, generator=rng)


def stack() -> nn.Sequential:
    """The same on every rank and for both sides."""
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))


def flat(tensors: Any) -> Tensor:
    """All numbers in a row."""
    return torch.cat([one.detach().flatten() for one in tensors])


def gradients(model: nn.Module) -> Callable[[], Tensor]:
    """Of all parameters, when asked."""
    return lambda: flat(p.grad for p in model.parameters())


def all_reduce(ours: bool) -> Side:
    """A MiB of numbers, summed."""
    buffer, rank = torch.empty(1 << 18), dist.get_rank()

    def step() -> None:
        buffer.fill_(rank + 1)
        ring_all_reduce(buffer) if ours else dist.all_reduce(buffer)

    return step, lambda: buffer


def data_parallel(ours: bool) -> Side:
    """Forward, backward and the mean of gradients."""
    model, x = stack(), drawn(dist.get_rank())
    wrapped: Any = (
        DataParallel(model) if ours else DistributedDataParallel(model)
    )

    def step() -> None:
        model.zero_grad()
        wrapped(x).square().mean().backward()
        if ours:
            wrapped.wait_for_gradients()

    return step, gradients(model)


def zero_1(ours: bool) -> Side:
    """A step of Adam whose state is sharded."""
    model = stack()
    for number, param in enumerate(model.parameters()):
        rng = torch.Generator().manual_seed(number)
        param.grad = torch.randn(param.shape, generator=rng)
    kind: Any = ShardedOptimizer if ours else ZeroRedundancyOptimizer
    optimizer = kind(model.parameters(), torch.optim.Adam, lr=1e-4)
    return optimizer.step, lambda: flat(model.parameters())


def zero_3(ours: bool) -> Side:
    """A step of SGD on parameters that are gathered layer by layer."""
    model: Any = stack()
    x = drawn(dist.get_rank())
    if ours:
        model = ShardedDataParallel(model)
    else:
        for layer in (*model, model):
            fully_shard(layer, mesh=init_device_mesh("cpu", (RANKS,)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        if ours:
            model.wait_for_gradients()
        optimizer.step()

    def result() -> Tensor:
        if ours:
            return flat(model.full_parameters().values())
        return flat(p.full_tensor() for p in model.parameters())

    return step, result


def tensor_parallel(ours: bool) -> Side:
    """Forward and backward of an MLP whose matrices are split."""
    torch.manual_seed(0)
    full, x = MLP(), drawn(0).requires_grad_()
    split: nn.Module
    if ours:
        split = ParallelMLP(full.up, full.down)
    else:
        mesh = init_device_mesh("cpu", (RANKS,))
        plan: Any = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        split = parallelize_module(full, mesh, plan)

    def step() -> None:
        split.zero_grad()
        x.grad = None
        split(x).square().mean().backward()

    def result() -> Tensor:
        assert x.grad is not None
        return x.grad

    return step, result


def pipeline(ours: bool) -> Side:
    """1F1B over two stages."""
    stage, model = dist.get_rank(), stack()
    part = model[: LAYERS // 2] if stage == 0 else model[LAYERS // 2 :]
    x, y = drawn(0), drawn(1)
    if ours:
        xs, ys = x.chunk(MICRO_BATCHES), y.chunk(MICRO_BATCHES)
        runner = PipelineStage([part], mse_loss, xs[0])
        schedule = one_f_one_b_schedule(stage, RANKS, MICRO_BATCHES)

        def act() -> object:
            return runner.run(
                schedule, xs if stage == 0 else (), ys if stage else ()
            )
    else:
        theirs = pipelining.PipelineStage(
            part, stage, RANKS, torch.device("cpu")
        )
        given = pipelining.Schedule1F1B(
            theirs, MICRO_BATCHES, loss_fn=mse_loss, scale_grads=False
        )

        def act() -> object:
            return given.step(x) if stage == 0 else given.step(target=y)

    def step() -> None:
        part.zero_grad()
        act()

    return step, gradients(part)


PAIRS: dict[str, tuple[Callable[[bool], Side], str, str]] = {
    "all-reduce, 1 MiB": (all_reduce, "ring_all_reduce", "dist.all_reduce"),
    "data parallel": (data_parallel, "DataParallel", "DDP"),
    "ZeRO-1": (zero_1, "ShardedOptimizer", "ZeroRedundancyOptimizer"),
    "ZeRO-3": (zero_3, "ShardedDataParallel", "fully_shard"),
    "tensor parallel": (tensor_parallel, "ParallelMLP", "parallelize_module"),
    "pipeline": (pipeline, "PipelineStage", "Schedule1F1B"),
}


def compared(settings: Settings) -> dict[str, Any]:
    """On this rank: by pair the largest difference over the largest number,
    the bytes of a step, and CPU seconds of each round; theirs come second."""
    found = {}
    for name, (make, *_) in PAIRS.items():
        sides = [make(True), make(False)]
        for _ in range(2):  # shapes are told, buckets are made anew
            for step, _ in sides:
                step()
        seconds: list[list[float]] = [[], []]
        for turn in range(settings.rounds):
            for side in (0, 1) if turn % 2 else (1, 0):
                step, _ = sides[side]
                dist.barrier()
                before = process_time()
                for _ in range(settings.steps):
                    step()
                seconds[side].append(process_time() - before)
        sends = [sent(step) for step, _ in sides]
        mine, theirs = (result() for _, result in sides)
        away = (mine - theirs).abs().max() / theirs.abs().max()
        found[name] = {
            "difference": away.item(),
            "bytes": sends,
            "seconds": seconds,
        }
    return found


def run(settings: Settings, result: Path = RESULT) -> int:
    """Measure, write the result and its table."""
    if settings.rounds < 2:
        raise SystemExit("--rounds must be at least 2: quartiles need two")
    ranks = in_a_group(RANKS, compared, settings)
    pairs: dict[str, Any] = {}
    for name in PAIRS:
        each = [rank[name] for rank in ranks]
        ours, theirs = (
            [
                sum(at)
                for at in zip(*(r["seconds"][s] for r in each), strict=True)
            ]
            for s in (0, 1)
        )
        over = [a / b for a, b in zip(ours, theirs, strict=True)]
        q1, _, q3 = quantiles(over)
        pairs[name] = {
            "difference": max(r["difference"] for r in each),
            "bytes": [sum(r["bytes"][s] for r in each) for s in (0, 1)],
            "cpu": {"median": median(over), "q1": q1, "q3": q3},
        }
    write({**about(), "settings": asdict(settings), "pairs": pairs}, result)
    return render(result)


def render(result: Path = RESULT) -> int:
    """Write the table of a result anew."""
    return markdown.render(result, ratios, machine)


def ratios(found: dict[str, Any]) -> str:
    """A row for each pair."""
    head = ["what", "ours", "torch's", "difference", "bytes", "CPU time"]
    return table(
        head,
        (
            [
                name,
                *(f"`{side}`" for side in PAIRS[name][1:]),
                f"{one['difference']:.1g}" if one["difference"] else "none",
                f"{one['bytes'][0] / one['bytes'][1]:.2f}",
                with_quartiles(one["cpu"], 1, 2),
            ]
            for name, one in found["pairs"].items()
        ),
    )


def machine(found: dict[str, Any]) -> str:
    """Where, when and with what this was measured, and how often."""
    often = found["settings"]
    return measured(
        found,
        Size=f"{RANKS} ranks, {LAYERS} layers of width {WIDTH}, {ROWS} rows",
        Repeated=f"{often['rounds']} rounds of {often['steps']} steps of each"
        " side, who comes first in turns; the median of the rounds' ratios",
    )
