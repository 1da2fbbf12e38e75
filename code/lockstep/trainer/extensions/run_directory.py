"""The run directory: one job at a time, one identity, attempts counted."""

import fcntl
import json
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from ..checkpoint import sync
from ..config import ConfigError, TrainConfig
from ..process import Process, on_rank0
from ..telemetry import Observer

DYING = 3.0  # seconds that a killed job's processes may take to be gone


@contextmanager
def sole_owner(run_dir: Path) -> Iterator[None]:
    """Hold `run_dir` for this process; ConfigError while another one does.

    A POSIX record lock: the kernel frees it when its process dies, and forked
    loader workers do not inherit it, as they would a flock. A job that is
    launched as soon as another was killed waits for that one's last moment.
    """
    deadline = time.monotonic() + DYING
    run_dir.mkdir(parents=True, exist_ok=True)
    with (run_dir / "lock").open("w") as file:
        while not _locked(file):
            if time.monotonic() > deadline:
                raise ConfigError(
                    f"--run-dir {run_dir} is in use by another job; wait for"
                    " its end, or give another directory"
                )
            time.sleep(0.05)
        yield


def _locked(file: TextIO) -> bool:
    """Whether this process holds it now."""
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def next_attempt(run_dir: Path) -> int:
    """One more than the launches whose events are there."""
    seen = (run_dir / "events").glob("attempt-*-rank-0.jsonl")
    return 1 + max((int(p.name.split("-")[1]) for p in seen), default=-1)


def read_identity(run_dir: Path) -> dict[str, Any]:
    """Return what the first launch wrote, or {} before there is a launch."""
    path = run_dir / "run.json"
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise ConfigError(
            f"{path} is damaged; restore it, or give another --run-dir"
        ) from None


class Claim(NamedTuple):
    """What a launch may go on with."""

    cfg: TrainConfig  # its batch arithmetic filled in
    attempt: int
    run_id: str


@contextmanager
def claimed(cfg: TrainConfig, me: Process) -> Iterator[Claim]:
    """Own the run directory while the launch lasts.

    Rank 0 holds the lock and decides, every rank gets the result. ConfigError
    on all ranks for a busy or unusable directory and for settings that
    contradict the run.
    """
    with ExitStack() as held:

        def claim() -> Claim:
            run_dir = cfg.run_dir
            try:
                held.enter_context(sole_owner(run_dir))
                for part in ("checkpoints", "events", "samples"):
                    (run_dir / part).mkdir(exist_ok=True)
                sync(run_dir)  # what is synced inside must be found again
                written = read_identity(run_dir)
                attempt = next_attempt(run_dir)
            except OSError as error:
                raise ConfigError(
                    f"--run-dir {run_dir} cannot be used:"
                    f" {error.strerror}; give a directory that can be written"
                ) from None
            settings = cfg.for_launch(
                me.world_size, written.get("identity", {})
            )
            run_id = written.get("run_id", uuid.uuid4().hex)
            return Claim(settings, attempt, run_id)

        yield on_rank0(claim)


class Identity(Observer):
    """Writes down what the run is, once its first launch really starts."""

    def __init__(self, claim: Claim) -> None:
        self.path = claim.cfg.run_dir / "run.json"
        self.identity = {
            "run_id": claim.run_id,
            "identity": claim.cfg.identity(),
        }

    def event(self, record: dict[str, Any]) -> None:
        if record["event"] == "run_started" and not self.path.exists():
            part = self.path.with_suffix(".tmp")
            part.write_text(json.dumps(self.identity, indent=1))
            sync(part)
            part.rename(self.path)
            sync(self.path.parent)
