"""Leaving in time: SIGTERM saves a checkpoint and gives the machine back."""

import os
import signal
import threading
import time

import torch.distributed as dist

from ..telemetry import Observer, emit

EXIT_CODE = 75  # EX_TEMPFAIL: launch again (torchrun itself then reports 1)
GRACE_SECONDS = 5.0


class Preemption(Observer):
    """On SIGTERM to any rank, all ranks finish the same step, save and leave.

    A rank that was told writes the step to leave at into the store before it
    joins the step before that; every rank looks there before each step. All
    ranks must pass that step's all-reduce to get further, so none can miss it.

    A rank that cannot finish its step, since another one hangs or is gone,
    ends itself after GRACE_SECONDS; a checkpoint being published is let be.
    That takes a thread: Python runs a handler when the main thread next runs
    Python, and a rank that waits in a collective may never do so. The
    interpreter's wake-up pipe is written to at once.
    """

    def __init__(self, store: dist.Store) -> None:
        self.store = store
        self.told, self.idle = threading.Event(), threading.Event()
        self.idle.set()
        signals, wake_up = os.pipe()
        os.set_blocking(wake_up, False)
        signal.set_wakeup_fd(wake_up)
        signal.signal(signal.SIGTERM, lambda *_: None)
        threading.Thread(
            target=self.listen, args=(signals,), daemon=True
        ).start()

    def listen(self, signals: int) -> None:
        while os.read(signals, 1) != bytes([signal.SIGTERM]):
            pass
        self.told.set()
        time.sleep(GRACE_SECONDS)
        self.idle.wait()
        os._exit(EXIT_CODE)

    def begin(self, phase: str) -> None:
        if phase == "checkpoint":
            self.idle.clear()

    def end(self, phase: str) -> None:
        if phase == "checkpoint":
            self.idle.set()

    def wants_stop(self, step: int) -> bool:
        if self.store.check(["leave"]):
            return step >= int(self.store.get("leave"))
        if self.told.is_set():
            self.store.compare_set("leave", "", str(step + 1))
            emit("preempted", step=step)
        return False
