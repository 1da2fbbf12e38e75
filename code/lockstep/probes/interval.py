"""How often to save, for the saves that were measured here.

python -m lockstep.probes.interval RESTART_SECONDS
"""

import json
import sys
from pathlib import Path

from lockstep.planner.checkpoints import young_daly

MEASURED = Path(__file__).parents[1] / "bench" / "result.json"
# Llama 3 405B: 419 unexpected interruptions in 54 days of 16,384 GPUs.
GPU_SECONDS = 54 * 86400 * 16384 / 419


# --8<-- [start:rows]
def rows(save: float, restart: float) -> list[tuple[int, float, float, float]]:
    """For so many GPUs: the time between two failures, the work between two
    saves, both in seconds, and the share of the work that is lost."""
    found = []
    for gpus in 8, 1024, 16384:
        mtbf = GPU_SECONDS / gpus
        interval, slowdown = young_daly(save, restart, mtbf)
        found.append((gpus, mtbf, interval, slowdown - 1))
    return found


# --8<-- [end:rows]
def main(restart: float) -> None:
    """The wide model's save, as the benchmark measured it."""
    saves = json.loads(MEASURED.read_text())["summary"]["checkpoints"]
    save = saves["wide"]["wall"]["median"]
    print(f"a save takes {save:.3f} s, a restart {restart:g} s")
    print("  GPUs   hours to a failure   minutes to a save   time lost")
    for gpus, mtbf, interval, lost in rows(save, restart):
        hours, minutes = mtbf / 3600, interval / 60
        print(f"{gpus:6}{hours:21.1f}{minutes:20.2f}{lost:12.3%}")


if __name__ == "__main__":
    main(float(sys.argv[1]))
