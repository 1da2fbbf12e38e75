"""A job on two hosts that namespaces make, to lose one of them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from lockstep.trainer.extensions.events import read_events
from tests.jobs import until, warm_torchrun

LAUNCH = Path(__file__).parents[2] / "code" / "launch"
STORE = f"{sys.executable} {LAUNCH / 'rendezvous_store.py'} 29400"
# Each meets the other once both have loaded torch: whoever came after the last
# call would find the others training.
TOGETHER = """
import pathlib, socket, time
folder = pathlib.Path({folder!r})
(folder / f"{{socket.gethostname()}}.ready").touch()
while len(list(folder.glob("*.ready"))) < 2:
    time.sleep(0.01)
"""
# A host without a sign of life for 3 s is gone, and 4 s later whoever is there
# trains. By default these are 15 s and 30 s.
QUICK = (
    "--nnodes=1:2",
    "--max-restarts=3",
    "--rdzv-conf=keep_alive_interval=1,keep_alive_max_attempt=3"
    ",last_call_timeout=4,read_timeout=5",
)


@cache
def hindrance() -> str:
    """Why there can be no two hosts here, or nothing."""
    for tool in ("ip", "nsenter", "setpriv", "unshare"):
        if shutil.which(tool) is None:
            return f"there is no command {tool}"
    host = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "true"]
    if os.getuid():
        host[1:1] = ["--user", "--map-root-user"]
    done = subprocess.run(host, capture_output=True, text=True, check=False)
    return done.stderr.strip()


class Hosts:
    """The job, and what it leaves in its folder."""

    def __init__(
        self, folder: Path, job: subprocess.Popen[str], per_host: int
    ) -> None:
        self.folder, self.job, self.run_dir = folder, job, folder / "run"
        self.alone, self.together = per_host, 2 * per_host

    def pid(self, name: str) -> int:
        return int((self.folder / f"{name}.pid").read_text())

    def log(self, host: str) -> str:
        return (self.folder / f"{host}.log").read_text()

    def attempts(self, rank: int = 0) -> list[list[dict[str, Any]]]:
        """What `rank` told, attempt by attempt."""
        told = (self.run_dir / "events").glob(f"attempt-*-rank-{rank}.jsonl")
        return [list(read_events(path)) for path in sorted(told)]

    def told(self, name: str, world_size: int) -> list[dict[str, Any]]:
        """Rank 0's events of that name, in attempts of that many ranks."""
        return [
            event
            for attempt in self.attempts()
            for event in attempt
            if event["event"] == name
            and any(e.get("world_size") == world_size for e in attempt)
        ]

    def await_event(self, name: str, world_size: int) -> dict[str, Any]:
        """The first such event, as soon as it is there."""
        until(lambda: bool(self.told(name, world_size)), f"{name} was told")
        return self.told(name, world_size)[0]

    def lose(self, host: str, how: str) -> None:
        """`kill` all that runs on `host`, or `cut` its cable."""
        if how == "kill":
            psutil.Process(self.pid(host)).kill()
            return
        enter = ["nsenter", "--target", str(self.pid("switch")), "--net"]
        if os.getuid():
            enter += ["--user", "--preserve-credentials"]
        subprocess.run([*enter, "ip", "link", "set", host, "down"], check=True)


@contextmanager
def two_hosts(
    folder: Path,
    *settings: str,
    store: str = "host-1",
    per_host: int = 2,
    options: tuple[str, ...] = QUICK,
) -> Iterator[Hosts]:
    """The trainer under way on two hosts, with `per_host` ranks on each."""
    world = os.environ | {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
    if store == "switch":
        world["ON_SWITCH"] = STORE
    torchrun = warm_torchrun(
        *(*options, f"--nproc-per-node={per_host}", "--rdzv-backend=c10d"),
        *(f"--rdzv-endpoint={store}:29400", "--rdzv-id=demo"),
        before=TOGETHER.format(folder=str(folder)),
    )
    command = [str(LAUNCH / "two-hosts"), str(folder), *torchrun]
    command += ["--run-dir", str(folder / "run"), *settings]
    job = subprocess.Popen(
        command, env=world, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Hosts(folder, job, per_host)
    finally:
        job.kill()  # and the kernel removes the hosts
        job.wait()
