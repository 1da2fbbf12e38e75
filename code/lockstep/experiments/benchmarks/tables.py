"""The benchmark's result as Markdown tables, one function a section."""

from typing import Any

from lockstep.experiments.benchmarks.result import RIVALS, held
from lockstep.experiments.benchmarks.settings import LIMIT
from lockstep.experiments.markdown import (
    in_bytes,
    measured,
    sections,
    table,
    with_quartiles,
)

LOOPS = {
    "bare": "bare DDP loop",
    "lockstep": "Lockstep",
    "fabric": "Lightning Fabric",
    "accelerate": "Hugging Face Accelerate",
}
SAMPLERS = {
    "lockstep": "`GlobalOrder`",
    "torch": "`DistributedSampler`",
    "torchdata": "`StatefulDistributedSampler`",
}


def tables(found: dict[str, Any]) -> str:
    """All of them, in one text."""
    return sections(found, limits, steps, checkpoints, orders, machine)


def limits(found: dict[str, Any]) -> str:
    """The trainer's time over each rival's; what breaks a limit is bold."""
    rows = []
    for model, over in found["summary"]["over"].items():
        row = [sized(model, found)]
        for rival in RIVALS:
            middle, low, high = over[rival].values()
            mark = "" if held(rival, middle) else "**"
            row.append(f"{mark}{middle:.3f}{mark} ({low:.3f}–{high:.3f})")
        rows.append(row)
    allowed = {"bare": f"at most {LIMIT}"}
    head = [f"over {LOOPS[r]}, {allowed.get(r, 'below 1')}" for r in RIVALS]
    return table(["model", *head], rows)


def steps(found: dict[str, Any]) -> str:
    """CPU time per step, a table for each model."""
    return "\n".join(
        table(
            [sized(model, found), "CPU ms per step", "ratio", "µs more"],
            (
                [
                    shown,
                    with_quartiles(loops[name]["seconds"], 1e3, 2),
                    with_quartiles(loops[name]["ratio"], 1, 3),
                    f"{loops[name]['extra']['median'] * 1e6:.0f}",
                ]
                for name, shown in LOOPS.items()
            ),
        )
        for model, loops in found["summary"]["steps"].items()
    )


def sized(model: str, found: dict[str, Any]) -> str:
    """`tiny (128)`: a model, and how wide it is."""
    return f"{model} ({found['settings']['hidden_sizes'][model]})"


def checkpoints(found: dict[str, Any]) -> str:
    """One checkpoint's size and rank 0's time for it, whole and per MB."""
    head = ["model", "MB", "wall ms", "CPU ms", "wall ms per MB"]
    return table(
        [*head, "CPU ms per MB"],
        (
            [
                sized(model, found),
                f"{(size := save['bytes'] / 1e6):.2f}",
                with_quartiles(save["wall"], 1e3, 1),
                with_quartiles(save["cpu"], 1e3, 1),
                f"{save['wall']['median'] * 1e3 / size:.1f}",
                f"{save['cpu']['median'] * 1e3 / size:.1f}",
            ]
            for model, save in found["summary"]["checkpoints"].items()
        ),
    )


def orders(found: dict[str, Any]) -> str:
    """Time to the first batch and memory for it, by the number of samples."""
    rows = {
        (row["n"], row["sampler"]): row for row in found["summary"]["orders"]
    }
    lengths = sorted({n for n, _ in rows})
    return table(
        ["samples", *SAMPLERS.values()],
        (
            [power_of_ten(n)] + [cost(rows[n, name]) for name in SAMPLERS]
            for n in lengths
        ),
    )


def power_of_ten(n: int) -> str:
    """10⁶ for 1000000."""
    superscript = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
    return "10" + str(len(str(n)) - 1).translate(superscript)


def cost(row: dict[str, Any]) -> str:
    """What the first batch took, or why it was not tried."""
    if "needs" in row:
        needs, has = in_bytes(row["needs"]), in_bytes(row["available"])
        return f"not run: needs {needs}, has {has}"
    ms = row["seconds"] * 1e3
    time = f"{ms:.0f} ms" if ms < 1e3 else f"{ms / 1e3:.1f} s"
    return f"{time}, {in_bytes(row['bytes'])}"


def machine(found: dict[str, Any]) -> str:
    """Where, when and with what this was measured, and how often."""
    often = found["settings"]
    return measured(
        found,
        Batch=f"{often['ranks']} ranks, {often['accumulation']}"
        f" micro-batches of {often['micro_batch']} on each",
        Repeated=f"{often['tiny_rounds']} rounds (tiny) or"
        f" {often['wide_rounds']} (wide), {often['steps_in_a_round']} steps of"
        f" each loop in each, in each of {often['builds']} builds;"
        f" {often['saves']} checkpoints; {often['repeats']} runs of each order",
    )
