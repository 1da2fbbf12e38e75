"""The picture of the chapter on launching: how long each layer waits before it
kills a rank that was told to leave."""

from __future__ import annotations

from lockstep.site.pages.charts import Axis, Chart, bars, ticks

SECONDS = {  # the last row: what the batch script asks for, and Slurm's default
    "pods on a GKE Spot VM": 15,
    "torchrun, between SIGTERM and SIGKILL": 30,
    "Slurm, at the time limit": 30,
    "Kubernetes, for a pod": 30,
    "notice of an EC2 Spot instance": 120,
    "Slurm, --signal=TERM@120, then 30 s": 120 + 30,
}
STEP, SIZE, BANDWIDTH = 10, 100e9, 4e9
NEEDED = 2 * STEP + SIZE / BANDWIDTH


def seconds(value: float) -> str:
    """Return whole seconds: 45 s."""
    return f"{value:.0f} s"


def grace() -> Chart:
    """Draw the grace of each layer, and the time to save before leaving."""
    rows = {
        name: {
            "too short for the save": value * (value < NEEDED),
            "long enough": value * (value >= NEEDED),
        }
        for name, value in SECONDS.items()
    }
    return Chart(
        "Default time from the notice, SIGTERM or EC2's event, to SIGKILL, and"
        " with Slurm's --signal; the line is the time that a job with steps of"
        f" {STEP} s needs to save {SIZE / 1e9:.0f} GB",
        f"{len(rows)} bars, and a line at {seconds(NEEDED)}. "
        + " ".join(f"{name}: {value} s." for name, value in SECONDS.items()),
        bars(
            rows,
            Axis("until SIGKILL", ticks(max(SECONDS.values()), 5), seconds),
            {f"two steps and a save: {seconds(NEEDED)}": NEEDED},
        ),
        [
            ["layer", "seconds", "enough"],
            *(
                [name, str(value), "yes" if value >= NEEDED else "no"]
                for name, value in SECONDS.items()
            ),
        ],
    )
