"""Answer for a fleet: many simulated runs next to Daly's formula."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean

from lockstep.experiments.fleet.settings import (
    CAUSES,
    KINDS,
    LEFT_OUT,
    PLANNED,
    RUNS,
    Fleet,
)
from lockstep.experiments.fleet.simulation import Run, simulate
from lockstep.planner.figures import refuse, whole

CLOSE = 0.005  # of the run's time: the two answers agree
SMALL = 0.001  # a cause of less is not named


@dataclass(frozen=True)
class Spread:
    """A mean over runs, and the interval that nine runs in ten lie in."""

    mean: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """The mean, and the values at 5 % and 95 % of all in order."""
    ordered = sorted(values)
    last = len(ordered) - 1
    low, high = (ordered[round(share * last)] for share in (0.05, 0.95))
    return Spread(fmean(ordered), low, high)


@dataclass(frozen=True)
class Answer:
    """What the simulation and the formula say about a fleet.

    Attributes:
        goodput: the share of time in training that is kept (ETTR).
        mttf_hours: hours of running per failure.
        failures: unplanned interruptions of one run.
        shares: mean share of the run's time, by kind.
        stops: mean interruptions of one run, by cause.
        interval: seconds of training between two checkpoints.
        formula: Daly's goodput.
        formula_mttf_hours: the formula's mean time between failures.
    """

    goodput: Spread
    mttf_hours: Spread
    failures: Spread
    shares: dict[str, float]
    stops: dict[str, float]
    interval: float
    formula: float
    formula_mttf_hours: float

    def why(self) -> str:
        """Say where the two answers diverge, and why."""
        apart = self.formula - self.goodput.mean
        causes = sorted(
            ((self.shares[kind], name) for kind, name in LEFT_OUT.items()),
            reverse=True,
        )
        said = [
            f"{name} {points(share)}"
            for share, name in causes
            if share >= SMALL
        ]
        if abs(apart) < CLOSE:
            return (
                f"Daly's formula agrees within {points(CLOSE)} points: little"
                " time goes into what it leaves out."
            )
        more = "more" if apart > 0 else "less"
        return (
            f"Daly's formula says {points(abs(apart))} points {more}.\n"
            f"It leaves out, in points: {', '.join(said) or 'nothing'}."
        )


def answer(fleet: Fleet, runs: int = RUNS, seed: int = 0) -> Answer:
    """Simulate `runs` runs, with the seeds from `seed` on, and ask the formula.

    Raises:
        PlanError: an input is out of range.
    """
    whole("runs", runs)
    if seed != int(seed):
        refuse("seed", seed, "a whole number")
    formula = fleet.analytic()
    interval = formula["interval_seconds"].value
    found = [simulate(fleet, interval, seed + i) for i in range(runs)]
    return Answer(
        spread([run.goodput for run in found]),
        pooled(found),
        spread([run.failures for run in found]),
        {kind: mean_share(found, kind) for kind in KINDS},
        {
            cause: fmean(run.stops[cause] for run in found)
            for cause in (*CAUSES, PLANNED)
        },
        interval,
        formula["goodput"].value,
        formula["mtbf_seconds"].value / 3600,
    )


def pooled(runs: Sequence[Run]) -> Spread:
    """Hours of running per failure: of all runs together, and the interval of
    single runs. Infinite where nothing failed."""
    each = spread([run.mttf_hours for run in runs])
    failures = sum(run.failures for run in runs)
    running = sum(run.running_hours for run in runs)
    mean = running / failures if failures else inf
    return Spread(mean, each.low, each.high)


def mean_share(runs: Sequence[Run], kind: str) -> float:
    """Return the share of all runs' time that went into one kind."""
    return fmean(run.seconds[kind] / run.wall for run in runs)


def points(share: float) -> str:
    """A share in percentage points: 1.2."""
    return f"{100 * share:.1f}"
