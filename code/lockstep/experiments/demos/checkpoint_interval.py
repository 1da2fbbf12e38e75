"""How often to save, for measured saves and an assumed restart."""

import json
from pathlib import Path
from typing import Any

from lockstep.planner.checkpoints import young_daly

HOME = Path(__file__).parents[1]
SAVES = HOME / "benchmarks" / "background_saving.json"
# Assumed: Meta's research clusters need 5 to 20 minutes (arXiv 2410.21680).
RESTART_SECONDS = 10 * 60
# Llama 3 405B: 419 unexpected interruptions in 54 days of 16,384 GPUs.
GPU_SECONDS = 54 * 86400 * 16384 / 419


# --8<-- [start:rows]
def rows(save: float, restart: float) -> list[tuple[int, float, float, float]]:
    """Return for each number of GPUs the seconds between two failures, the
    seconds of work between two saves, and the share of time that is lost."""
    found = []
    for gpus in 8, 1024, 16384:
        mtbf = GPU_SECONDS / gpus
        interval, slowdown = young_daly(save, restart, mtbf)
        found.append((gpus, mtbf, interval, 1 - 1 / slowdown))
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
    """Print the table for both ways to save."""
    saves = json.loads(SAVES.read_text())["summary"]
    print(f"a restart takes {RESTART_SECONDS} s")
    for way, save in costs(saves).items():
        print(f"a save in the {way} costs {save:.1f} s of training")
        print("  GPUs   hours to a failure   minutes to a save   time lost")
        for gpus, mtbf, interval, lost in rows(save, RESTART_SECONDS):
            hours, minutes = mtbf / 3600, interval / 60
            print(f"{gpus:6}{hours:21.1f}{minutes:20.1f}{lost:12.1%}")


if __name__ == "__main__":
    main()
