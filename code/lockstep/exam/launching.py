"""Launch a trainer, see each of its steps, disturb it, and end it for sure."""

import ctypes
import json
import os
import re
import shlex
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

import psutil

from .adapter import Adapter, AdapterError, Launch
from .damage import files
from .env_vars import ADDRESS, MARK

PR_SET_CHILD_SUBREAPER = 36  # of Linux
SLOWLY = 0.5  # seconds that a step takes after SIGTERM, or before an act
PATIENCE = 5.0  # seconds in which a save in the background may be published
CALM = 0.1  # seconds without a change after which a checkpoint is whole
SLICE = 0.0003  # seconds that processes run at a time while a save is watched
STALLED = 3.0  # seconds that the others get once a rank's writes stall
KEPT = 1 << 20  # bytes kept of the beginning of the output, and of its end
ABORTED = "terminate called without an active exception"
WHY_ABORTED = (
    "a thread of gloo was still at work when Python shut down:"
    " lockstep.pieces.attached waits for it"
)
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
    passes: tuple[int, ...] = ()  # distinct samples in each forward pass
    left: dict[str, Any] | None = None  # digests of what else came out
    scaler: dict[str, Any] | None = None  # the gradient scaler's whole state

    def random(self, generators: Container[int]) -> tuple[str, ...]:
        """The states of these `generators` that it went in with."""
        states = enumerate(self.before.get("random", ()))  # ABSENT has none
        return tuple(state for k, state in states if k in generators)


class Act(NamedTuple):
    """What the examiner does when a rank has taken its `step`-th step.

    - kill: SIGKILL to all processes, as when a machine is lost.
    - terminate: SIGTERM to the launcher, as from a scheduler.
    - hang: the rank takes no further step.
    - refuse: writes beyond `bytes` of a file fail, as on a full disk.
    - tear: a write beyond `bytes` of a file kills its process.
    - stall: a write beyond `bytes` of a file never ends, as on storage that is
      gone; when the others have had some time, all are killed.
    - between: all are killed when `files` new files lie in the run directory,
      so that the last of them has been begun and the others are written.
    """

    step: int
    do: str
    rank: int | None = 0  # whose step; None: each rank by itself
    bytes: int = 0
    files: int = 0
    before: int = 0  # terminate before this forward pass of the next step


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
    save_every: int = 1
    # When checkpoints were published: for each, after how many steps at most.
    published: list[int] = field(default_factory=list)
    seconds_after_act: float = 0.0

    @property
    def steps(self) -> list[Step]:
        """Rank 0's."""
        return self.ranks.get(0, [])

    def saved(self, start: int) -> int:
        """The step of the newest checkpoint that this launch published, which
        began after step `start`; 0 if none was seen. A later step than that is
        possible, since saves in the background come late, but no earlier one.
        """
        if not self.published:
            return 0
        latest, every = start + self.published[-1], self.save_every
        if self.published[-1] < len(self.steps):
            latest -= latest % every
        return min(latest, (start // every + len(self.published)) * every)

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
        if not errors and ABORTED in self.text:
            return f"{ABORTED} ({WHY_ABORTED})"
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
        self.launch, self.adapter = launch, adapter
        self.ended.save_every = launch.save_every
        self.lock = threading.Lock()
        self.told: dict[int, list[Step]] = defaultdict(list)
        self.told_at = time.monotonic()
        self.paused: set[int] = set()  # ranks within a step
        self.watcher: threading.Thread | None = None  # of a save
        self.patient = True  # while checkpoints come when they are due
        self.acted_at: float | None = None
        # Short: a socket's path may have 107 bytes.
        self.folder = tempfile.TemporaryDirectory(
            prefix="exam-", dir="/tmp", ignore_cleanup_errors=True
        )
        address = f"{self.folder.name}/socket"
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(address)
        self.server.listen()
        self.acceptor = threading.Thread(target=self.accept, daemon=True)
        self.acceptor.start()
        launch.run_dir.mkdir(parents=True, exist_ok=True)
        # What torchrun and multiprocessing leave there goes with the launch.
        temporary = Path(self.folder.name) / "tmp"
        temporary.mkdir()
        self.env = os.environ | env | {
            ADDRESS: address, MARK: self.mark, "TMPDIR": str(temporary)
        }  # fmt: skip
        self.pid = 0  # of its process, once that is known
        self.printed = Printed()
        self.seen = self.contents()  # of checkpoints

    def start(self) -> None:
        """By its command."""
        self.process = self.started(self.ended.words, self.env)
        self.pid = self.process.pid
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        assert self.process.stdout
        while data := os.read(self.process.stdout.fileno(), 1 << 16):
            self.printed.add(data)

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
        if said["event"] == "paused":
            return self.within(said["rank"])
        skipped = said["event"] == "skipped"
        step = Step(
            skipped, tuple(said["ids"]), said["before"], said.get("after", ""),
            tuple(said.get("norms", ())), tuple(said["drew"]), said["scale"],
            passes=tuple(said.get("passes", ())),
            left=said.get("left"), scaler=said.get("scaler"),
        )  # fmt: skip
        with self.lock:
            self.ended.world = max(self.ended.world, said["world"])
            mine = self.told[said["rank"]]
            mine.append(step)
            act = self.due(said["rank"], len(mine)) or Act(0, "go on")
            taken, self.told_at = len(mine), time.monotonic()
            # So that there are steps left in which to save and leave, and time
            # for a save in the background before an act.
            slowly = "terminate" in self.ended.acted or any(
                act.step - 2 <= taken < act.step for act in self.acts
            )
            # These are done later.
            later = act.do == "between" or act.before
            if act.do != "go on" and not later:
                self.note(act.do)
        if said["rank"] == 0:
            self.look(taken)
        if slowly:
            time.sleep(SLOWLY)
        if act.do == "kill":
            self.end(signal.SIGKILL)
        elif act.do == "between":
            self.gather(lambda: self.took(act.step))
            with self.lock:
                if not self.watcher:
                    self.watcher = self.watching(act)
        elif act.do == "terminate" and not act.before:
            self.process.terminate()
        return {"do": act.do, "bytes": act.bytes, "pause": act.before}

    def note(self, done: str) -> None:
        """Write down what was done, and when the first of it was."""
        self.ended.acted.append(done)
        self.acted_at = self.acted_at or time.monotonic()

    def took(self, step: int) -> int:
        """How many ranks have told of this step."""
        return sum(len(steps) >= step for steps in [*self.told.values()])

    def gather(self, come: Callable[[], int]) -> None:
        """Wait until all ranks have come, but not for long."""
        deadline = time.monotonic() + PATIENCE
        while come() < self.ended.world and time.monotonic() < deadline:
            time.sleep(0.001)

    def within(self, rank: int) -> dict[str, Any]:
        """Send SIGTERM when all ranks that are to pause within a step have done
        so; they continue once it has reached them."""
        self.paused.add(rank)
        (act,) = (act for act in self.acts if act.before)
        if act.rank is None:
            self.gather(lambda: len(self.paused))
        with self.lock:
            if "terminate" not in self.ended.acted:
                self.note("terminate")
                self.process.terminate()
        time.sleep(SLOWLY)
        return {"do": "go on"}

    def contents(self) -> frozenset[tuple[str, int, int, int]]:
        """What the checkpoints are made of: name, size, time and inode of each
        of their files."""
        with suppress(AdapterError, OSError):
            return frozenset(
                (str(path), at.st_size, at.st_mtime_ns, at.st_ino)
                for saved in self.adapter.checkpoints(self.launch.run_dir)
                for path in files(saved)
                for at in [path.stat()]
            )
        return frozenset()  # something was renamed meanwhile

    def look(self, taken: int) -> None:
        """Note a checkpoint that was published before rank 0 told of `taken`
        steps. One that is due and not there is waited for, as long as others
        came in time, since it may be saved in the background."""
        published = self.ended.published
        due = (taken - 1) // self.launch.save_every
        deadline = time.monotonic() + PATIENCE
        while True:
            if self.contents() - self.seen:
                time.sleep(CALM)
                if new := self.contents() - self.seen:
                    self.seen |= new
                    published.append(taken - 1)
            late = len(published) < due and not self.ended.acted
            if not late or not self.patient:
                return
            if time.monotonic() > deadline:
                self.patient = False
            time.sleep(CALM / 2)

    def watching(self, act: Act) -> threading.Thread:
        """A thread that lets all processes run for short moments only, until as
        many new files lie in the run directory as `act` says, and kills them
        then; or until a rank tells of its next step."""
        pids = [process.pid for process in self.left()]
        known = inodes(self.launch.run_dir)
        deadline = time.monotonic() + PATIENCE

        def watch() -> None:
            nonlocal known
            while not self.took(act.step + 1) and self.process.poll() is None:
                time.sleep(SLICE)
                send(pids, signal.SIGSTOP)
                found = inodes(self.launch.run_dir)
                known &= found  # a file that is gone leaves its inode to others
                if len(found - known) >= act.files:
                    self.note("between")
                    self.end(signal.SIGKILL)
                    return
                send(pids, signal.SIGCONT)
                if time.monotonic() > deadline:
                    return

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        return thread

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
            quiet = time.monotonic() - self.told_at
            if "stall" in ended.acted and quiet > STALLED:
                self.end(signal.SIGKILL)
            time.sleep(0.05)
        if self.acted_at:
            ended.seconds_after_act = time.monotonic() - self.acted_at
        self.close()
        ended.code = self.process.wait()
        self.reader.join(MOMENT)
        ended.text = self.printed.text()
        ended.ranks = dict(self.told)
        if not ended.code and self.contents() - self.seen:
            ended.published.append(len(ended.steps))
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
        if self.watcher:
            self.watcher.join()
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
        send([process.pid for process in self.left()], how)


class Printed:
    """The output of a launch: all of it, or its beginning and its end."""

    def __init__(self) -> None:
        self.first, self.last = bytearray(), bytearray()
        self.left_out = 0  # bytes between the two

    def add(self, data: bytes) -> None:
        """Take in what was printed next."""
        room = KEPT - len(self.first)
        self.first += data[:room] if room > 0 else b""
        self.last += data[max(room, 0) :]
        if len(self.last) > 2 * KEPT:
            self.left_out += len(self.last) - KEPT
            del self.last[:-KEPT]

    def text(self) -> str:
        """What is kept of it."""
        gap = f"\n… {self.left_out:,} bytes left out …\n"
        parts = self.first, gap.encode() if self.left_out else b"", self.last
        return b"".join(parts).decode(errors="replace")


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


def send(pids: list[int], how: int) -> None:
    """Send a signal to the processes that still run."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, how)


def inodes(folder: Path) -> frozenset[int]:
    """Of all files below a folder."""
    found = set()
    for path in folder.rglob("*"):
        with suppress(OSError):
            at = path.lstat()
            if stat.S_ISREG(at.st_mode):
                found.add(at.st_ino)
    return frozenset(found)


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
