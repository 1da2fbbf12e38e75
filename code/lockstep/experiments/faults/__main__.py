"""A campaign of faults, and what it came to.

python -m lockstep.experiments.faults --help
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tyro

from lockstep.experiments.faults.campaign import (
    campaign,
    in_a_row,
    judged_again,
)
from lockstep.experiments.faults.random_faults import SETTINGS
from lockstep.experiments.faults.tables import tables
from lockstep.experiments.provenance import about, write

RESULT = Path(__file__).with_name("result.json")
FOLDER = Path(".cache/chaos")  # on the disk: a temporary folder may not be
AGAIN = "python -m lockstep.experiments.faults"


def run(
    runs: int = 200,
    seed: int = 1,
    times: int = 20,
    jobs: int = 2,
    result: Path = RESULT,
) -> int:
    """Let faults strike, and judge how each run ended. Exit code 1: one did not
    end as it has to, and the command that repeats it is printed.

    Args:
        runs: how many, each with faults of its own.
        seed: decides all faults.
        times: restarts in a row, in one more job.
        jobs: runs at a time.
        result: the JSON file to write; the tables go beside it, as Markdown.
    """
    found: dict[str, Any] = {**about(), "seed": seed, "jobs": jobs}
    found["settings"] = SETTINGS
    found["runs"] = [
        said(one, f"{AGAIN} only --run {one['run']} --seed {seed}")
        for one in campaign(FOLDER, seed, range(runs), jobs)
    ]
    found["in_a_row"] = row(seed, times)
    return conclude(found, result)


def judge(result: Path = RESULT) -> int:
    """Judge again what the last campaign left in .cache/chaos."""
    found = judged_again(json.loads(result.read_text()), FOLDER)
    return conclude(found, result)


def conclude(found: dict[str, Any], result: Path) -> int:
    """Write the result and its tables. Exit code 1: not all is right."""
    write(found, result)
    render(result)
    every = [*found["runs"], found["in_a_row"]]
    wrong = sum(bool(one["wrong"]) for one in every)
    print(f"{wrong} of {len(every)} runs did not end as they have to")
    return bool(wrong)


def only(run: int, seed: int = 1) -> int:
    """Repeat one run of a campaign, and write no result."""
    (one,) = campaign(FOLDER, seed, [run], jobs=1)
    return bool(said(one, f"see {FOLDER}")["wrong"])


def restarts(times: int = 20, seed: int = 1) -> int:
    """Restart one job so many times in a row, and write no result."""
    return bool(row(seed, times)["wrong"])


def row(seed: int, times: int) -> dict[str, Any]:
    """`in_a_row`, said aloud."""
    again = f"{AGAIN} restarts --times {times} --seed {seed}"
    return said(in_a_row(FOLDER, seed, times), again)


def said(one: dict[str, Any], again: str) -> dict[str, Any]:
    """Say how a run went, and, if it went wrong, what repeats it."""
    print(f"{one['seconds']:6.1f} s  {' '.join(one['faults'])}", flush=True)
    for wrong in one["wrong"]:
        print(f"  wrong: {wrong}")
    if one["wrong"]:
        print(f"  again: {again}", flush=True)
    return one


def render(result: Path = RESULT) -> int:
    """Write the tables of a result anew."""
    text = tables(json.loads(result.read_text()))
    result.with_suffix(".md").write_text(text)
    return 0


if __name__ == "__main__":
    commands: dict[str, Callable[..., int]] = {
        "run": run,
        "only": only,
        "restarts": restarts,
        "judge": judge,
        "render": render,
    }
    sys.exit(
        tyro.extras.subcommand_cli_from_dict(
            commands,
            prog="lockstep.experiments.faults",
            config=(tyro.conf.OmitArgPrefixes,),
        )
    )
