"""A fleet: what a job runs on, what interrupts it, and how it recovers."""

from dataclasses import dataclass, fields
from math import inf
from typing import Any

from lockstep.planner.figures import (
    PlanError,
    above,
    at_least,
    refuse,
    whole,
)
from lockstep.planner.goodput import goodput

HOUR, DAY = 3600.0, 86400.0
# Where the hours of a run go. Daly's formula knows the first of the two groups.
KNOWN = {
    "kept": "training that is kept",
    "saving": "saving",
    "replay": "training that is lost",
    "swap": "swapping in a node",
    "restart": "restarting",
    "load": "loading",
}
LEFT_OUT = {
    "detection": "detection",
    "diagnosis": "diagnosis",
    "people": "waiting for people",
    "nodes": "waiting for nodes",
    "slow": "stragglers",
    "planned": "planned stops",
}
KINDS = KNOWN | LEFT_OUT
CAUSES = "gpu", "host", "network", "software"
PLANNED = "planned"
RUNS = 100  # with seeds of their own
MOST = 1e5  # interruptions of one run, which take a few seconds


@dataclass(frozen=True)
class Fleet:
    """A job, what interrupts it, and how it recovers.

    The mean times between failures are by default those of Llama 3's 54 days;
    0 means that this cause never interrupts the job. The time that people take
    and the time of a repair are exponential around their means. All other
    times are fixed.
    """

    gpus: int = 1024
    """GPUs of the job."""
    gpus_per_node: int = 8
    """GPUs of one node, which is replaced as a whole."""
    days: float = 30
    """Days of wall-clock time."""
    gpu_mtbf_hours: float = 79_000
    """Hours between failures of one GPU."""
    host_mtbf_hours: float = 50_000
    """Hours between failures of one node apart from its GPUs."""
    network_mtbf_hours: float = 76_000
    """Hours between network failures that one node sees."""
    software_mtbf_hours: float = 42_000
    """Hours between software failures, per node. They need no new node."""
    detect_seconds: float = 60
    """Seconds from a failure with an error message until the job stops."""
    hang_share: float = 0.1
    """Share of failures without an error message."""
    hang_seconds: float = 600
    """Seconds until the timeout that finds a failure without a message."""
    diagnose_seconds: float = 120
    """Seconds to find the broken node."""
    manual_share: float = 0
    """Share of failures that wait for a person."""
    manual_hours: float = 2
    """Mean hours that such a failure waits."""
    swap_seconds: float = 0
    """Seconds to swap in a spare node."""
    spares: int = 16
    """Nodes that stand ready."""
    repair_hours: float = 24
    """Mean hours until a broken node is ready again."""
    restart_seconds: float = 300
    """Seconds to start all ranks and connect them."""
    load_seconds: float = 60
    """Seconds to load a checkpoint."""
    save_seconds: float = 10
    """Seconds that each checkpoint blocks training."""
    save_every_seconds: float = 0
    """Seconds of training between two checkpoints; 0: by Daly's formula."""
    straggler_mtbf_hours: float = 0
    """Hours until one node turns slow without failing; 0: never."""
    straggler_slowdown: float = 0.1
    """Share by which a slow node lengthens each step."""
    straggler_hours: float = 24
    """Hours until a slow node is found and replaced."""
    planned_every_hours: float = 0
    """Hours between planned stops, which save before; 0: none."""
    planned_seconds: float = 0
    """Seconds of a planned stop, before the restart."""

    @property
    def nodes(self) -> int:
        """The job's nodes."""
        return -(-self.gpus // self.gpus_per_node)

    def rates(self) -> dict[str, float]:
        """Failures per second of the whole job, by cause."""
        found = {}
        for cause in CAUSES:
            parts = self.gpus if cause == "gpu" else self.nodes
            hours = getattr(self, f"{cause}_mtbf_hours")
            found[cause] = parts / (hours * HOUR) if hours else 0.0
        return found

    def analytic(self) -> dict[str, Any]:
        """Return what `planner.goodput` answers for this fleet: Daly's formula
        with the swap, the restart and the load as the time of a restart.

        Raises:
            PlanError: an input is out of range, or nothing ever fails.
        """
        self.check()
        rate = sum(self.rates().values())
        if not rate:
            raise PlanError("nothing fails; give --gpu-mtbf-hours or another")
        return goodput(
            {
                "gpus": self.gpus,
                "gpu_mtbf_hours": self.gpus / rate / HOUR,
                "save_seconds": self.save_seconds,
                "restart_seconds": self.swap_seconds
                + self.restart_seconds
                + self.load_seconds,
                "save_every_seconds": self.save_every_seconds,
            }
        )

    def check(self) -> None:
        """Raise PlanError for the first input that is out of range."""
        for one in fields(self):
            value = getattr(self, one.name)
            if not abs(value) < inf:
                refuse(one.name, str(value), "a finite number")
            at_least(one.name, value)
            if one.name.endswith("_share") and value > 1:
                refuse(one.name, value, "from 0 to 1")
        for name in ("gpus", "gpus_per_node"):
            whole(name, getattr(self, name))
        whole("spares", self.spares, 0)
        above("days", self.days)
        often = sum(self.rates().values())
        if self.straggler_mtbf_hours:
            often += self.nodes / (self.straggler_mtbf_hours * HOUR)
        if self.planned_every_hours:
            often += 1 / (self.planned_every_hours * HOUR)
        if often * self.days * DAY > MOST:
            raise PlanError(
                f"{often * self.days * DAY:.3g} interruptions in one run are"
                f" more than {MOST:,.0f}; --days must be fewer, or something"
                " must fail less often"
            )
