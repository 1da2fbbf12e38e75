"""Finding a hang: who, in which phase, and every thread's stack."""

import faulthandler
import os
import threading
import time
from pathlib import Path
from typing import Any

from ..telemetry import Observer, emit
from .timers import PhaseTimers

EXIT_CODE = 70  # EX_SOFTWARE


class Watchdog(Observer):
    """Ends this process when no phase has begun or ended for `seconds`.

    It names the phase in an event, writes all stacks of this rank to
    `RUN/stacks/` and exits by itself: a hung rank may never handle a signal.
    """

    def __init__(
        self,
        run_dir: Path,
        attempt: int,
        rank: int,
        seconds: float,
        timers: PhaseTimers,
    ) -> None:
        self.path = run_dir / "stacks" / f"attempt-{attempt}-rank-{rank}.txt"
        self.seconds, self.timers = seconds, timers
        self.over = threading.Event()
        threading.Thread(
            target=self.watch, name="watchdog", daemon=True
        ).start()

    def event(self, record: dict[str, Any]) -> None:
        if record["event"] in ("run_finished", "run_stopped"):
            self.over.set()

    def left(self) -> float:
        """Seconds until the newest phase will have lasted too long."""
        return self.timers.newest[1] + self.seconds - time.perf_counter()

    def watch(self) -> None:
        while (left := self.left()) > 0:
            if self.over.wait(left):
                return
        self.path.parent.mkdir(exist_ok=True)
        with self.path.open("w") as file:
            faulthandler.dump_traceback(file)
        emit("hang", phase=self.timers.newest[0], seconds=self.seconds)
        os._exit(EXIT_CODE)
