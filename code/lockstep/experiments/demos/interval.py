"""How often to save, for the saves and the restarts that were measured here."""

import json
from pathlib import Path
from statistics import median
from typing import Any

from lockstep.planner.checkpoints import young_daly

HOME = Path(__file__).parents[1]
SAVES = HOME / "benchmarks" / "background.json"
RESTARTS = HOME / "faults" / "result.json"
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
def costs(saves: dict[str, Any]) -> dict[str, float]:
    """Seconds that a save takes from training: in the background the copy, and
    what the steps beside the write lose."""
    slower = 1 - 1 / saves["slowdown"]
    stolen = saves["write"]["median"] * slower
    return {
        "foreground": saves["foreground"]["median"],
        "background": saves["background"]["median"] + stolen,
    }


def main() -> None:
    """Both ways to save; the restart of a job that lost a rank."""
    saves = json.loads(SAVES.read_text())["summary"]
    restart = median(json.loads(RESTARTS.read_text())["in_a_row"]["recovery"])
    print(f"a restart takes {restart:.1f} s")
    for way, save in costs(saves).items():
        print(f"a save in the {way} costs {save:.2f} s of training")
        print("  GPUs   hours to a failure   minutes to a save   time lost")
        for gpus, mtbf, interval, lost in rows(save, restart):
            hours, minutes = mtbf / 3600, interval / 60
            print(f"{gpus:6}{hours:21.1f}{minutes:20.2f}{lost:12.3%}")


if __name__ == "__main__":
    main()
