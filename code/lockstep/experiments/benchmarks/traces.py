"""Three ways to train on two ranks, each recorded with torch.profiler.

    python -m lockstep.experiments.benchmarks.traces record
    python -m lockstep.experiments.benchmarks.traces read

`record` writes a trace of each to the folder `traces`, and what profiling
costs. `read` says of the last step of each trace what every rank did.
"""

import json
import random
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

# An optimizer's first step imports it: here once for all ranks.
import torch._dynamo
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from lockstep.experiments.benchmarks.timeline import (
    FOLDER,
    load,
    of_rank,
    ranks,
    steps,
    window,
)
from lockstep.experiments.provenance import about, write
from lockstep.instruments.forked import in_a_group
from lockstep.instruments.trace_breakdown import breakdown

CASES = "overlap", "late", "apart"
COST = FOLDER.with_suffix(".json")
BATCH, FEATURES, WIDTH, DEPTH = 64, 32, 512, 6
READINGS = 40  # of a sample that is slow to decode
TRIES = 9  # traces of a case, of which one is kept
SHORTEST = 20  # microseconds: an operator within another one, if it took less
MODES: dict[str, dict[str, bool]] = {
    "operators": {},
    "and shapes, memory": {"record_shapes": True, "profile_memory": True},
    "and stacks": {
        "record_shapes": True,
        "profile_memory": True,
        "with_stack": True,
    },
}


class Trainer:
    """A data-parallel MLP, on the ranks of the default group.

    Args:
        case: `overlap` is DDP with a bucket for each layer; `late` the same,
            and rank 1's samples are slow to decode; `apart` sends gradients
            by hand when backward has ended.
    """

    def __init__(self, case: str) -> None:
        self.rank, self.by_hand = dist.get_rank(), case == "apart"
        torch.manual_seed(0)
        layers: list[nn.Module] = [nn.Linear(FEATURES, WIDTH)]
        for _ in range(DEPTH):
            layers += [nn.Tanh(), nn.Linear(WIDTH, WIDTH)]
        model = nn.Sequential(*layers)
        self.model: nn.Module = model
        if not self.by_hand:
            self.model = DistributedDataParallel(model, bucket_cap_mb=1)
        self.optimizer = torch.optim.SGD(model.parameters(), 0.1)
        slow = case == "late" and self.rank == 1
        draw = random.Random(self.rank)
        self.lines = [
            json.dumps(
                [
                    [draw.gauss(0, 1) for _ in range(FEATURES)]
                    for _ in range(READINGS if slow else 1)
                ]
            )
            for _ in range(BATCH)
        ]

    def load(self) -> Tensor:
        """The batch: of each sample the mean of its readings."""
        return torch.tensor(
            [
                [
                    sum(one) / len(one)
                    for one in zip(*json.loads(line), strict=True)
                ]
                for line in self.lines
            ]
        )

    # --8<-- [start:step]
    def step(self, number: int) -> None:
        """One optimizer step, each phase under its name."""
        with record_function(f"step {number}"):
            with record_function("load"):
                x = self.load()
            with record_function("forward"):
                loss = self.model(x).square().mean()
            with record_function("backward"):
                loss.backward()
            if self.by_hand:
                with record_function("sync"):
                    for parameter in self.model.parameters():
                        dist.all_reduce(parameter.grad, dist.ReduceOp.AVG)
            with record_function("optimizer"):
                self.optimizer.step()
                self.optimizer.zero_grad()

    # --8<-- [end:step]


# --8<-- [start:traced]
def traced(case: str, wait: int, warmup: int, active: int) -> dict[str, Any]:
    """This rank's trace of `active` steps."""
    trainer = Trainer(case)
    with TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        with profile(
            activities=[ProfilerActivity.CPU],
            schedule=schedule(wait=wait, warmup=warmup, active=active),
            on_trace_ready=lambda p: p.export_chrome_trace(str(file)),
        ) as profiler:
            for number in range(wait + warmup + active):
                trainer.step(number)
                profiler.step()
        found: dict[str, Any] = json.loads(file.read_text())
    return found


# --8<-- [end:traced]


def cut(traces: list[dict[str, Any]]) -> dict[str, Any]:
    """The ranks' traces as one: times from its first event, names of the
    machine left out, and operators too, that lie within another and took less
    than `SHORTEST`."""
    if len({trace["baseTimeNanoseconds"] for trace in traces}) > 1:
        raise ValueError("the ranks' clocks do not begin at the same moment")
    events = []
    for rank, trace in enumerate(traces):
        given = [e for e in trace["traceEvents"] if e["ph"] == "X"]
        given = [e for e in given if e["cat"] in ("cpu_op", "user_annotation")]
        threads = {e["tid"]: 0 for e in given if e["name"].startswith("step ")}
        open_until: dict[int, float] = {}
        for event in sorted(given, key=lambda e: (e["ts"], -e["dur"])):
            tid, end = event["tid"], event["ts"] + event["dur"]
            launch = event["name"].startswith("c10d::")
            operator = event["cat"] == "cpu_op" and not launch
            within = operator and end <= open_until.get(tid, 0)
            if within and event["dur"] < SHORTEST:
                continue
            if operator:
                open_until[tid] = max(end, open_until.get(tid, 0))
            kept = {key: event[key] for key in ("ph", "cat", "name")}
            kept |= {"pid": rank, "tid": threads.setdefault(tid, len(threads))}
            events.append(kept | {"ts": event["ts"], "dur": event["dur"]})
    begin = min(event["ts"] for event in events)
    for event in events:
        event["ts"] = round(event["ts"] - begin, 3)
    named = [
        {"ph": "M", "name": "process_name", "pid": rank, "args": {"name": name}}
        for rank, name in enumerate(f"rank {r}" for r in range(len(traces)))
    ]
    return {"traceEvents": named + events, "displayTimeUnit": "ms"}


def lasts(trace: dict[str, Any]) -> float:
    """Microseconds of the last step, from its begin to its last rank's end."""
    begin, end = window(trace, steps(trace)[-1])
    return end - begin


def record(folder: Path = FOLDER, cost: Path = COST, rounds: int = 20) -> None:
    """Write a trace of each case, and what profiling costs. Of `TRIES` traces
    it keeps the one whose last step is shortest: whatever else the machine does
    makes a step longer."""
    where = about() | {"backend": "gloo", "ranks": 2}
    folder.mkdir(exist_ok=True)
    for case in CASES:
        tries = [
            cut(in_a_group(2, traced, case, 2, 3, 2)) for _ in range(TRIES)
        ]
        found = min(tries, key=lasts) | {"recorded": where}
        events = ",\n".join(
            json.dumps(event, separators=(",", ":"))
            for event in found.pop("traceEvents")
        )
        rest = json.dumps(found, indent=1).removesuffix("\n}")
        text = f'{rest},\n "traceEvents": [\n{events}\n]\n}}\n'
        (folder / f"{case}.json").write_text(text)
    (seconds, *_) = in_a_group(2, costs, rounds)
    write({**where, "seconds": seconds}, cost)


def costs(rounds: int) -> dict[str, list[float]]:
    """CPU seconds of a step of `overlap`, without a profiler and with it, in
    turns of five steps whose order is drawn."""
    trainer = Trainer("overlap")
    modes: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "none": nullcontext
    }
    for name, given in MODES.items():
        modes[name] = lambda given=given: profile(  # type: ignore[misc]
            activities=[ProfilerActivity.CPU], **given
        )
    found: dict[str, list[float]] = {name: [] for name in modes}
    order = random.Random(0)  # the same on all ranks
    for turn in range(rounds + 1):
        for name in order.sample([*modes], len(modes)):
            dist.barrier()
            with modes[name]():
                trainer.step(0)
                begin = process_time()
                for number in range(5):
                    trainer.step(number)
                took = process_time() - begin
            if turn:  # the first one connects
                found[name].append(round(took / 5, 7))
    return found


def read(case: str) -> list[dict[str, float]]:
    """Of each rank, in the last step of a trace: microseconds of the `step`,
    and those that it computes, communicates, exposed and idle."""
    trace = load(case)
    last = steps(trace)[-1]
    found = []
    for rank in ranks(trace):
        parts = breakdown(of_rank(trace, rank))[last]
        whole = parts["computation"] + parts["exposed"] + parts["idle"]
        found.append({"step": whole} | parts)
    return found


def waited_for(rows: list[dict[str, float]]) -> int | None:
    """The rank that the others wait for: it is least in collectives, and the
    others are there for more than twice as long. None: there is none."""
    sends = [row["communication"] for row in rows]
    least = min(range(len(rows)), key=sends.__getitem__)
    others = sends[:least] + sends[least + 1 :]
    return least if min(others) > 2 * sends[least] else None


def shown() -> str:
    """A line for each rank of each trace, and for whom it waits."""
    head = f"{'':15}{'step':>9}{'computes':>10}{'sends':>7}"
    said = [*{where(case) for case in CASES}]
    said += ["", f"{head}{'exposed':>9}{'idle':>6}"]
    for case in CASES:
        rows = read(case)
        for rank, row in enumerate(rows):
            part = {key: f"{row[key] / row['step']:.0%}" for key in row}
            said.append(
                f"{case:8}rank {rank} {row['step'] / 1e3:6.1f} ms"
                f"{part['computation']:>10}{part['communication']:>7}"
                f"{part['exposed']:>9}{part['idle']:>6}"
            )
        late = waited_for(rows)
        who = "nobody" if late is None else f"rank {late}"
        said.append(f"{'':8}waits for {who}")
    return "\n".join(said)


def where(case: str) -> str:
    """Backend and hardware of a trace, as they were when it was recorded."""
    about = load(case)["recorded"]
    has, torch_ = about["machine"], about["versions"]["torch"]
    return (
        f"{about['backend']}, {about['ranks']} ranks on {has['cores']} cores:"
        f" {has['processor']}, torch {torch_}"
    )


def cost() -> str:
    """CPU time of a step without a profiler, and over it with one."""
    found = json.loads(COST.read_text())["seconds"]
    none = found.pop("none")
    said = [f"{'none':20}{median(none) * 1e3:6.2f} ms"]
    for name, seconds in found.items():
        ratio = median(a / b for a, b in zip(seconds, none, strict=True))
        said.append(f"{name:20}{ratio:6.2f} times that")
    return "\n".join(said)


def main(arguments: list[str]) -> int:
    """Record, or say what was recorded."""
    commands: dict[str, Callable[[], None]] = {
        "record": record,
        "read": lambda: print(shown()),
        "cost": lambda: print(cost()),
    }
    if len(arguments) != 1 or arguments[0] not in commands:
        print(f"say one of: {', '.join(commands)}", file=sys.stderr)
        return 2
    commands[arguments[0]]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
