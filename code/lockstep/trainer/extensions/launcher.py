"""What torchrun leaves to its ranks: a store to trust, and how to end."""

import hashlib
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import torch.distributed as dist


def store_of_this_launch() -> dist.Store:
    """Return the store where this launch's ranks meet, or a private store."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return dist.HashStore()
    return untouched(*next(dist.rendezvous("env://")))


def untouched(store: dist.Store, rank: int, world_size: int) -> dist.Store:
    """Return a part of `store` that only this launch's ranks write to.

    torchrun keeps one TCPStore for all its restarts, and what the ranks that
    died wrote lies in it still. Its count of restarts does not tell launches
    apart: each agent has its own, and one that joins late begins at 0
    (https://github.com/pytorch/pytorch/issues/135712). So every rank signs
    with a name that is new, and reads all. A list of names is good once every
    rank has confirmed it: nobody confirms one without its own new name.

    Raises TimeoutError if that takes longer than the store's own timeout.
    """
    keys = [f"rank-{other}" for other in range(world_size)]
    store.set(keys[rank], uuid.uuid4().hex)
    limit = store.timeout.total_seconds()  # type: ignore[attr-defined]
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        names = b" ".join(store.get(key) for key in keys)
        launch = hashlib.sha256(names).hexdigest()
        store.set(f"{launch}-{rank}", "")
        if store.check([f"{launch}-{other}" for other in range(world_size)]):
            return dist.PrefixStore(launch, store)
        time.sleep(0.02)
    raise TimeoutError(f"not all of the {world_size} ranks have come")


def end_with_parent() -> None:
    """Exit when this process's parent is gone.

    SIGKILL takes no children along, and sessions of their own keep torchrun's
    ranks out of its process group: they would train on, with nobody to restart
    or stop them.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def let_rank_0_speak() -> None:
    """Stay a while, so that rank 0 can say what is wrong with the launch.

    torchrun ends every rank as soon as one has left: this one, once rank 0 has
    spoken; but rank 0 too, unheard, if this one were first.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(30)


def wait_for_threads(seconds: float = 2.0) -> None:
    """Wait until all other threads of this process are at rest, so that Python
    can shut down: at most so many seconds, and on Linux only.

    A thread of gloo drops its last reference to a tensor a moment after the
    collective is done, and takes the interpreter's lock for it. Where that
    comes during finalization the process aborts, its work all done. A thread
    that has yet to do so is running, or ready to.
    """
    deadline, at_rest = time.monotonic() + seconds, 0
    while at_rest < 3 and time.monotonic() < deadline:
        time.sleep(0.005)  # without the lock
        at_rest = 0 if states_of_other_threads() & {"R", "D"} else at_rest + 1


def states_of_other_threads() -> set[str]:
    """As Linux names them: R runs or is ready to, D waits for a disk."""
    states, me = set(), str(threading.get_native_id())
    for task in Path("/proc/self/task").glob("*"):
        with suppress(OSError):  # it has ended
            if task.name != me:
                text = (task / "stat").read_text()
                states.add(text.rpartition(")")[2].split()[0])
    return states


def leave(code: int) -> NoReturn:
    """End this process now, without finalizing the interpreter, so that no
    thread can abort it: see `wait_for_threads`."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run_and_leave(main: Callable[[], int | None]) -> NoReturn:
    """Run `main`, and leave with the code that it returns; with 1 and the
    traceback, should it raise."""
    try:
        code = main() or 0
    except Exception:
        sys.excepthook(*sys.exc_info())
        code = 1
    leave(code)
