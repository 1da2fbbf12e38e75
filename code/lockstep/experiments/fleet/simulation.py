"""Simulate one job on many nodes: failures, recovery, spares and stragglers.

Each process of the simulation is one cause. A failure stops the whole job, and
the job takes the same way back each time: somebody or something notices the
failure, finds the broken node, replaces it with a spare, restarts all ranks,
and loads the last checkpoint. Training has no events: between two interruptions
its saves follow from the time that has passed.
"""

from collections.abc import Generator
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any

import simpy

from lockstep.experiments.fleet.settings import (
    CAUSES,
    DAY,
    HOUR,
    KINDS,
    PLANNED,
    Fleet,
)


@dataclass(frozen=True)
class Run:
    """One simulated run: seconds by kind, and interruptions by cause."""

    seconds: dict[str, float]
    stops: dict[str, int]

    @property
    def wall(self) -> float:
        """Seconds of the whole run."""
        return sum(self.seconds.values())

    @property
    def goodput(self) -> float:
        """Share of the run's time in training that is kept."""
        return self.seconds["kept"] / self.wall

    @property
    def failures(self) -> int:
        """Interruptions that nobody planned."""
        return sum(self.stops[cause] for cause in CAUSES)

    @property
    def running_hours(self) -> float:
        """Hours in which ranks run, so that a failure can interrupt them."""
        down = ("detection", "diagnosis", "people", "nodes", "swap", "planned")
        return (self.wall - sum(self.seconds[kind] for kind in down)) / HOUR

    @property
    def mttf_hours(self) -> float:
        """Hours of running per failure; infinite where nothing failed."""
        return self.running_hours / self.failures if self.failures else inf


def simulate(fleet: Fleet, interval: float, seed: int) -> Run:
    """Simulate one run with a checkpoint after each `interval` seconds of
    training. The same seed gives the same run."""
    env = simpy.Environment()
    job = _Job(env, fleet, interval, Random(seed))
    env.run(until=fleet.days * DAY)
    job.end()
    return Run(job.seconds, job.stops)


Steps = Generator[simpy.Event, Any, None]


class _Job:
    """The job and all that happens to it.

    Attributes:
        up: whether ranks run, so that a failure interrupts them.
        broken: nodes that the next restart has to replace.
        slow: slow nodes among the job's.
        unsaved: seconds of training since the last checkpoint.
        saving: seconds that the current save has taken.
    """

    def __init__(
        self,
        env: simpy.Environment,
        fleet: Fleet,
        interval: float,
        chance: Random,
    ) -> None:
        self.env, self.fleet, self.chance = env, fleet, chance
        self.interval = interval
        self.spares = simpy.Container(env, init=fleet.spares)
        self.seconds = dict.fromkeys(KINDS, 0.0)
        self.stops = dict.fromkeys((*CAUSES, PLANNED), 0)
        self.up, self.broken, self.slow = True, 0, 0
        self.unsaved = self.saving = 0.0
        self.doing, self.since = "kept", 0.0
        self.process = env.process(self.live())
        for cause, rate in fleet.rates().items():
            if rate:
                env.process(self.fail(cause, rate))
        if fleet.straggler_mtbf_hours:
            env.process(self.slow_down())
        if fleet.planned_every_hours:
            env.process(self.plan())

    # What happens to the job.

    def fail(self, cause: str, rate: float) -> Steps:
        """Strike again and again, with exponential times between. Nodes that
        wait do not fail."""
        while True:
            yield self.env.timeout(self.chance.expovariate(rate))
            if self.up and cause != "software":
                self.broken += 1
            self.interrupt(cause)

    def slow_down(self) -> Steps:
        """Let one node after another turn slow."""
        mean = self.fleet.straggler_mtbf_hours * HOUR / self.fleet.nodes
        while True:
            yield self.env.timeout(self.chance.expovariate(1 / mean))
            self.env.process(self.straggle())

    def straggle(self) -> Steps:
        """Slow the job down until the slow node is found and replaced."""
        self.enter(self.doing)
        self.slow += 1
        yield self.env.timeout(self.fleet.straggler_hours * HOUR)
        self.enter(self.doing)
        self.slow -= 1
        self.broken += 1
        self.interrupt(PLANNED)

    def plan(self) -> Steps:
        """Stop the job at fixed times."""
        while True:
            yield self.env.timeout(self.fleet.planned_every_hours * HOUR)
            self.interrupt(PLANNED)

    def interrupt(self, cause: str) -> None:
        """Stop the job, if it runs."""
        if self.up:
            self.up = False
            self.stops[cause] += 1
            self.process.interrupt(cause)

    # What the job does.

    def live(self) -> Steps:
        """Train until something stops the job; recover; train again."""
        while True:
            try:
                self.enter("kept")
                yield self.env.event()  # an interruption ends the wait
            except simpy.Interrupt as stop:
                cause = stop.cause
                while cause:
                    self.enter("idle")
                    yield from self.come_down(cause)
                    yield from self.replace()
                    cause = yield from self.come_up(cause)

    def come_down(self, cause: str) -> Steps:
        """Save before a planned stop; after a failure, lose what is not saved
        and find the node."""
        if cause == PLANNED:
            if self.unsaved:
                self.keep()
                yield self.spend("saving", self.fleet.save_seconds)
            yield self.spend("planned", self.fleet.planned_seconds)
            return
        self.seconds["replay"] += self.unsaved
        self.unsaved = self.saving = 0.0
        fleet, draw = self.fleet, self.chance.random
        hangs = draw() < fleet.hang_share
        noticed = fleet.hang_seconds if hangs else fleet.detect_seconds
        yield self.spend("detection", noticed)
        yield self.spend("diagnosis", fleet.diagnose_seconds)
        if draw() < fleet.manual_share:
            yield self.spend("people", self.around(fleet.manual_hours))

    def replace(self) -> Steps:
        """Swap a spare in for each broken node; where no spare is left, wait
        until a node comes back from repair."""
        while self.broken:
            self.broken -= 1
            self.env.process(self.repair())
            self.enter("nodes")
            yield self.spares.get(1)
            yield self.spend("swap", self.fleet.swap_seconds)

    def repair(self) -> Steps:
        """Bring a broken node back as a spare."""
        yield self.env.timeout(self.around(self.fleet.repair_hours))
        yield self.spares.put(1)

    def come_up(self, cause: str) -> Generator[simpy.Event, Any, str]:
        """Start all ranks after this cause. Returns what interrupted the start,
        or nothing."""
        self.up = True
        kinds = ("restart", "load") if cause != PLANNED else (PLANNED, PLANNED)
        try:
            yield self.spend(kinds[0], self.fleet.restart_seconds)
            yield self.spend(kinds[1], self.fleet.load_seconds)
        except simpy.Interrupt as stop:
            return str(stop.cause)
        return ""

    # The account of the time.

    def around(self, hours: float) -> float:
        """Draw seconds from an exponential distribution with this mean."""
        return self.chance.expovariate(1 / (hours * HOUR)) if hours else 0.0

    def spend(self, kind: str, seconds: float) -> simpy.Event:
        """Do this for so long."""
        self.enter(kind)
        return self.env.timeout(seconds)

    def enter(self, kind: str) -> None:
        """Charge the time since the last change to what the job did; from now
        on it does this."""
        passed = self.env.now - self.since
        self.since = self.env.now
        if self.doing == "kept":
            self.train(passed)
        elif passed:
            self.seconds[self.doing] += passed
        self.doing = kind

    def train(self, left: float) -> None:
        """Train and save in turns for `left` seconds of wall-clock time."""
        longer = 1 + (self.fleet.straggler_slowdown if self.slow else 0)
        every, save = self.interval, self.fleet.save_seconds
        while left > 0:
            if not self.unsaved and not self.saving:
                whole, left = divmod(left, every * longer + save)
                self.seconds["kept"] += whole * every
                self.seconds["slow"] += whole * every * (longer - 1)
                self.seconds["saving"] += whole * save
            if self.unsaved < every:
                to_save = (every - self.unsaved) * longer
                took = min(left, to_save)
                self.seconds["slow"] += took - took / longer
                self.unsaved += took / longer
                if took == to_save:
                    self.unsaved = every
            else:
                to_end = save - self.saving
                took = min(left, to_end)
                self.seconds["saving"] += took
                self.saving += took
                if took == to_end:
                    self.keep()
            left -= took

    def keep(self) -> None:
        """Count the training since the last checkpoint as kept."""
        self.seconds["kept"] += self.unsaved
        self.unsaved = self.saving = 0.0

    def end(self) -> None:
        """Close the account. Training that nothing has destroyed is kept."""
        self.enter("kept")
        self.keep()
