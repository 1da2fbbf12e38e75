"""Ranks that are killed when their time is up, forked from a server that has
torch loaded.

A rank starts in some 0.05 s where a spawned one takes over a second, and meets
the others in a file, since ports collide when two gradings run side by side.
"""

import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

SERVER = multiprocessing.get_context("forkserver")
# What a rank imports sooner or later: an optimizer's first step, or a dispatch
# mode, takes torch._dynamo, which is 3 s for each rank.
PRELOAD = ["__main__", "torch", "torch.distributed", "torch._dynamo"]
SERVER.set_forkserver_preload(PRELOAD)
LEAVE = 5  # seconds in which ranks that have answered may end by themselves
_UNTIL = ContextVar("_UNTIL", default=float("inf"))


class RankError(Exception):
    """A rank raised, died or ran out of time; the message has its traceback.

    `cause` is the error that it raised: its type's name and its text.
    """

    def __init__(self, text: str, cause: tuple[str, str] = ("", "")) -> None:
        super().__init__(text)
        self.cause = cause


class OutOfTimeError(RankError):
    """Ranks had not answered when their `seconds` were over."""

    def __init__(self, text: str, seconds: float) -> None:
        super().__init__(text)
        self.seconds = seconds


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Within it, all ranks that are waited for get `seconds` together, whatever
    timeout each of them is given."""
    until = min(_UNTIL.get(), time.monotonic() + seconds)
    before = _UNTIL.set(until)
    try:
        yield
    finally:
        _UNTIL.reset(before)


class Ranks:
    """`world` processes that run `work(*args)` as the ranks of one group."""

    context: Any = SERVER  # how they are started

    def __init__(
        self, world: int, work: Callable[..., Any], *args: Any
    ) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="ranks-")
        path = str(Path(self.folder.name) / "store")
        self.pipes: list[Connection] = []
        self.processes = []
        for rank in range(world):
            mine, theirs = self.context.Pipe(duplex=False)
            process = self.context.Process(
                target=_rank, args=(rank, world, path, theirs, work, args)
            )
            process.start()
            theirs.close()
            self.pipes.append(mine)
            self.processes.append(process)

    def results(self, timeout: float = 60) -> list[Any]:
        """Return each rank's result, in order. Raise RankError if a rank fails.

        Args:
            timeout: seconds until OutOfTimeError; fewer within `at_most`.
        """
        timeout = max(0, min(timeout, _UNTIL.get() - time.monotonic()))
        deadline = time.monotonic() + timeout
        got: dict[int, Any] = {}
        try:
            while len(got) < len(self.pipes):
                open_pipes = [
                    pipe for i, pipe in enumerate(self.pipes) if i not in got
                ]
                ready = wait(open_pipes, max(0, deadline - time.monotonic()))
                if not ready:
                    missing = sorted(set(range(len(self.pipes))) - set(got))
                    told = f"no answer from {missing} in {timeout:.3g} s"
                    raise OutOfTimeError(told, timeout)
                failed = []
                for pipe in ready:
                    rank = self.pipes.index(pipe)  # type: ignore[arg-type]
                    try:
                        failure, got[rank], at = self.pipes[rank].recv()
                    except EOFError:
                        raise RankError(f"rank {rank} died") from None
                    if failure:
                        failed.append((at, rank, failure))
                if failed:  # the others lost the connection to the first
                    _, rank, failure = min(failed)
                    raise RankError(f"rank {rank}:\n{failure}", got[rank])
            deadline = time.monotonic() + LEAVE
            for process in self.processes:
                process.join(max(0, deadline - time.monotonic()))
            return [got[rank] for rank in range(len(self.pipes))]
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL to whatever still runs."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()
        self.folder.cleanup()


def store() -> dist.Store:
    """Return the store where this rank meets the others."""
    return dist.FileStore(
        os.environ["RANKS_STORE"], int(os.environ["WORLD_SIZE"])
    )


def _rank(
    rank: int,
    world: int,
    path: str,
    pipe: Connection,
    work: Callable[..., Any],
    args: tuple[Any, ...],
) -> None:
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "RANKS_STORE": path,
    }
    # A process from the server inherits its start method; a rank that was
    # launched starts its loader workers as the platform does.
    multiprocessing.set_start_method("fork", force=True)
    torch.set_num_threads(1)
    answer: tuple[str, Any]
    try:
        answer = ("", work(*args))
    except BaseException as error:
        cause = type(error).__name__, str(error)
        answer = (traceback.format_exc(), cause)
    pipe.send((*answer, time.monotonic()))
