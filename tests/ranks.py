"""Real ranks for tests: processes forked from a server that has torch loaded.

A rank starts in some 0.05 s where a spawned one takes over a second, meets the
others in a file (ports collide when tests run side by side), and is killed
when its time is up.
"""

import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

# What a rank imports that is not ours, until its first checkpoint.
PRELOAD = [
    "torch",
    "torch.distributed",
    "torch.nn.parallel",
    "torch.optim",
    "torch.distributed.checkpoint.staging",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.fsdp",
    "torch._dynamo",  # an optimizer's first step imports it
    "sklearn.datasets",
    "safetensors.torch",
    "tyro",
    "rich.progress",
]
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(PRELOAD)


class RankError(Exception):
    """A rank raised, died or ran out of time; the message has its traceback."""


class Ranks:
    """`world` processes that run `work(*args)` as the ranks of one group."""

    def __init__(
        self, world: int, work: Callable[..., Any], *args: Any
    ) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="ranks-")
        store = str(Path(self.folder.name) / "store")
        self.pipes: list[Connection] = []
        self.processes = []
        for rank in range(world):
            mine, theirs = SERVER.Pipe(duplex=False)
            process = SERVER.Process(
                target=_rank, args=(rank, world, store, theirs, work, args)
            )
            process.start()
            theirs.close()
            self.pipes.append(mine)
            self.processes.append(process)

    def results(self, timeout: float = 60) -> list[Any]:
        """What each rank returned, in order. RankError as soon as one fails."""
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
                    raise RankError(f"no answer from {missing} in {timeout} s")
                for pipe in ready:
                    rank = self.pipes.index(pipe)  # type: ignore[arg-type]
                    try:
                        failure, got[rank] = self.pipes[rank].recv()
                    except EOFError:
                        raise RankError(f"rank {rank} died") from None
                    if failure:
                        raise RankError(f"rank {rank}:\n{failure}")
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


def run_ranks(
    world: int, work: Callable[..., Any], *args: Any, timeout: float = 60
) -> list[Any]:
    """`work(*args)` on `world` ranks; what each returned."""
    return Ranks(world, work, *args).results(timeout)


def store() -> dist.Store:
    """The store in which this test's ranks meet."""
    return dist.FileStore(
        os.environ["TEST_STORE"], int(os.environ["WORLD_SIZE"])
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
        "TEST_STORE": path,
    }
    # A process from the server inherits its start method; a rank that was
    # launched starts its loader workers as the platform does.
    multiprocessing.set_start_method("fork", force=True)
    torch.set_num_threads(1)
    answer: tuple[str, Any]
    try:
        answer = ("", work(*args))
    except BaseException:
        answer = (traceback.format_exc(), None)
    _save_coverage()
    pipe.send(answer)


def _save_coverage() -> None:
    """A forked rank leaves by os._exit, past the hook that would save."""
    try:
        from coverage import Coverage
    except ImportError:
        return
    if measuring := Coverage.current():
        measuring.stop()
        measuring.save()
