"""What failures leave of a job's time."""

from .figures import (
    Formula,
    PlanError,
    above,
    at_least,
    derive,
    flag,
    quantity,
    whole,
)

DALY = "Daly 2006"
GOODPUT = [
    Formula(
        "mtbf_seconds",
        "3600 * gpu_mtbf_hours / gpus",
        "s",
        "independent failures, any of which stops the job",
    ),
    Formula(
        "interval_seconds",
        "save_every_seconds or daly(save_seconds, mtbf_seconds)",
        "s",
        DALY + ", equation 37: work between two saves",
    ),
    Formula(
        "expected_slowdown",
        "slowdown(interval_seconds, save_seconds, restart_seconds,"
        " mtbf_seconds)",
        "times the work",
        DALY + ", equation 20: saves, lost work and restarts",
    ),
    Formula("goodput", "1 / expected_slowdown", "of the time", "its inverse"),
]


def goodput(given: dict) -> dict:
    """`given` and the figures mtbf_seconds, interval_seconds,
    expected_slowdown and goodput. It has gpus, gpu_mtbf_hours, save_seconds,
    restart_seconds, and save_every_seconds: 0 is as Daly's formula has it."""
    whole("gpus", given["gpus"])
    above("gpu_mtbf_hours", given["gpu_mtbf_hours"])
    above("save_seconds", given["save_seconds"])
    at_least("restart_seconds", given["restart_seconds"])
    at_least("save_every_seconds", given["save_every_seconds"])
    s = derive(given, GOODPUT[:2])
    mtbf, interval = s["mtbf_seconds"].value, s["interval_seconds"].value
    if max(interval + s["save_seconds"], s["restart_seconds"]) > 50 * mtbf:
        raise PlanError(
            f"a failure every {quantity(mtbf, 's')} lets nothing be saved;"
            f" {flag('gpu_mtbf_hours')} must be longer, or saves and restarts"
            " shorter"
        )
    return derive(s, GOODPUT[2:])
