"""What torchrun leaves to its ranks: a store to trust, and how to end."""

import os
import signal
import sys
import threading
import time
from typing import NoReturn

import torch.distributed as dist


def store_of_this_launch() -> dist.Store:
    """The store that this launch's ranks meet in; our own, if we are alone.

    torchrun keeps one TCPStore for all its restarts, and the keys of the ranks
    that died lie in it still: a restart needs keys of its own.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return dist.HashStore()
    store, *_ = next(dist.rendezvous("env://"))
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"restart-{restart}", store)


def end_with_parent() -> None:
    """Exit when this process's parent is gone.

    torchrun starts its ranks in sessions of their own, so a SIGKILL that
    reaches torchrun alone would leave them training, with nobody to restart
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


def leave(code: int) -> NoReturn:
    """End this process now, without finalising the interpreter.

    A thread of gloo drops its last reference to a tensor a moment after the
    collective is done, and takes the interpreter's lock for it. Where that
    comes during finalisation the process aborts, its work all done: torch 2.13
    on a busy machine, one short run in some twenty.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
