"""Finding a hang: which rank, in which phase, and every rank's stacks."""

import faulthandler
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Protocol

import torch.distributed as dist

from ..telemetry import Observer, emit

EXIT_CODE = 70  # EX_SOFTWARE
LOOK_SECONDS = 0.25  # from one look at the clock and the store to the next
WAIT_SECONDS = 5.0  # at most, for the other ranks' stacks


class Clock(Protocol):
    """Who knows what was done last: the timers of phases, for one."""

    newest: tuple[str, float]  # its name, and when, by `perf_counter`


class Watchdog(Observer):
    """Ends all ranks when, on one, no phase has begun or ended for `seconds`.

    The rank that finds it says so in the store, where a thread of every rank
    looks. Each writes its stacks to `RUN/stacks/` and its phase into an event
    and into the store; it waits a moment until all have, says what they said
    and who is silent, and exits by itself: a hung rank may never handle a
    signal.

    The store or the disk may be what hangs: a timer exits whatever they do.
    While C code keeps Python's lock no thread of ours runs at all: a timer of
    faulthandler's, which needs no lock, then writes the stacks and exits with
    code 1.
    """

    def __init__(
        self,
        run_dir: Path,
        attempt: int,
        rank: int,
        world_size: int,
        seconds: float,
        timers: Clock,
        store: dist.Store,
        held: ExitStack,
    ) -> None:
        self.path = run_dir / "stacks" / f"attempt-{attempt}-rank-{rank}.txt"
        self.path.parent.mkdir(exist_ok=True)
        self.file = self.path.open("w")  # faulthandler cannot open it later
        self.rank, self.seconds, self.timers = rank, seconds, timers
        # By a connection of its own: on a shared one, whoever waits for a key
        # makes the others wait as well.
        self.store = store.clone()  # type: ignore[attr-defined]
        self.ranks = range(world_size)
        self.said: dict[int, str] = {}  # by rank: its phase, once one hangs
        self.elsewhere: dict[str, Any] = {}  # who found a hang, and where
        self.over = threading.Event()
        self.look = min(LOOK_SECONDS, seconds)
        # Later than the others find out: a rank that is gone fails their
        # collectives, and they would leave before they have said anything.
        self.patience = seconds + WAIT_SECONDS
        self.put_off(self.patience)
        watching = background(self.watch)
        listening = background(self.listen)

        def close() -> None:
            self.over.set()
            watching.join()
            listening.join(WAIT_SECONDS)  # or Python aborts as it shuts down
            self.file.close()
            self.path.unlink()

        held.callback(close)

    def put_off(self, seconds: float) -> None:
        """In `seconds` faulthandler's timer strikes, unless put off again."""
        faulthandler.dump_traceback_later(seconds, exit=True, file=self.file)

    def watch(self) -> None:
        while not self.over.wait(self.look):
            self.put_off(self.patience)
            phase, since = self.timers.newest
            if self.elsewhere:
                self.give_up("hang_elsewhere", phase, **self.elsewhere)
            elif time.perf_counter() - since > self.seconds:
                self.give_up("hang", phase, seconds=self.seconds)
        faulthandler.cancel_dump_traceback_later()

    def listen(self) -> None:
        with suppress(RuntimeError):  # the store is gone
            while not self.over.wait(self.look):
                if self.store.check(["hang"]):
                    self.elsewhere = json.loads(self.store.get("hang"))
                    return

    def give_up(self, event: str, phase: str, **fields: Any) -> None:
        late = threading.Timer(2 * WAIT_SECONDS, os._exit, (EXIT_CODE,))
        late.daemon = True
        late.start()
        self.put_off(3 * WAIT_SECONDS)
        faulthandler.dump_traceback(self.file)
        emit(event, phase=phase, **fields)
        background(lambda: self.ask(phase)).join(WAIT_SECONDS)
        said = self.said.copy()
        silent = [rank for rank in self.ranks if rank not in said]
        emit("hang_phases", phases=said, silent=silent)
        os._exit(EXIT_CODE)

    def ask(self, phase: str) -> None:
        """Say in the store that one hangs, and take down what each rank says
        of its phase, until all have."""
        found = json.dumps({"found_by": self.rank, "found_in": phase})
        self.said[self.rank] = phase
        with suppress(RuntimeError):
            self.store.compare_set("hang", "", found)
            self.store.set(f"phase-{self.rank}", phase)
            while missing := [r for r in self.ranks if r not in self.said]:
                for rank in missing:
                    if self.store.check([f"phase-{rank}"]):
                        answer = self.store.get(f"phase-{rank}")
                        self.said[rank] = answer.decode()
                time.sleep(0.05)


def background(work: Callable[[], None]) -> threading.Thread:
    """`work`, under way in a thread that keeps no process alive."""
    thread = threading.Thread(target=work, name="watchdog", daemon=True)
    thread.start()
    return thread
