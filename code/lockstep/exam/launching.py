"""Launch a trainer, see each of its steps, disturb it, and end it for sure."""

import ctypes
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from textwrap import shorten
from typing import Any, NamedTuple

import psutil

from .adapter import Adapter, Launch
from .names import ADDRESS, MARK

PR_SET_CHILD_SUBREAPER = 36  # of Linux
SLOWLY = 0.5  # seconds that a step takes after SIGTERM, or before a kill
MOMENT = 3.0  # seconds in which processes that have been told to end may do so


ERROR = re.compile(
    r"(\[rank\d+\]: )?(error\b|(?!.*ChildFailed)[\w.]*(Error|Exception): )"
)
LAUNCHER = re.compile(r"[EWI]\d{4} |Traceback ")  # torchrun


class Step(NamedTuple):
    """One optimizer step of one rank, as it told."""

    skipped: bool  # by a gradient scaler
    ids: tuple[int, ...]  # of the samples that it trained on
    before: dict[str, Any]  # digests of what it went in with
    after: str  # digest of the weights that came out
    norms: tuple[float, ...]  # of each parameter then
    drew: tuple[int, ...]  # from which generators, while it computed
    scale: float | None  # of the gradient scaler
    skips: int = 0  # steps that the scaler skipped just before this one
    earlier: int = 0  # the same, in the launch that this one's goes on from

    def random(self, generators: Container[int]) -> tuple[str, ...]:
        """The states of these `generators` that it went in with."""
        states = enumerate(self.before.get("random", ()))  # ABSENT has none
        return tuple(state for k, state in states if k in generators)


class Act(NamedTuple):
    """What the examiner does when a rank has taken its `step`-th step."""

    step: int
    do: str  # kill, terminate, hang, refuse or tear
    rank: int | None = 0  # whose step; None: each rank by itself
    bytes: int = 0  # from which on writes are refused or torn


@dataclass
class Ended:
    """A launch that is over."""

    words: list[str]  # how it was launched
    code: int = 0
    out_of_time: bool = False  # the examiner had to end it
    text: str = ""  # what it printed
    ranks: dict[int, list[Step]] = field(default_factory=dict)
    world: int = 0
    acted: list[str] = field(default_factory=list)
    seconds_after_act: float = 0.0

    @property
    def steps(self) -> list[Step]:
        """Rank 0's."""
        return self.ranks.get(0, [])

    @property
    def last_words(self) -> str:
        """What the trainer says of its end: its first error, or the line before
        the launcher speaks."""
        lines = [line.strip() for line in self.text.splitlines()]
        errors = [line for line in lines if ERROR.match(line)]
        own = [
            line
            for line in takewhile(lambda line: not LAUNCHER.match(line), lines)
            if line
        ]
        return shorten(([*errors, *own[-1:]] or [""])[0], 200, placeholder=" …")


class Launching:
    """A launch under way: its processes, and a thread for each that speaks."""

    def __init__(
        self,
        adapter: Adapter,
        launch: Launch,
        acts: list[Act],
        env: dict[str, str],
    ) -> None:
        self.acts, self.mark = acts, uuid.uuid4().hex
        self.started = adapter.start or started
        adopt_orphans()
        self.before = {p.pid for p in psutil.Process().children()}
        self.ended = Ended(adapter.command(launch))
        self.lock = threading.Lock()
        self.told: dict[int, list[Step]] = defaultdict(list)
        self.acted_at: float | None = None
        # Short: a socket's path may have 107 bytes.
        self.folder = tempfile.TemporaryDirectory(prefix="exam-", dir="/tmp")
        address = f"{self.folder.name}/socket"
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(address)
        self.server.listen()
        self.acceptor = threading.Thread(target=self.accept, daemon=True)
        self.acceptor.start()
        launch.run_dir.mkdir(parents=True, exist_ok=True)
        self.env = os.environ | env | {ADDRESS: address, MARK: self.mark}
        self.pid = 0  # of its process, once that is known
        self.printed: list[bytes] = []

    def start(self) -> None:
        """By its command."""
        self.process = self.started(self.ended.words, self.env)
        self.pid = self.process.pid
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        assert self.process.stdout
        while data := os.read(self.process.stdout.fileno(), 1 << 16):
            self.printed.append(data)

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                rank = self.server.accept()[0]
                threading.Thread(
                    target=self.hear, args=(rank,), daemon=True
                ).start()

    def hear(self, connection: socket.socket) -> None:
        """One process, to its end."""
        with suppress(OSError, ValueError), connection.makefile() as lines:
            for line in lines:
                answer = self.take(json.loads(line))
                connection.sendall(json.dumps(answer).encode() + b"\n")

    def take(self, said: dict[str, Any]) -> dict[str, Any]:
        """Write a step down; what its process is to do now."""
        skipped = said["event"] == "skipped"
        step = Step(
            skipped, tuple(said["ids"]), said["before"], said.get("after", ""),
            tuple(said.get("norms", ())), tuple(said["drew"]), said["scale"],
        )  # fmt: skip
        with self.lock:
            self.ended.world = max(self.ended.world, said["world"])
            mine = self.told[said["rank"]]
            mine.append(step)
            act = self.due(said["rank"], len(mine)) or Act(0, "go on")
            # So that there are steps left in which to save and leave, and time
            # for a save in the background before a kill.
            slowly = "terminate" in self.ended.acted or any(
                act.do == "kill" and act.step - 2 <= len(mine) < act.step
                for act in self.acts
            )
            if act.do != "go on":
                self.ended.acted.append(act.do)
                self.acted_at = self.acted_at or time.monotonic()
        if slowly:
            time.sleep(SLOWLY)
        if act.do == "kill":
            self.end(signal.SIGKILL)
        elif act.do == "terminate":
            self.process.terminate()
        return {"do": act.do, "bytes": act.bytes}

    def due(self, rank: int, steps: int) -> Act | None:
        """The act for this step of this rank."""
        for act in self.acts:
            if act.step == steps and act.rank in (rank, None):
                return act
        return None

    def wait(self, limit: float, patience: float | None = None) -> Ended:
        """Until it has ended, or the examiner ends it: `limit` seconds after
        its launch, or `patience` after an act. Nothing of it is left then."""
        ended, launched = self.ended, time.monotonic()
        while self.process.poll() is None and not ended.out_of_time:
            begun, seconds = launched, limit
            if self.acted_at and patience:
                begun, seconds = self.acted_at, patience
            ended.out_of_time = time.monotonic() - begun > seconds
            time.sleep(0.05)
        if self.acted_at:
            ended.seconds_after_act = time.monotonic() - self.acted_at
        self.close()
        ended.code = self.process.wait()
        self.reader.join(MOMENT)
        ended.text = b"".join(self.printed).decode(errors="replace")
        ended.ranks = dict(self.told)
        return ended

    def close(self) -> None:
        """End what is left."""
        deadline = time.monotonic() + (0 if self.ended.out_of_time else MOMENT)
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.1)
        while self.left():
            self.end(signal.SIGKILL)
            time.sleep(0.05)
        bury(self.before, self.pid)
        # Else a thread waits in accept() for ever, by a number that the socket
        # of another launch may get.
        with suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)
        self.acceptor.join()
        self.server.close()
        self.folder.cleanup()

    def left(self) -> list[psutil.Process]:
        """Its processes that still run."""
        return alive(self.mark, self.before)

    def end(self, how: int) -> None:
        """Send a signal to all of them."""
        for process in self.left():
            with suppress(psutil.Error):
                process.send_signal(how)


def started(words: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, with its output in a pipe."""
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,  # a file could not grow on a "full disk"
        stderr=subprocess.STDOUT,
        env=env,
        start_new_session=True,
    )


@contextmanager
def launching(
    adapter: Adapter, launch: Launch, acts: list[Act], env: dict[str, str]
) -> Iterator[Launching]:
    """A launch that is ended, whatever happens."""
    under_way = Launching(adapter, launch, acts, env)
    try:
        under_way.start()
        yield under_way
    finally:
        under_way.close()


def adopt_orphans() -> None:
    """From now on a process whose parent dies becomes this one's child, so that
    a rank that outlives its launcher is found."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def alive(mark: str, before: set[int]) -> list[psutil.Process]:
    """The processes of a launch: this one's children and theirs, but for those
    that it had `before` and theirs, and whatever else has the launch's mark."""
    found: set[psutil.Process] = set()
    for child in psutil.Process().children():
        if child.pid not in before:
            with suppress(psutil.Error):
                found |= {child, *child.children(recursive=True)}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                found.add(process)
    running = []
    for process in found:
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                running.append(process)
    return running


def bury(before: set[int], but: int) -> None:
    """Take note of the end of the orphans that became this one's children."""
    for process in psutil.Process().children():
        with suppress(psutil.Error, ChildProcessError):
            dead = process.status() == psutil.STATUS_ZOMBIE
            if dead and process.pid not in {*before, but}:
                os.waitpid(process.pid, os.WNOHANG)


def shown(words: list[str]) -> str:
    """A command as one would type it."""
    return shlex.join(words)
