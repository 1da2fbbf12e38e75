"""Leaving in time: SIGTERM saves a checkpoint and gives the machine back."""

import os
import signal
import threading
import time
from contextlib import ExitStack, suppress

import torch.distributed as dist

from ..telemetry import Observer, emit
from .launcher import leave

EXIT_CODE = 75  # EX_TEMPFAIL: launch again (torchrun itself then reports 1)
GRACE_SECONDS = 5.0
POLL_SECONDS = 0.2
# Keys of the store: set by the first rank that was told; the number of ranks
# that look after each step; the step after which all of them leave.
PREEMPTED, WATCHING, LAST_STEP = "preempted", "looking", "leave"


class Preemption(Observer):
    """On SIGTERM to any rank, all ranks finish the same step, save and leave.

    A rank that was told says so in the store, where a thread of every rank
    looks a few times a second. From then on every rank looks after each of its
    steps, and counts itself among those who do. Once that is all of them, one
    writes the next step into the store as the last, before it joins that step:
    nobody gets past its all-reduce alone, so none can miss it.

    A rank that cannot finish that step leaves all the same: at once when its
    collective fails, since another rank is gone; GRACE_SECONDS after SIGTERM
    when it hangs or steps are slow, though a checkpoint being published is let
    be. That takes a thread: Python runs a handler when the main thread next
    runs Python, and a rank that waits in a collective may never do so. The
    interpreter's wake-up pipe is written to at once.
    """

    phases = ("checkpoint",)

    def __init__(
        self, store: dist.Store, world_size: int, held: ExitStack
    ) -> None:
        self.store, self.world_size = store, world_size
        self.alert, self.idle = threading.Event(), threading.Event()
        self.counted = False
        self.idle.set()
        signals, wake_up = os.pipe()
        os.set_blocking(wake_up, False)
        signal.set_wakeup_fd(wake_up)
        signal.signal(signal.SIGTERM, lambda *_: None)
        threading.Thread(
            target=self.listen, args=(signals,), daemon=True
        ).start()
        polling = threading.Thread(target=self.poll, daemon=True)
        polling.start()

        def close() -> None:
            """Stop the thread: in the store while Python shuts down, it would
            abort the process."""
            self.alert.set()
            polling.join(GRACE_SECONDS)

        held.callback(close)  # called after `fail`, which asks for the alert
        held.push(self.fail)

    def listen(self, signals: int) -> None:
        while os.read(signals, 1) != bytes([signal.SIGTERM]):
            pass
        self.alert.set()
        time.sleep(GRACE_SECONDS)
        self.idle.wait()
        os._exit(EXIT_CODE)

    def poll(self) -> None:
        """By a thread of its own: a store that hangs must not hide SIGTERM."""
        with suppress(RuntimeError):  # it is gone, and nobody can be told
            while not self.alert.wait(POLL_SECONDS):
                if self.store.check([PREEMPTED]):
                    self.alert.set()

    def fail(self, _: object, error: BaseException | None, *__: object) -> None:
        """End the launch, with `error` if it isn't None."""
        if isinstance(error, RuntimeError) and self.alert.is_set():
            emit("preempted_midway", reason=str(error))
            leave(EXIT_CODE)

    def begin(self, phase: str) -> None:
        self.idle.clear()

    def end(self, phase: str) -> None:
        self.idle.set()

    def wants_stop(self, step: int) -> bool:
        if not self.alert.is_set():
            return False
        if not self.counted:
            self.join_watch(step)
        if self.store.check([LAST_STEP]):
            return step >= int(self.store.get(LAST_STEP))
        if self.store.add(WATCHING, 0) == self.world_size:
            self.store.compare_set(LAST_STEP, "", str(step + 1))
        return False

    def join_watch(self, step: int) -> None:
        """Tell the other ranks, and look after each step from now on."""
        self.store.set(PREEMPTED, "")
        self.store.add(WATCHING, 1)
        self.counted = True
        emit("preempted", step=step)
