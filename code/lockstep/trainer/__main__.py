"""`torchrun … -m lockstep.trainer`: the core, with its rooms wired in."""

import io
import os
import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from typing import Any

import torch.distributed as dist
import tyro
from rich.console import Console

from .config import ConfigError, TrainConfig
from .extensions.events import EventLog
from .extensions.launcher import (
    end_with_parent,
    leave,
    let_rank_0_speak,
    store_of_this_launch,
)
from .extensions.preemption import EXIT_CODE, Preemption
from .extensions.progress import ProgressBar
from .extensions.record import SampleRecord
from .extensions.run_directory import Identity, claimed
from .extensions.timers import PhaseTimers
from .extensions.watchdog import Watchdog
from .loop import run
from .model import DataParallel
from .process import joined
from .telemetry import Observer, attach


def launch(cfg: TrainConfig, store: dist.Store | None = None) -> dict[str, Any]:
    """Run `cfg` as this rank, every room attached; returns the last event.

    Raises ConfigError, on every rank alike, for what cannot be run.
    """
    strategy = DataParallel()
    store = store or store_of_this_launch()
    with (
        # Twice: the watchdog comes first, and says who waits and where.
        joined(2 * cfg.timeout_seconds, store) as me,
        claimed(cfg, me) as claim,
        ExitStack() as held,
    ):
        cfg, attempt, run_id = claim
        place = cfg.run_dir, attempt, me.rank
        timers = PhaseTimers(me.device, strategy, cfg.log_every_steps)
        rooms: list[Observer] = [
            timers,
            SampleRecord(*place),
            Preemption(store, me.world_size),
            Watchdog(*place, cfg.timeout_seconds, timers),
            EventLog(*place, run_id),
        ]
        console = Console(stderr=True)
        if me.rank == 0:
            rooms.append(Identity(claim))
            if console.is_terminal:
                rooms.append(bar := ProgressBar(console))
                held.callback(bar.close)
        attach(*rooms)
        return run(cfg, me, attempt, strategy)


def main(args: list[str] | None = None) -> int:
    """The command line; the exit code is 2 for settings that cannot be."""
    first = os.environ.get("RANK", "0") == "0"
    if dist.is_torchelastic_launched():
        end_with_parent()
    said = io.StringIO()
    try:
        if first:
            cfg = tyro.cli(TrainConfig, args=args, prog="lockstep.trainer")
        else:  # rank 0 speaks for all
            with redirect_stderr(said), redirect_stdout(said):
                cfg = tyro.cli(TrainConfig, args=args)
        last = launch(cfg)
    except (SystemExit, ConfigError) as stop:
        if isinstance(stop, SystemExit):  # tyro has spoken: an error, or help
            code = int(stop.code or 0)
        else:
            code = 2
            print(f"error: {stop}", file=sys.stderr if first else said)
        if code and not first:
            let_rank_0_speak()
        return code
    if last["event"] == "run_stopped":
        return EXIT_CODE
    if first:
        print(
            f"step {last['step']}, loss {last['loss']:.2f},"
            f" accuracy {last['accuracy']:.0%},"
            f" weights {last['weights_sha256'][:16]}"
        )
    return 0


if __name__ == "__main__":
    leave(main())
