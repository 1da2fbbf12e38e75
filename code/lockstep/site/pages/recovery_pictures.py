"""The picture of the chapter on fault tolerance: what one failure costs."""

from __future__ import annotations

from lockstep.experiments.fleet.recovery import AUTOMATIC, JOB, WAYS, parts
from lockstep.site.pages.charts import Axis, Chart, bars

FAILURES = {  # name: the way to handle it, and whether it is a hang
    "hang, restarted by a person": ("a person restarts", True),
    "hang, restarted automatically": (AUTOMATIC, True),
    "crash, restarted automatically": (AUTOMATIC, False),
    "hang, every part shortened": ("every part shortened", True),
}


def minutes(value: float) -> str:
    """Return whole minutes: 48 min."""
    return f"{value:.0f} min"


def recovery() -> Chart:
    """Draw the parts of one failure, from the fault to the first new step."""
    rows = {
        name: {what: x / 60 for what, x in parts(WAYS[way], hang).items()}
        for name, (way, hang) in FAILURES.items()
    }
    sums = {name: sum(row.values()) for name, row in rows.items()}
    return Chart(
        f"One failure of a job on {JOB.gpus:,} GPUs, from the fault to the"
        " first new step, handled in different ways",
        "Four bars, from left to right in the order of time. "
        + " ".join(
            f"{name}: {minutes(sums[name])}, most of it to"
            f" {max(row, key=row.__getitem__)}."
            for name, row in rows.items()
        ),
        bars(rows, Axis("after the fault", [0, 40, 80, 120], minutes)),
        [
            ["failure", *next(iter(rows.values())), "sum"],
            *(
                [
                    name,
                    *(f"{x:.1f} min" for x in row.values()),
                    f"{sums[name]:.1f} min",
                ]
                for name, row in rows.items()
            ),
        ],
    )
