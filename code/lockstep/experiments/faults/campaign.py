"""Runs under torchrun, each beside the undisturbed one."""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from lockstep.experiments.faults.judge import Log, complaints, recoveries
from lockstep.experiments.faults.random_faults import SETTINGS, Draw, drawn
from lockstep.trainer.extensions.faults import (
    COMPUTING,
    PUBLISHING,
    SAVING,
    Fault,
    parsed,
)

TORCHRUN = sys.executable, "-m", "torch.distributed.run"
TRAINER = "-m", "lockstep.trainer"
PATIENCE = 120.0  # seconds until a start that does not end is given up
RESTARTS = 3
Result = dict[str, Any]


class Undisturbed(NamedTuple):
    """What a run comes to if nothing happens."""

    weights_sha256: str
    seconds: float


def launched(
    run_dir: Path, draw: Draw, restarts: int, **changed: Any
) -> tuple[int, float]:
    """Train under torchrun, with what it says in `run_dir`.log; its exit code
    and the seconds it took. It is killed when it takes too long."""
    command = [
        *(*TORCHRUN, "--standalone", f"--nproc-per-node={draw.world_size}"),
        *(f"--max-restarts={restarts}", *TRAINER, "--run-dir", str(run_dir)),
    ]
    for name, value in (SETTINGS | changed).items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    for fault in draw.faults:
        command += ["--fault", str(fault)]
    alike = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    shutil.rmtree(run_dir, ignore_errors=True)
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    with run_dir.with_suffix(".log").open("w") as log:
        try:
            # A timeout kills torchrun, and its ranks end with it.
            code = subprocess.run(
                command,
                env=os.environ | alike,
                stdout=log,
                stderr=log,
                timeout=PATIENCE * (1 + restarts),
            ).returncode
        except subprocess.TimeoutExpired:
            code = -1
    return code, time.monotonic() - begun


def undisturbed(run_dir: Path, world_size: int, **changed: Any) -> Undisturbed:
    """A run of `world_size` ranks with no faults."""
    code, seconds = launched(run_dir, Draw(world_size, []), 0, **changed)
    if code:
        raise RuntimeError(f"torchrun left with {code}: see {run_dir}.log")
    end = Log(run_dir).ranks(0)[0][-1]
    return Undisturbed(end["weights_sha256"], seconds)


def judged(
    run_dir: Path,
    draw: Draw,
    whole: Undisturbed,
    restarts: int = RESTARTS,
    **changed: Any,
) -> Result:
    """A run with the faults of `draw`: what it took, and what is wrong."""
    if any(fault.kind == "hang" for fault in draw.faults):
        # A rank that is only slow to start must not be taken for a hung one.
        changed |= {"timeout_seconds": round(2 * whole.seconds, 1)}
    code, seconds = launched(run_dir, draw, restarts, **changed)
    return {
        "faults": [str(fault) for fault in draw.faults],
        "seconds": round(seconds, 2),
        "code": code,
        **verdict(run_dir, draw.faults, whole.weights_sha256, code),
    }


def verdict(
    run_dir: Path, faults: list[Fault], weights_sha256: str, code: int
) -> Result:
    """What is wrong with a run that is over; else how long it recovered."""
    wrong = [f"torchrun left with {code}"] if code else []
    wrong += complaints(run_dir, faults, weights_sha256)
    took = [] if wrong else recoveries(run_dir, faults)
    return {"recovery": [round(each, 3) for each in took], "wrong": wrong}


def judged_again(found: Result, folder: Path) -> Result:
    """A campaign's result, from what its runs left in `folder`: for when the
    judge was wrong and the runs were not."""

    def again(one: Result, run_dir: Path, whole: str) -> Result:
        faults = [parsed(text) for text in one["faults"]]
        end = Log(folder / whole).ranks(0)[0][-1]["weights_sha256"]
        return one | verdict(run_dir, faults, end, one["code"])

    runs = [
        again(
            one,
            folder / f"run-{one['run']:03d}",
            f"undisturbed-{one['world_size']}",
        )
        for one in found["runs"]
    ]
    row = again(found["in_a_row"], folder / "row", "row-undisturbed")
    return found | {"runs": runs, "in_a_row": row}


def campaign(
    folder: Path, seed: int, runs: Iterable[int], jobs: int
) -> Iterator[Result]:
    """The results of `runs`, in order, as they come; `jobs` at a time."""
    wholes = {
        world: undisturbed(folder / f"undisturbed-{world}", world)
        for world in {drawn(seed, run).world_size for run in runs}
    }

    def one(run: int) -> Result:
        draw = drawn(seed, run)
        first, run_dir = draw.faults[0], folder / f"run-{run:03d}"
        place = {"kind": first.kind, "phase": first.phase, "step": first.step}
        found = judged(run_dir, draw, wholes[draw.world_size])
        return {"run": run, "world_size": draw.world_size, **place, **found}

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(one, runs)


def in_a_row(folder: Path, seed: int, times: int) -> Result:
    """One job of two ranks, one of them killed in each of `times` attempts:
    what torchrun keeps from attempt to attempt is never renewed."""
    chance, faults = random.Random(f"in a row {seed}"), []
    for attempt in range(times):
        phase = chance.choice(COMPUTING + SAVING)
        rank = 0 if phase in PUBLISHING else chance.randrange(2)
        faults.append(Fault("kill", rank, attempt + 1, phase, attempt))
    every_step = {"max_steps": times + 1, "checkpoint_every_steps": 1}
    whole = undisturbed(folder / "row-undisturbed", 2, **every_step)
    draw = Draw(2, faults)
    return judged(folder / "row", draw, whole, times, **every_step)
