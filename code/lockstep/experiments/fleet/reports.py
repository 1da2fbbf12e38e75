"""Published fleets: what each report says, and what it leaves to be assumed.

A rate is a count of the report over the hours of its fleet. Each input that a
report does not publish keeps the default of `Fleet`, or has the value that the
report's own text suggests; `assumed` names the ones that matter.
"""

from dataclasses import dataclass, replace

from lockstep.experiments.fleet.settings import Fleet
from lockstep.planner.figures import PlanError

DAY_HOURS = 24
RSC = "Kokolis et al. 2025"
RSC_URL = "https://arxiv.org/abs/2410.21680"


@dataclass(frozen=True)
class Report:
    """One published fleet.

    Attributes:
        title: the fleet, as a table names it, with its name before a comma.
        source, url: who says so, and where.
        quote: the report's own words.
        fleet: the inputs, published and assumed.
        assumed: inputs that the report does not publish.
        goodput, mttf_hours: what was published, if it was.
        at_least: whether the report only says "more than".
        band: how far the simulated goodput may lie above the published one.
        why: the reason for the difference.
    """

    title: str
    source: str
    url: str
    quote: str
    fleet: Fleet
    assumed: tuple[str, ...] = ()
    goodput: float | None = None
    mttf_hours: float | None = None
    at_least: bool = False
    band: float = 0.0
    why: str = ""


def mtbf(parts: float, days: float, failures: float) -> float:
    """Hours between failures of one of `parts`, from a count over `days`."""
    return parts * days * DAY_HOURS / failures


# Failures per 1,000 node-days, 6.50, count whatever stops a job. The restart
# overhead, 5 to 20 minutes, has detection in it.
RSC_FLEET = Fleet(
    gpu_mtbf_hours=0,
    host_mtbf_hours=DAY_HOURS / 6.50e-3,
    network_mtbf_hours=0,
    software_mtbf_hours=0,
    detect_seconds=0,
    hang_share=0,
    diagnose_seconds=0,
    load_seconds=0,
    save_seconds=0.1,
    save_every_seconds=3_600,
    repair_hours=0,
)
# 148 + 72 + 19 + 17 + 6 + 6 GPU failures; 32 hosts in unplanned maintenance and
# 21 with a broken part; 35 switches and cables; 54 bugs, 2 dependencies and 7
# NCCL timeouts: 419 in all. (The table's percentages don't add up; its counts
# do.)
LLAMA = Fleet(
    gpus=16_384,
    days=54,
    gpu_mtbf_hours=mtbf(16_384, 54, 268),
    host_mtbf_hours=mtbf(2_048, 54, 53),
    network_mtbf_hours=mtbf(2_048, 54, 35),
    software_mtbf_hours=mtbf(2_048, 54, 63),
    planned_every_hours=54 * DAY_HOURS / 47,
)
# Of 175 incidents, 143 evicted a machine, 12 rolled the code back, and 20 were
# code updates. 27 showed no error. Each step is saved, for 0.9 % of the time.
BYTEROBUST = Fleet(
    gpus=9_600,
    days=90,
    gpu_mtbf_hours=mtbf(9_600, 90, 143),
    host_mtbf_hours=0,
    network_mtbf_hours=0,
    software_mtbf_hours=mtbf(1_200, 90, 12),
    hang_share=27 / 155,
    restart_seconds=93,
    load_seconds=0,
    save_seconds=0.09,
    save_every_seconds=10,
    spares=5,
    planned_every_hours=90 * DAY_HOURS / 20,
)
# More than 100 restarts in several weeks, which are taken to be five. Detection
# and diagnosis take less than 10 minutes, and catching up less than 15.
MEGASCALE = Fleet(
    gpus=10_240,
    days=35,
    gpu_mtbf_hours=mtbf(10_240, 35, 100),
    host_mtbf_hours=0,
    network_mtbf_hours=0,
    software_mtbf_hours=0,
    detect_seconds=300,
    hang_share=0,
    diagnose_seconds=300,
    restart_seconds=240,
    save_every_seconds=1_200,
)
# 100 steps of 105.2 s between checkpoints. A save takes 40 s, and evaluation
# 720 s of every tenth interval. People ended three hangs, which cost 18, 6 and
# 11 hours. One node was slow for a weekend.
BLOOM = Fleet(
    gpus=384,
    days=108,
    gpu_mtbf_hours=7 * DAY_HOURS * 384,
    host_mtbf_hours=0,
    network_mtbf_hours=0,
    software_mtbf_hours=mtbf(48, 108, 3),
    manual_share=3 / (3 + 108 / 7),
    manual_hours=35 / 3,
    spares=4,
    repair_hours=72,
    save_seconds=40 + 72,
    save_every_seconds=100 * 105.2,
    straggler_mtbf_hours=mtbf(48, 108, 1),
    straggler_slowdown=0.055,
    straggler_hours=72,
    planned_every_hours=108 * DAY_HOURS / 7,
)
# 35 manual restarts and over 70 automatic ones, for over 100 broken hosts. The
# pool of spares grew from 4 to 18.
OPT = Fleet(
    gpus=992,
    days=56,
    gpu_mtbf_hours=mtbf(992, 56, 105),
    host_mtbf_hours=0,
    network_mtbf_hours=0,
    software_mtbf_hours=0,
    manual_share=35 / 105,
    manual_hours=4,
    spares=4,
    save_seconds=60,
    save_every_seconds=3_600,
    restart_seconds=600,
    load_seconds=600,
)

REPORTS = {
    "llama3": Report(
        "Llama 3 405B, 54 days",
        "Llama Team 2024, section 3.3.4 and table 5",
        "https://arxiv.org/abs/2407.21783",
        "we achieved higher than 90% effective training time",
        LLAMA,
        (
            "diagnose_seconds",
            "restart_seconds",
            "save_seconds",
            "hang_share",
            "spares",
        ),
        goodput=0.90,
        mttf_hours=54 * DAY_HOURS / 419,
        at_least=True,
        band=0.05,
        why="the report has rates but no times",
    ),
    "rsc-16384": Report(
        "RSC-1 (16k GPUs), saved every 5 minutes, projected",
        RSC,
        RSC_URL,
        "Moving to a 5 minute checkpoint interval would increase expected ETTR"
        " to 0.93",
        replace(RSC_FLEET, gpus=16_384, save_every_seconds=300),
        ("restart_seconds",),
        goodput=0.93,
        mttf_hours=1.8,
        band=0.01,
        why="also a projection, without spares or people",
    ),
    "rsc-4096": Report(
        "RSC-1 (4k GPUs), saved hourly",
        RSC,
        RSC_URL,
        "2048-4096 GPU job runs on RSC-1 show an average ETTR of over 0.9 at a"
        " one-hour assumed checkpoint interval",
        replace(RSC_FLEET, gpus=4_096),
        ("restart_seconds",),
        goodput=0.90,
        at_least=True,
        band=0.05,
        why="a restart takes 5 to 20 minutes, here 5",
    ),
    "rsc-1024": Report(
        "RSC-1 (1k GPUs), from the rate of 8-GPU jobs",
        RSC,
        RSC_URL,
        "the mean-time-to-failure (MTTF) of 1024-GPU jobs is 7.9 hours, roughly"
        " 2 orders-of-magnitude lower than 8-GPU jobs (47.7 days)",
        replace(
            RSC_FLEET,
            gpus=1_024,
            days=330,
            host_mtbf_hours=47.7 * DAY_HOURS,
        ),
        ("restart_seconds",),
        mttf_hours=7.9,
        why="from the rate of jobs of 8 GPUs, times 128 nodes",
    ),
    "byterobust": Report(
        "ByteRobust, dense model, 3 months",
        "Wan et al. 2025, tables 3, 4 and 6, section 8.1.3",
        "https://arxiv.org/abs/2509.16293",
        "ByteRobust maintained the cumulative ETTR at a plateau of up to 97%",
        BYTEROBUST,
        ("diagnose_seconds", "hang_seconds", "spares", "repair_hours"),
        goodput=0.97,
        band=0.02,
        why="means hide long cases, such as 72 minutes for a NaN",
    ),
    "megascale": Report(
        "MegaScale, over 10,000 GPUs, several weeks",
        "Jiang et al. 2024, sections 6.2 and 6.3",
        "https://arxiv.org/abs/2402.15627",
        "the system can catch up to the training progress prior to the crash"
        " within 15 minutes from the latest checkpoints, maintaining over 90%"
        " effective training time rate",
        MEGASCALE,
        ("gpu_mtbf_hours", "save_seconds", "save_every_seconds"),
        goodput=0.90,
        at_least=True,
        band=0.06,
        why="the report's several weeks are 5 here",
    ),
    "bloom": Report(
        "BLOOM 176B, 108 days at full batch",
        "BigScience 2022, chronicles",
        "https://github.com/bigscience-workshop/bigscience/blob/master/train/"
        "tr11-176B-ml/chronicles.md",
        "Every week or so we have hardware issues where one of the gpus dies.",
        BLOOM,
        ("restart_seconds", "manual_hours", "straggler_hours", "repair_hours"),
        # Steps 12,695 to 94,767 at 105.2 s, from March 18 to July 4.
        goodput=(94_767 - 12_695) * 105.2 / (108 * 86_400),
        band=0.05,
        why="site maintenance and unwatched nights aren't counted",
    ),
    "opt": Report(
        "OPT-175B, 8 weeks",
        "Zhang et al. 2022, section 2.5; chronicles",
        "https://arxiv.org/abs/2205.01068",
        "hardware failures contributed to at least 35 manual restarts and the"
        " cycling of over 100 hosts over the course of 2 months",
        OPT,
        (
            "manual_hours",
            "restart_seconds",
            "save_every_seconds",
            "spares",
            "repair_hours",
        ),
        # 33 days on 1,024 GPUs, from November 11 to January 6 on 992.
        goodput=33 * 1_024 / 992 / 56,
        band=0.3,
        why="diverged losses, a deleted cluster, a holiday",
    ),
}


def report(name: str) -> Report:
    """The report of this name; PlanError, if there is none."""
    if name not in REPORTS:
        known = ", ".join(REPORTS)
        raise PlanError(f"--report is {name}; it must be one of {known}")
    return REPORTS[name]
