"""`torchrun … -m lockstep.trainer`: the core with its extensions."""

import io
import os
import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import torch.distributed as dist
import tyro
from rich.console import Console

from .config import ConfigError, TrainConfig
from .extensions.events import EventLog
from .extensions.faults import Faults
from .extensions.launcher import (
    end_with_parent,
    let_rank_0_speak,
    run_and_leave,
    store_of_this_launch,
)
from .extensions.options import Options
from .extensions.preemption import EXIT_CODE, Preemption
from .extensions.progress import Notices, ProgressBar
from .extensions.record import SampleRecord
from .extensions.run_directory import Identity, claimed
from .extensions.task_check import check_task
from .extensions.timers import PhaseTimers
from .extensions.watchdog import Watchdog
from .loop import run
from .process import joined, on_rank0
from .telemetry import Observer, attach

Unprefixed = tyro.conf.arg(name="")
APPEND = (tyro.conf.UseAppendAction,)  # --fault A --fault B


@dataclass(frozen=True)
class Command:
    """Train, or resume the run in --run-dir."""

    run: Annotated[TrainConfig, Unprefixed]
    options: Annotated[Options, Unprefixed]


def launch(
    cfg: TrainConfig,
    store: dist.Store | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> dict[str, Any]:
    """Run `cfg` as this rank with all extensions; return the last event.

    Raises ConfigError, on every rank, for settings that cannot be run.
    """
    store = store or store_of_this_launch()
    with (
        # Twice: the watchdog comes first, and says who waits and where.
        joined(2 * cfg.timeout_seconds, store) as me,
        claimed(cfg, me) as claim,
        ExitStack() as held,
    ):
        cfg, attempt, run_id = claim
        if cfg.task and not attempt:  # later launches have seen it train
            on_rank0(lambda: check_task(cfg, me.device))
        place = cfg.run_dir, attempt, me.rank
        strategy = options.make_strategy(me)
        timers = PhaseTimers(me.device, strategy, cfg.log_every_steps)
        rooms: list[Observer] = [
            timers,
            SampleRecord(*place),
            Preemption(store, me.world_size, held),
            Watchdog(
                *place, me.world_size, cfg.timeout_seconds, timers, store, held
            ),
            EventLog(*place, run_id, asdict(options)),
        ]
        console = Console(stderr=True)
        if me.rank == 0:
            rooms.append(Identity(claim))
            if console.is_terminal:
                rooms.append(bar := ProgressBar(console))
                held.callback(bar.close)
            else:
                rooms.append(Notices())
        if options.fault:
            rooms.append(Faults(options.fault, cfg, me, attempt, strategy))
        attach(*rooms)
        return run(cfg, me, attempt, strategy, options.make_writer())


def main(args: list[str] | None = None) -> int:
    """Run the command line, and return 2 for invalid settings."""
    first = os.environ.get("RANK", "0") == "0"
    if dist.is_torchelastic_launched():
        end_with_parent()
    said = io.StringIO()
    try:
        if first:
            command = tyro.cli(
                Command, args=args, prog="lockstep.trainer", config=APPEND
            )
        else:  # rank 0 speaks for all
            with redirect_stderr(said), redirect_stdout(said):
                command = tyro.cli(Command, args=args, config=APPEND)
        last = launch(command.run, options=command.options)
    except (SystemExit, ConfigError) as stop:
        if isinstance(stop, SystemExit):  # tyro has spoken: an error, or help
            code = int(stop.code or 0)
        else:
            code = 2
            print(f"error: {stop}", file=sys.stderr if first else said)
        if code and not first:
            let_rank_0_speak()
        return code
    except OSError as error:  # above all: no space for the last checkpoint
        if not first:  # the others have the same to say
            let_rank_0_speak()
        stays = "what is published stays, and the next launch goes on from it"
        print(f"error: {error}; {stays}", file=sys.stderr)
        return 1
    if last["event"] == "run_stopped":
        return EXIT_CODE
    if first:
        print(summary(last))
    return 0


def summary(last: dict[str, Any]) -> str:
    """Return the last event in a line: loss, the task's metrics, weights."""
    numbers = [
        f"{name} {value:{'.0%' if name == 'accuracy' else '.2f'}}"
        for name, value in last.items()
        if isinstance(value, float) and name != "time"
    ]
    weights = last["weights_sha256"][:16]
    return ", ".join([f"step {last['step']}", *numbers, f"weights {weights}"])


if __name__ == "__main__":
    run_and_leave(main)
