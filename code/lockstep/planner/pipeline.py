"""The bubble of a pipeline, in both definitions, and micro-batches in flight.

Forward and backward of all stages take equally long. Bubble over total is the
idle share of the step; bubble over ideal is what the step takes in addition.
"""

from .figures import Formula, PlanError, derive, divides, one_of, refuse, whole

GPIPE = "Huang et al. 2019 (GPipe), section 2.3"
PIPEDREAM = "Narayanan et al. 2021, section 2.2"
ZERO_BUBBLE = (
    "Qi et al. 2024 (zero bubble), section 2, where forward, input's"
    " and weights' gradients take equally long"
)
PLAYED = "this planner's clock, playing torch 2.13's order of actions"
OVERHEAD = {
    "gpipe": Formula(
        "bubble_overhead", "(stages - 1) / microbatches", "of ideal", GPIPE
    ),
    "1f1b": Formula(
        "bubble_overhead", "(stages - 1) / microbatches", "of ideal", PIPEDREAM
    ),
    "interleaved": Formula(
        "bubble_overhead",
        "(stages - 1) / (virtual_stages * microbatches)",
        "of ideal",
        PIPEDREAM,
    ),
    "zb-h1": Formula(
        "bubble_overhead",
        "(stages - 1) / (3 * microbatches)",
        "of ideal",
        ZERO_BUBBLE + ": weights' gradients fill two thirds of the bubble",
    ),
    "zb-h2": Formula("bubble_overhead", "0", "of ideal", ZERO_BUBBLE),
    "zbv": Formula(
        "bubble_overhead",
        "(stages - 1) / (6 * microbatches)",
        "of ideal",
        PLAYED + "; none without the barrier at the step's end",
    ),
    "dualpipev": Formula(
        "bubble_overhead",
        "(stages - 1) / (3 * microbatches)",
        "of ideal",
        PLAYED,
    ),
}
FRACTION = Formula(
    "bubble_fraction_of_total",
    "bubble_overhead / (1 + bubble_overhead)",
    "of total",
    GPIPE,
)
SCHEDULES = (
    "gpipe",
    "1f1b",
    "interleaved",
    "zb-h1",
    "zb-h2",
    "zbv",
    "dualpipev",
)
IN_FLIGHT = {
    "gpipe": Formula("in_flight_microbatches", "microbatches", "", GPIPE),
    "1f1b": Formula(
        "in_flight_microbatches", "min(stages, microbatches)", "", PIPEDREAM
    ),
    "interleaved": Formula(
        "in_flight_microbatches",
        "min(stages + (stages - 1) / virtual_stages, microbatches)",
        "",
        "Korthikanti et al. 2022, section 4.2.3, on the first stage",
    ),
    "zb-h1": Formula(
        "in_flight_microbatches", "min(stages, microbatches)", "", ZERO_BUBBLE
    ),
    "zb-h2": Formula(
        "in_flight_microbatches", "2 * stages - 1", "", ZERO_BUBBLE
    ),
    "zbv": Formula(
        "in_flight_microbatches", "min(stages, microbatches)", "", PLAYED
    ),
    "dualpipev": Formula(
        "in_flight_microbatches", "stages + 1 / 2", "", PLAYED
    ),
}


def pipeline(given: dict) -> dict:
    """`given` and the figures bubble_overhead, bubble_fraction_of_total and
    in_flight_microbatches, whose activations the first stage holds. It has
    stages, microbatches, schedule and virtual_stages."""
    schedule = given["schedule"]
    one_of("schedule", schedule, tuple(SCHEDULES))
    for name in ("stages", "microbatches", "virtual_stages"):
        whole(name, given[name])
    if schedule == "interleaved":
        divides(
            "stages", given["stages"], "microbatches", given["microbatches"]
        )
    elif given["virtual_stages"] > 1:
        raise PlanError(
            f"--virtual-stages is {given['virtual_stages']}; with --schedule"
            f" {schedule} it must be 1"
        )
    if schedule == "zb-h2" and given["microbatches"] < 2 * given["stages"] - 1:
        refuse(
            "microbatches",
            given["microbatches"],
            f"2 stages - 1 or more for zb-h2, {2 * given['stages'] - 1}",
        )
    if schedule == "dualpipev" and given["microbatches"] < 2 * given["stages"]:
        refuse(
            "microbatches",
            given["microbatches"],
            f"2 stages or more for dualpipev, {2 * given['stages']}",
        )
    return derive(given, [OVERHEAD[schedule], FRACTION, IN_FLIGHT[schedule]])
