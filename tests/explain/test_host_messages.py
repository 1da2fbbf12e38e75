"""Messages that a CPU can raise: torch and Python still word them as the data
files of launchers, loaders, checkpoints and hosts say."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing import Pipe, get_context
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed import TCPStore, rendezvous, run
from torch.distributed.elastic.multiprocessing import (
    DefaultLogsSpecs,
    start_processes,
)
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.registry import (
    get_rendezvous_handler,
)
from torch.utils.data import DataLoader

from lockstep.explain.patterns import Pattern
from lockstep.site.pages import errors

MODULE = "tests/explain/test_host_messages.py"
SECOND = timedelta(seconds=1)

pytestmark = [pytest.mark.filterwarnings("ignore")]

MESSAGES = {one.id: one for found in errors.groups().values() for one in found}


def matches(name: str, printed: str) -> bool:
    """Whether a line is what the first pattern of a message looks for."""
    pattern = Pattern(MESSAGES[name].patterns[0])
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    return any(pattern.match(line) is not None for line in lines)


def raised(act: Callable[[], Any]) -> str:
    """The traceback of what an action raises."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - read below
        act()
    return "".join(traceback.format_exception(caught.value))


class Samples:
    """A dataset whose samples are what a function returns."""

    def __init__(self, sample: Callable[[int], Any]) -> None:
        self.sample = sample

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return self.sample(index)


def load(sample: Callable[[int], Any], **options: Any) -> str:
    """What a loader with one worker raises."""
    loader = DataLoader(Samples(sample), **{"num_workers": 1} | options)
    return raised(lambda: list(loader))


def dies(number: int) -> Callable[[int], Any]:
    """A sample that ends its worker by a signal."""
    return lambda _: os.kill(os.getpid(), number)


def fails(_: int) -> None:
    """A sample that can't be read."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


class Config:
    """A class that a checkpoint should not have."""


def load_saved(state: Any, folder: Path) -> str:
    """What `torch.load` raises for a saved object."""
    torch.save(state, folder / "saved.pt")
    return raised(lambda: torch.load(folder / "saved.pt"))


def load_bytes(given: bytes, folder: Path) -> str:
    """What `torch.load` raises for a file of these bytes."""
    (folder / "given.pt").write_bytes(given)
    return raised(lambda: torch.load(folder / "given.pt"))


def load_half(folder: Path) -> str:
    """What `torch.load` raises for half a checkpoint."""
    torch.save(torch.zeros(10_000), folder / "whole.pt")
    whole = (folder / "whole.pt").read_bytes()
    return load_bytes(whole[: len(whole) // 2], folder)


def load_from_gpu(folder: Path) -> str:
    """What `torch.load` raises where the checkpoint's GPU isn't there."""
    tag = torch.serialization.location_tag
    torch.serialization.location_tag = lambda _: "cuda:0"
    try:
        torch.save(torch.zeros(1), folder / "gpu.pt")
    finally:
        torch.serialization.location_tag = tag
    return raised(lambda: torch.load(folder / "gpu.pt"))


def load_dcp(
    folder: Path,
    name: str = "a",
    size: int = 1_000,
    spoil: Callable[[Path], Any] = lambda data: None,
) -> str:
    """What DCP raises when it loads one tensor, and its data were spoiled."""
    dcp.save({"a": torch.zeros(1_000)}, checkpoint_id=folder)
    spoil(folder / "__0_0.distcp")
    state = {name: torch.zeros(size)}
    return raised(lambda: dcp.load(state, checkpoint_id=folder))


class Fork:
    """A copy of this process that runs an act: it needn't import torch again.

    Args:
        act: what it does; an exception is printed.
    """

    def __init__(self, act: Callable[[], Any]) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it
        self.process = get_context("fork").Process(
            target=self._run, args=(act,)
        )
        self.process.start()

    def _run(self, act: Callable[[], Any]) -> None:
        os.dup2(self.file.fileno(), 2)
        try:
            act()
        except BaseException:
            os.write(2, traceback.format_exc().encode())

    def await_file(self, path: Path) -> None:
        """Wait until the copy has written a file."""
        while not path.exists():
            assert self.process.is_alive()
            time.sleep(0.01)

    def end(self, number: int = 0) -> str:
        """Return what the copy printed on standard error, after a signal."""
        assert self.process.pid
        os.kill(self.process.pid, number)
        self.process.join()
        with self.file:
            self.file.seek(0)
            return self.file.read().decode()


def free_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def taken_port() -> str:
    """What a second store on one port raises."""
    with socket.socket() as one:
        one.bind(("", 0))
        one.listen()
        port = one.getsockname()[1]
        return raised(lambda: TCPStore("127.0.0.1", port, 1, True, SECOND))


def lone_client() -> str:
    """What a client raises without a store."""
    port = free_port()
    return raised(lambda: TCPStore("127.0.0.1", port, 2, False, SECOND))


def missing_key() -> str:
    """What a store raises when nobody writes a key."""
    store = TCPStore("127.0.0.1", 0, 1, True, SECOND)
    return raised(lambda: store.wait(["rank3"], SECOND))


def missing_rank() -> str:
    """What the store's host raises when a rank doesn't come."""
    return raised(lambda: TCPStore("127.0.0.1", 0, 2, True, SECOND))


def lost_store(folder: Path) -> str:
    """What a client raises when the store's process is killed."""
    ready = folder / "port"

    def serve() -> None:
        store = TCPStore("127.0.0.1", 0, None, True)
        ready.with_suffix(".new").write_text(str(store.port))
        ready.with_suffix(".new").rename(ready)
        time.sleep(60)

    server = Fork(serve)
    server.await_file(ready)
    port = int(ready.read_text())
    store = TCPStore("127.0.0.1", port, None, False, SECOND * 20)
    server.end(signal.SIGKILL)
    return raised(lambda: store.get("key"))


def no_launcher() -> str:
    """What a script raises that no launcher started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RANK", raising=False)
        return raised(lambda: next(rendezvous("env://")))


def with_files(act: Callable[[], Any]) -> str:
    """What an act prints that may open some 48 files."""

    def limited() -> None:
        most = len(list(Path("/dev/fd").iterdir())) + 48
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        act()

    return Fork(limited).end()


def keep_batches() -> None:
    """Keep all batches of a loader, and with each of them an open file."""
    list(DataLoader(torch.zeros(999, 1), num_workers=1))


def send_handles() -> None:
    """Send open files between processes, and keep them."""
    ours, theirs = Pipe()
    for _ in range(199):
        send_handle(theirs, 0, None)
        recv_handle(ours)


def share_tensors() -> None:
    """Keep tensors in shared memory, each with an open file."""
    assert [torch.zeros(1).share_memory_() for _ in range(199)]


def crash() -> str:
    """What Python prints when native code crashes."""
    script = "import os; os.kill(os.getpid(), 11)"
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", script],
        capture_output=True,
        text=True,
    ).stderr


def unknown_host() -> str:
    """What Python raises for a name that no name server answers."""
    words = ctypes.CDLL(None).gai_strerror
    words.restype = ctypes.c_char_p
    error = socket.gaierror(socket.EAI_AGAIN, words(socket.EAI_AGAIN).decode())
    return "".join(traceback.format_exception(error))


def start_thread() -> str:
    """What Python raises when the system has no room for a thread's stack."""
    before = threading.stack_size(1 << 46)
    try:
        return raised(lambda: threading.Thread(target=print).start())
    finally:
        threading.stack_size(before)


PYTHON: dict[str, Callable[[Path], str]] = {
    "environment-variable-rank-expected": lambda _: no_launcher(),
    "server-socket-failed-to-listen": lambda _: taken_port(),
    "client-socket-timed-out": lambda _: lone_client(),
    "store-wait-timeout-keys": lambda _: missing_key(),
    "waiting-for-clients-joined": lambda _: missing_rank(),
    "failed-to-recv-connection-closed": lost_store,
    "dataloader-worker-killed-by-signal": lambda _: load(dies(signal.SIGKILL)),
    "dataloader-worker-exited-unexpectedly": lambda _: load(
        dies(signal.SIGKILL)
    ),
    "dataloader-worker-exit-code": lambda _: load(lambda _: os._exit(3)),
    "unexpected-bus-error-in-worker": lambda _: load(dies(signal.SIGBUS)),
    "unexpected-segmentation-fault-in-worker": lambda _: load(
        dies(signal.SIGSEGV)
    ),
    "too-many-open-files-workers": lambda _: with_files(keep_batches),
    "received-0-items-of-ancdata": lambda _: with_files(send_handles),
    "caught-error-in-dataloader-worker": lambda _: load(fails),
    "dataloader-timed-out": lambda _: load(lambda _: time.sleep(2), timeout=1),
    "stack-expects-each-tensor-to-be-equal-size": lambda _: load(
        lambda index: torch.zeros(index + 1), num_workers=0, batch_size=2
    ),
    "unable-to-open-shared-memory-object": lambda _: with_files(share_tensors),
    "weights-only-load-failed": lambda path: load_saved(Config(), path),
    "unsupported-global-add-safe-globals": lambda path: load_saved(
        np.random.get_state(), path
    ),
    "weights-unpickler-unsupported-operand": lambda path: load_bytes(
        b"version https://git-lfs.github.com/spec/v1", path
    ),
    "failed-finding-central-directory": lambda path: load_dcp(
        path, spoil=lambda data: os.truncate(data, 99)
    ),
    "torch-load-invalid-argument": load_half,
    "torch-save-unexpected-pos": lambda _: raised(
        lambda: torch.save(torch.zeros(99_999), "/dev/full")
    ),
    "parent-directory-does-not-exist": lambda path: raised(
        lambda: torch.save(torch.zeros(1), path / "none" / "saved.pt")
    ),
    "attempting-to-deserialize-object-on-cuda": load_from_gpu,
    "missing-key-in-checkpoint-state-dict": lambda path: load_dcp(
        path, name="b"
    ),
    "size-mismatch-between-saved-and-current": lambda path: load_dcp(
        path, size=1_008
    ),
    "dcp-metadata-is-none": lambda path: load_dcp(
        path, spoil=lambda data: data.with_name(".metadata").unlink()
    ),
    "dcp-shard-file-missing": lambda path: load_dcp(path, spoil=Path.unlink),
    "checkpoint-exception-ranks": lambda path: load_dcp(path, name="b"),
    "default-cpu-allocator-cant-allocate-memory": lambda _: raised(
        lambda: torch.empty(1 << 50)
    ),
    "fatal-python-error-segmentation-fault": lambda _: crash(),
    "name-resolution-failed": lambda _: unknown_host(),
    "cant-start-new-thread": lambda _: start_thread(),
}


@pytest.mark.parametrize("name", PYTHON)
def test_python_message_matches(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The message that Python or torch prints is the one that the page and
    `lockstep explain` look for."""
    printed = PYTHON[name](tmp_path)
    assert matches(name, printed + capfd.readouterr().err)


ERRNOS = {
    "no-space-left-on-device": errno.ENOSPC,
    "disk-quota-exceeded": errno.EDQUOT,
    "stale-file-handle": errno.ESTALE,
    "input-output-error": errno.EIO,
    "read-only-file-system": errno.EROFS,
    "connection-reset-by-peer": errno.ECONNRESET,
    "too-many-open-files": errno.EMFILE,
    "network-is-unreachable": errno.ENETUNREACH,
}


@pytest.mark.parametrize("name", ERRNOS)
def test_errno_message_matches(name: str) -> None:
    """Python words the operating system's error as the page does."""
    error = OSError(ERRNOS[name], os.strerror(ERRNOS[name]), "/data/x")
    assert matches(name, "".join(traceback.format_exception(error)))


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What torchrun's process manager logs."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("torch.distributed.elastic.multiprocessing.api")
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


def workers(script: str, count: int = 2) -> Any:
    """Start workers of torchrun that run a shell script."""
    ranks = range(count)
    return start_processes(
        "train.py",
        "bash",
        dict.fromkeys(ranks, ("-c", script)),
        {rank: {"RANK": str(rank)} for rank in ranks},
        DefaultLogsSpecs(),
    )


FAILURES = {  # what the second worker does
    "root-cause-first-observed-failure": "kill -9 $$",
    "exitcode-minus-9-sigkill": "kill -9 $$",
    "exitcode-minus-11-sigsegv": "kill -11 $$",
    "exitcode-minus-6-sigabrt": "kill -6 $$",
    "exitcode-minus-7-sigbus": "kill -7 $$",
    "exitcode-minus-15-sigterm": "exit 1",
    "exitcode-1": "exit 1",
    "exitcode-137-or-139": "sh -c 'kill -9 $$'; exit $?",
    "sending-process-closing-signal": "exit 1",
}


@pytest.mark.parametrize("name", FAILURES)
def test_torchrun_report_matches(name: str, logged: list[str]) -> None:
    """When one of two workers ends so, torchrun's report has the line that the
    page and `lockstep explain` look for."""
    context = workers(
        f"if [ $RANK = 1 ]; then {FAILURES[name]}; fi; exec sleep 60"
    )
    try:
        result = context.wait(timeout=60, period=0.05)
    finally:
        context.close()
    assert result is not None
    report = str(ChildFailedError("train.py", result.failures))
    assert matches(name, "\n".join([*logged, report]))


def test_torchrun_kills_a_worker_that_ignores_sigterm(
    tmp_path: Path, logged: list[str]
) -> None:
    """A worker that ignores SIGTERM gets SIGKILL, and torchrun says so in the
    line that the page and `lockstep explain` look for."""
    ready = tmp_path / "ready"
    context = workers(
        f"trap '' TERM; touch {ready}; while :; do sleep 0.1; done", 1
    )
    while not ready.exists():
        time.sleep(0.01)
    context.close(timeout=1)
    assert matches("unable-to-shutdown-process", "\n".join(logged))


def test_torchrun_reports_its_own_signal(tmp_path: Path) -> None:
    """torchrun that is asked to stop says which signal it received."""
    ready = tmp_path / "ready"

    def launch() -> None:
        said = logging.Handler()
        said.emit = lambda one: os.write(2, f"{one.getMessage()}\n".encode())  # type: ignore[method-assign,assignment]
        name = "torch.distributed.elastic.agent.server.api"
        logging.getLogger(name).addHandler(said)
        given = ["--standalone", "--nproc-per-node=1", "--no-python", "bash"]
        run.main([*given, "-c", f"touch {ready}; exec sleep 60"])

    torchrun = Fork(launch)
    torchrun.await_file(ready)
    assert matches("received-death-signal", torchrun.end(signal.SIGTERM))


def meet(port: int, **options: int) -> str:
    """What a node raises that meets others at an endpoint."""
    parameters = RendezvousParameters(
        backend="c10d",
        endpoint=f"127.0.0.1:{port}",
        run_id=str(random.random()),
        min_nodes=2,
        max_nodes=2,
        **options,
    )
    return raised(lambda: get_rendezvous_handler(parameters).next_rendezvous())


MEETINGS: dict[str, Callable[[], str]] = {
    "rendezvous-timeout-error": lambda: meet(free_port(), join_timeout=1),
    "connection-to-c10d-store-has-failed": lambda: meet(
        free_port(), is_host=0, read_timeout=1
    ),
}


@pytest.mark.parametrize("name", MEETINGS)
def test_rendezvous_message_matches(name: str) -> None:
    """A node that finds no endpoint, or no second node, says so in the words
    that the page and `lockstep explain` look for."""
    assert matches(name, MEETINGS[name]())


def test_every_case_is_named_by_its_message() -> None:
    cases = {
        "test_python_message_matches": PYTHON,
        "test_errno_message_matches": ERRNOS,
        "test_torchrun_report_matches": FAILURES,
        "test_rendezvous_message_matches": MEETINGS,
    }
    named = {one.test for one in MESSAGES.values() if MODULE in one.test}
    bare = {test for test in named if "[" not in test}
    assert named - bare == {
        f"{MODULE}::{test}[{name}]"
        for test, names in cases.items()
        for name in names
    }
