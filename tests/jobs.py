"""Real launches for tests: a command, torchrun, and what they left behind."""

import io
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import (
    contextmanager,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from pathlib import Path
from typing import Any

import psutil

from lockstep.trainer.__main__ import launch, main
from lockstep.trainer.config import TrainConfig
from lockstep.trainer.extensions.events import read_events
from lockstep.trainer.extensions.options import Options
from tests import ranks

TRAINER = "-m", "lockstep.trainer"
TWO = "--standalone", "--nproc-per-node=2"
TORCHRUN = sys.executable, "-m", "torch.distributed.run", *TWO
PLAIN = Options()
PATIENCE = 90.0  # seconds until a test gives up waiting for something


WARM_TRAINER = str(Path(__file__).with_name("warm_trainer.py"))


def warm_torchrun(
    *options: str,
    script: str = WARM_TRAINER,
    before: str = "",
    python: str | Path = sys.executable,
) -> list[str]:
    """torchrun whose ranks run `script` as forks of itself, which has loaded
    torch for all of them and then done what `before` says.

    A start takes a tenth of the time. What differs: they share its session,
    and /proc does not show their environment. `python` may have torch loaded,
    too, unless a test looks at torchrun's children.
    """
    code = (
        "import os\nos.environ['OMP_NUM_THREADS'] = '1'\n"
        f"import {', '.join(ranks.PRELOAD)}\n{before}\n"
        "from torch.distributed.run import main\nmain()"
    )
    forks = "--start-method=fork", *options, "--run-path"
    return [str(python), "-c", code, *forks, script]


def finish(
    command: list[str], code: int = 0, patience: float = PATIENCE
) -> str:
    """What `command` prints; it must end with `code`."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=patience, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextmanager
def running(command: list[str]) -> Iterator[psutil.Process]:
    """`command` under way; whatever is left of its tree is killed."""
    process = psutil.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.is_running():
            kill([*process.children(recursive=True), process])
        process.wait()


def kill(processes: list[psutil.Process]) -> None:
    """SIGKILL to those that still live."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def until(holds: Callable[[], bool], what: str) -> None:
    """Poll until `holds`: other processes have no way to call us."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"not in {PATIENCE} s: {what}"
        time.sleep(0.01)


def rank_process(job: psutil.Process, rank: int) -> psutil.Process | None:
    """The rank of `job` that writes that rank's events; None if it has none."""
    for child in job.children():
        files = [Path(file.path).name for file in child.open_files()]
        if any(name.endswith(f"-rank-{rank}.jsonl") for name in files):
            return child
    return None


def command(*args: str) -> tuple[int, str]:
    """The trainer's command line in a process that has torch loaded: its exit
    code, and what it printed."""
    return ranks.run_ranks(1, _command, args)[0]


def _command(args: tuple[str, ...]) -> tuple[int, str]:
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        return main([*args]), said.getvalue()


def train(world: int, **settings: Any) -> dict[str, Any]:
    """Settings, on `world` ranks without torchrun; rank 0's last event."""
    return ranks.run_ranks(world, work, settings, timeout=PATIENCE)[0]


def work(settings: dict[str, Any], options: Options = PLAIN) -> dict[str, Any]:
    return launch(TrainConfig(**settings), ranks.store(), options)


def events(run_dir: Path, attempt: int, rank: int = 0) -> list[dict[str, Any]]:
    path = run_dir / "events" / f"attempt-{attempt}-rank-{rank}.jsonl"
    return list(read_events(path)) if path.exists() else []


def only(kind: str, *where: Any) -> list[dict[str, Any]]:
    """The events of one kind; `where` as for `events`."""
    return [event for event in events(*where) if event["event"] == kind]


def saved(run_dir: Path, attempt: int = 0) -> bool:
    return bool(only("checkpoint_saved", run_dir, attempt))


def long_run(run_dir: Path) -> list[str]:
    """Settings of a run that will not end by itself before it is killed."""
    return [
        *("--run-dir", str(run_dir), "--max-steps", "100000"),
        *("--checkpoint-every-steps", "20", "--log-every-steps", "1000"),
        *("--hidden-size", "32"),
    ]
