"""What gradients add to a step on two ranks: predicted, and run.

    python -m lockstep.experiments.slow_jobs.prediction

In one run every other step keeps its gradients to itself. Those steps and the
α–β model of gloo's all-reduce, fitted to buffers of other sizes, predict the
steps between them. Times are the least of many: whatever else runs can only
add.
"""

import os
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch._dynamo  # before the fork: an optimizer's first step imports it
import torch.distributed as dist

from lockstep.experiments import markdown
from lockstep.experiments.benchmarks.links import fit, planned
from lockstep.experiments.markdown import measured, table
from lockstep.experiments.provenance import about, write
from lockstep.experiments.slow_jobs.measuring import train
from lockstep.instruments.forked import in_a_group
from lockstep.trainer.model import DataParallel

RESULT = Path(__file__).with_name("prediction.json")
WIDTHS = 128, 256, 512  # hidden sizes of the trainer's MLP
SIZES = [2**power for power in range(10, 26, 2)]  # bytes, to fit the link
TOLERANCE = 1.35  # either way: what a shared machine leaves of a prediction
Found = dict[str, Any]
Link = dict[str, float]


def parameters(width: int) -> int:
    """Of the trainer's MLP on 32 features and 4 classes."""
    return 33 * width + (width + 1) * width + 4 * (width + 1)


# --8<-- [start:predict]
class EveryOther(DataParallel):
    """Sends gradients in every other step."""

    sends = False

    def sync_on(self, last: bool) -> AbstractContextManager:
        self.sends = not self.sends
        return super().sync_on(self.sends)


def predict(apart: float, gradients: int, link: Link) -> float:
    """Seconds of a step on two ranks: one without their gradients, and an
    all-reduce of those. Nothing hides, since both cores compute."""
    more = planned("all_reduce", 2, gradients, **link)
    return apart + float(more["seconds"])


# --8<-- [end:predict]
def own_steps(folder: str, width: int, steps: int) -> dict[int, float]:
    """Seconds of each step of this rank, of 32 samples: odd ones send."""
    found = train(
        Path(folder),
        strategy=EveryOther(),
        max_steps=steps,
        hidden_size=width,
    )
    return {number: sum(step.values()) for number, step in found.items()}


def least(world: int, width: int, steps: int) -> tuple[float, float]:
    """Seconds of the quickest step that keeps its gradients, and of the
    quickest that sends them. A step is as long as on its slowest rank."""
    with TemporaryDirectory() as folder:
        ranks = in_a_group(world, own_steps, folder, width, steps)
    slowest = {step: max(rank[step] for rank in ranks) for step in ranks[0]}
    keeps, sends = (
        min(took for step, took in slowest.items() if step % 2 == odd)
        for odd in (0, 1)
    )
    return keeps, sends


def own_reductions(times: int) -> dict[int, list[tuple[float, float]]]:
    """When each all-reduce of this rank began and ended, by bytes."""
    found = {}
    for size in SIZES:
        buffer, took = torch.ones(size // 4), []
        for _ in range(times):
            dist.barrier()
            begin = time.perf_counter()
            dist.all_reduce(buffer)
            took.append((begin, time.perf_counter()))
        found[size] = took
    return found


def fitted(times: int) -> Link:
    """Latency and bandwidth, from the last rank's call to the last return."""
    ranks = in_a_group(2, own_reductions, times)
    took = {}
    for size in SIZES:
        rounds = zip(*(rank[size] for rank in ranks), strict=True)
        took[size] = min(
            max(end for _, end in one) - max(begin for begin, _ in one)
            for one in rounds
        )
    return fit("all_reduce", 2, took)


def compare(widths: tuple[int, ...], steps: int, times: int) -> Found:
    """Predict from the steps that keep their gradients, and show the others."""
    link = fitted(times)
    found: Found = {"link": link, "widths": {}}
    for width in widths:
        alone, _ = least(1, width, steps)
        apart, measured = least(2, width, steps)
        found["widths"][width] = {
            "alone": alone,
            "apart": apart,
            "predicted": predict(apart, 4 * parameters(width), link),
            "measured": measured,
        }
    return found


def run(steps: int = 1000, times: int = 100, result: Path = RESULT) -> int:
    """Measure, predict, run, and write all three."""
    how: Found = {"steps": steps, "times": times, "samples": 32}
    how["load"] = round(os.getloadavg()[0], 1)
    found: Found = {**about(), "settings": how}
    write(found | compare(WIDTHS, steps, times), result)
    return render(result)


def render(result: Path = RESULT) -> int:
    """Write the tables of a result anew."""
    return markdown.render(result, steps, machine)


def steps(found: Found) -> str:
    """A row for each width."""
    names = "alone", "apart", "predicted", "measured"
    head = ["one rank", "two keep", "two send: predicted", "measured"]
    return table(
        ["hidden size", "gradients, MB", *(f"{n}, ms" for n in head), "ratio"],
        (
            [width, f"{4e-6 * parameters(int(width)):.2f}"]
            + [f"{1e3 * at[name]:.2f}" for name in names]
            + [f"{at['predicted'] / at['measured']:.2f}"]
            for width, at in found["widths"].items()
        ),
    )


def machine(found: Found) -> str:
    """Where, when and with what this was measured, and how often."""
    how, link = found["settings"], found["link"]
    return measured(
        found,
        Batch=f"{how['samples']} samples on each rank",
        Link=f"{link['latency'] * 1e6:.0f} µs and"
        f" {link['bandwidth'] / 1e9:.2f} GB/s, fitted",
        Repeated=f"{how['steps']} steps, {how['times']} all-reduces of each"
        f" size; the least. Load average before: {how['load']}",
    )


if __name__ == "__main__":
    sys.exit(run())
