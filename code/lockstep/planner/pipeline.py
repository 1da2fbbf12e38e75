"""The bubble of a pipeline, in both definitions, and micro-batches in flight.

Forward and backward of all stages take equally long. Bubble over total is the
idle share of the step; bubble over ideal is what the step takes in addition.
"""

from .figures import Formula, PlanError, derive, divides, one_of, whole

GPIPE = "Huang et al. 2019 (GPipe), section 2.3"
PIPEDREAM = "Narayanan et al. 2021, section 2.2"
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
}
FRACTION = Formula(
    "bubble_fraction_of_total",
    "bubble_overhead / (1 + bubble_overhead)",
    "of total",
    GPIPE,
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
}


def pipeline(given: dict) -> dict:
    """`given` and the figures bubble_overhead, bubble_fraction_of_total and
    in_flight_microbatches, whose activations the first stage holds. It has
    stages, microbatches, schedule and virtual_stages."""
    schedule = given["schedule"]
    one_of("schedule", schedule, tuple(sorted(OVERHEAD)))
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
    return derive(given, [OVERHEAD[schedule], FRACTION, IN_FLIGHT[schedule]])
