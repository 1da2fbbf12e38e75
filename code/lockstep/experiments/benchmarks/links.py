"""How long gloo's collectives take on this machine, and how well the planner
says it from two numbers: a latency and a bandwidth."""

import json
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import log2, log10
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from lockstep.experiments.demos.collectives import calls
from lockstep.experiments.markdown import measured, sections, table
from lockstep.experiments.provenance import about, write
from lockstep.instruments.forked import in_a_group
from lockstep.planner.collectives import BUS, collective

RESULT = Path(__file__).with_name("links.json")
WORLDS = 2, 4
# Of the chart: its ticks, in bytes and seconds, and its dots by ranks.
TICKS, TIMES = (2**10, 2**15, 2**20, 2**25), (1e-4, 1e-3, 1e-2, 1e-1)
FILLS = {2: "currentColor", 4: "var(--md-default-bg-color)"}
Acts = dict[tuple[str, int], list[tuple[float, float, int]]]


@dataclass(frozen=True)
class Sweep:
    """How much is measured; each field is a flag of the command line."""

    rounds: int = 30  # of every collective at every size, in shuffled order
    smallest: int = 2**10  # bytes
    largest: int = 2**26  # at most; each size is four times the one before

    def sizes(self) -> list[int]:
        """In bytes."""
        steps = range(0, self.largest.bit_length(), 2)
        each = (self.smallest << step for step in steps)
        return [size for size in each if size <= self.largest]


def run(sweep: Sweep, result: Path = RESULT) -> int:
    """Measure gloo's collectives, fit the α–β model, write both."""
    found: dict[str, Any] = {**about(), "settings": asdict(sweep), "links": []}
    for world in WORLDS:
        ranks = in_a_group(world, acts, sweep)
        found["links"] += [fitted(op, world, points(op, ranks)) for op in BUS]
    write(found, result)
    return render(result)


def render(result: Path = RESULT) -> int:
    """Write the tables of a result anew."""
    found = json.loads(result.read_text())
    result.with_suffix(".md").write_text(tables(found))
    return 0


def acts(sweep: Sweep) -> Acts:
    """On this rank, by collective and bytes: when each call began and ended,
    and the memory pages that it touched first."""
    world = dist.get_world_size()
    each: dict[tuple[str, int], Callable[[], object]] = {}
    for size in sweep.sizes():
        whole, other = torch.ones(size // 4), torch.ones(size // 4)
        part = torch.ones(size // 4 // world)
        for op, (_, _, call) in calls(whole, part, other).items():
            if op in BUS:
                each[op, size] = call
    found: Acts = {act: [] for act in each}
    order = random.Random(0)  # the same on all ranks
    for turn in range(sweep.rounds + 1):
        for act in order.sample([*each], len(each)):
            dist.barrier()
            before = getrusage(RUSAGE_SELF).ru_minflt
            began = time.perf_counter()
            each[act]()
            ended = time.perf_counter()
            pages = getrusage(RUSAGE_SELF).ru_minflt - before
            if turn:  # the first one connects
                found[act].append((began, ended, pages))
    return found


def points(op: str, ranks: list[Acts]) -> list[dict[str, Any]]:
    """Medians for one collective, by bytes: seconds, from the last rank's call
    to the last rank's return, since they read one clock; and rank 0's new
    pages."""
    found = []
    for size in (size for name, size in ranks[0] if name == op):
        rounds = [*zip(*(rank[op, size] for rank in ranks), strict=True)]
        found.append(
            {
                "bytes": size,
                "seconds": median(
                    max(end for _, end, _ in each)
                    - max(begin for begin, _, _ in each)
                    for each in rounds
                ),
                "pages": median(pages for (_, _, pages), *_ in rounds),
            }
        )
    return found


def planned(op: str, world: int, size: int, **link: float) -> dict[str, Any]:
    """The planner's answer. gloo broadcasts down a tree and does the rest in a
    ring (`lockstep.experiments.demos.bytes_on_wire`)."""
    given = {"op": op, "bytes": size, "ranks": world}
    given |= {"algorithm": "tree" if op == "broadcast" else "ring"}
    return collective(given | {"bandwidth": 0, "latency": 0} | link)


# --8<-- [start:fit]
def fit(op: str, world: int, seconds: dict[int, float]) -> dict[str, float]:
    """Latency (s) and bandwidth (B/s) with the least sum of squared relative
    errors. The model is linear in latency and in 1 / bandwidth."""
    rows = []
    for size, took in seconds.items():
        plan = planned(op, world, size)
        sent = float(plan["bytes_sent_per_rank"])
        rows.append([float(plan["hops"]) / took, sent / took])
    (latency, per_byte), *_ = np.linalg.lstsq(rows, np.ones(len(rows)))
    return {"latency": float(latency), "bandwidth": float(1 / per_byte)}


# --8<-- [end:fit]
def fitted(op: str, world: int, curve: list[dict[str, Any]]) -> dict[str, Any]:
    """The fit, and for each size also what it predicts."""
    link = fit(op, world, {at["bytes"]: at["seconds"] for at in curve})
    for at in curve:
        plan = planned(op, world, at["bytes"], **link)
        at["predicted"] = float(plan["seconds"])
    return {"op": op, "ranks": world, **link, "curve": curve}


def tables(found: dict[str, Any]) -> str:
    """All of them, in one text."""
    return sections(found, fits, chart, curves, machine)


def fits(found: dict[str, Any]) -> str:
    """Latency and bandwidth, by collective and number of ranks."""
    rows: dict[str, list[str]] = {}
    for link in found["links"]:
        rows.setdefault(link["op"], [link["op"].replace("_", "-")]).extend(
            (f"{link['latency'] * 1e6:.0f}", f"{link['bandwidth'] / 1e9:.2f}")
        )
    head = [cell for n in WORLDS for cell in (f"{n} ranks: α, µs", "GB/s")]
    return table(["collective", *head], rows.values())


def chart(found: dict[str, Any]) -> str:
    """All-reduce on logarithmic axes, as SVG in the colors of the text: a dot
    is a median, a line what is planned."""

    def x(size: float) -> float:
        return 50 + 18 * log2(size / 2**10)

    def y(seconds: float) -> float:
        return 200 - 50 * log10(seconds / 1e-4)

    drawn = [text(44, y(t) + 4, f"{t * 1e3:g} ms", "end") for t in TIMES]
    drawn += [text(x(size), 220, in_binary(size), "middle") for size in TICKS]
    drawn += [f'<path d="M50 {y(t):.0f}H350" opacity=".2"/>' for t in TIMES]
    for link in found["links"]:
        if link["op"] != "all_reduce":
            continue
        curve, fill = link["curve"], FILLS[link["ranks"]]
        line = (
            f"{x(at['bytes']):.0f} {y(at['predicted']):.0f}" for at in curve
        )
        drawn.append(f'<path d="M{"L".join(line)}"/>')
        drawn += [
            f'<circle cx="{x(at["bytes"]):.0f}" cy="{y(at["seconds"]):.0f}"'
            f' r="4" fill="{fill}"/>'
            for at in curve
        ]
        above = y(curve[0]["predicted"]) - 14
        drawn.append(text(50, above, f"{link['ranks']} ranks", "start"))
    return (
        '<figure><svg viewBox="0 0 376 226" width="480" role="img"'
        ' aria-label="Time of an all-reduce by size, on two ranks and on four:'
        " flat while small, then straight with the size. The table below has"
        ' the figures." fill="none" stroke="currentColor">'
        f"{''.join(drawn)}</svg></figure>\n"
    )


def text(x: float, y: float, words: str, anchor: str) -> str:
    """Words in a chart."""
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="12"'
        f' stroke="none" fill="currentColor">{words}</text>'
    )


def curves(found: dict[str, Any]) -> str:
    """Each collective, below its name."""
    return "\n".join(f"`{op}`\n\n{compared(op, found)}" for op in BUS)


def compared(op: str, found: dict[str, Any]) -> str:
    """A row for each size: milliseconds measured and predicted, and the second
    over the first, on few ranks and on more."""
    curves = [link["curve"] for link in found["links"] if link["op"] == op]
    head = [f"{n} ranks, ms" for n in WORLDS]
    each = (cell for one in head for cell in (one, "planned", "ratio"))
    return table(
        ["buffer", *each],
        (
            [
                in_binary(same[0]["bytes"]),
                *(c for at in same for c in cells(at)),
            ]
            for same in zip(*curves, strict=True)
        ),
    )


def cells(at: dict[str, float]) -> list[str]:
    """Of one size and one number of ranks."""
    took, plan = at["seconds"], at["predicted"]
    return [f"{took * 1e3:.3g}", f"{plan * 1e3:.3g}", f"{plan / took:.2f}"]


def in_binary(size: int) -> str:
    """1 KiB, 64 MiB."""
    power = (size.bit_length() - 1) // 10
    return f"{size >> 10 * power} {['B', 'KiB', 'MiB', 'GiB'][power]}"


def machine(found: dict[str, Any]) -> str:
    """Where, when and with what this was measured, and how often."""
    return measured(
        found,
        Network="gloo's TCP, all ranks on this machine",
        Repeated=f"{found['settings']['rounds']} rounds of every collective at"
        " every size, in shuffled order; medians",
    )
