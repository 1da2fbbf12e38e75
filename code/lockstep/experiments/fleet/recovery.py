"""Handle the failures of a job on 1,024 GPUs in three ways, and compare what
one failure costs with what the weeks lose."""

from dataclasses import replace

from lockstep.experiments.fleet.reports import BYTEROBUST
from lockstep.experiments.fleet.settings import HOUR, Fleet

MTTF_HOURS = 7.9  # measured on RSC-1 for jobs of 1,024 GPUs
NODES = 128
# Each failure breaks a node. As many have no error message as in ByteRobust's
# table. A repair takes a day, so seven spares are enough.
JOB = Fleet(
    gpus=8 * NODES,
    days=54,
    gpu_mtbf_hours=0,
    host_mtbf_hours=MTTF_HOURS * NODES,
    network_mtbf_hours=0,
    software_mtbf_hours=0,
    hang_share=BYTEROBUST.hang_share,
    spares=7,
    save_every_seconds=3_600,
)
AUTOMATIC = "automatic"
WAYS = {
    "a person restarts": replace(
        JOB, diagnose_seconds=0, manual_share=1, manual_hours=1
    ),
    AUTOMATIC: JOB,
    "every part shortened": replace(
        JOB,
        detect_seconds=10,
        hang_seconds=100,
        diagnose_seconds=60,
        restart_seconds=90,
        load_seconds=30,
        save_seconds=1,
        save_every_seconds=600,
    ),
}


def parts(fleet: Fleet, hang: bool) -> dict[str, float]:
    """Return the seconds of one failure's parts, from the failure to the first
    new step. A person's hour counts as the time to find the node."""
    return {
        "detect": fleet.hang_seconds if hang else fleet.detect_seconds,
        "find the node": fleet.diagnose_seconds
        + fleet.manual_share * fleet.manual_hours * HOUR,
        "start": fleet.swap_seconds + fleet.restart_seconds,
        "load": fleet.load_seconds,
        "repeat lost steps": fleet.save_every_seconds / 2,
    }


def cost(fleet: Fleet) -> float:
    """Return the mean seconds that a failure costs."""
    crash, hang = (sum(parts(fleet, how).values()) for how in (False, True))
    return crash + fleet.hang_share * (hang - crash)


def lost(fleet: Fleet) -> float:
    """Return the share of time that the fleet loses: the time of a save over
    the interval, and the cost of a failure over the time between failures."""
    saves = fleet.save_seconds / fleet.save_every_seconds
    return saves + cost(fleet) * sum(fleet.rates().values())
