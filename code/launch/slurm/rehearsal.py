"""A preemption and a failure on a real Slurm: two nodes, made and removed here.

    python code/launch/slurm/rehearsal.py

Needs root, Debian's `slurm-wlm` and `munge`, and what `two-hosts` needs. What
happened when, and what the audit says of it, are written beside this file as
`result.json` and `result.md`.
"""

import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from lockstep.experiments import provenance
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.extensions.events import read_events

HERE = Path(__file__).parent
LAUNCH = HERE.parent
PATIENCE_SECONDS = 300
Slurm = Callable[..., str]


def until(holds: Callable[[], Any]) -> Any:
    """What `holds` returns, once it is true: a scheduler calls nobody back."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not in {PATIENCE_SECONDS} s: {holds}")
        time.sleep(0.05)
    return found


@contextmanager
def cluster(folder: Path) -> Iterator[Slurm]:
    """Two nodes and their controller, which live as long as the block.

    Yields a function that runs a command beside the controller and returns
    what it printed.
    """
    for part in ("munge", "state"):
        (folder / part).mkdir(mode=0o755)
    munge = folder / "munge"
    (munge / "key").touch(mode=0o600)
    (munge / "key").write_bytes(os.urandom(1024))
    conf = (HERE / "slurm.conf").read_text().replace("{folder}", str(folder))
    conf = conf.replace("{controller}", socket.gethostname())
    (folder / "slurm.conf").write_text(conf)
    world = os.environ | {
        "SLURM_CONF": str(folder / "slurm.conf"),
        "ON_SWITCH": "slurmctld -D",
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1",
    }
    files = [f"--{f}-file={munge / f}" for f in ("key", "pid", "log", "seed")]
    daemons = (
        ["munged", "--foreground", "--force", f"-S{munge / 'socket'}", *files],
        [str(LAUNCH / "two-hosts"), str(folder / "net"), "slurmd", "-D"],
    )
    switch = folder / "net" / "switch.pid"

    def slurm(*command: str) -> str:
        enter = ["nsenter", "--net", "--target", switch.read_text().strip()]
        done = subprocess.run(
            [*enter, *command],
            env=world,
            cwd=folder,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    log = (folder / "daemons.log").open("w")
    # This program's end, even by SIGKILL, is theirs.
    tied = ["setpriv", "--pdeathsig", "KILL"]
    running = [
        subprocess.Popen([*tied, *daemon], env=world, stdout=log, stderr=log)
        for daemon in daemons
    ]
    try:
        until(switch.exists)
        idle = "sinfo", "--noheader", "--states=idle", "--format=%D"
        until(lambda: slurm(*idle).startswith("2"))
        yield slurm
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()
        log.close()


def state(slurm: Slurm, job: str) -> dict[str, str]:
    """What Slurm says of a job, as in `JobState` and `Restarts`."""
    said = slurm("scontrol", "show", "job", job)
    return dict(word.split("=", 1) for word in said.split() if "=" in word)


class Job:
    """A run that is submitted to the low partition."""

    def __init__(
        self,
        slurm: Slurm,
        script: str,
        run_dir: Path,
        *settings: str,
        nodes: int = 2,
    ) -> None:
        self.slurm, self.run_dir = slurm, run_dir
        usual = "--max-steps=2500", "--checkpoint-every-steps=100"
        self.number = slurm(
            *("sbatch", "--parsable", "--partition=low", f"--nodes={nodes}"),
            *("--ntasks-per-node=2", f"--export=ALL,RUN_DIR={run_dir}"),
            *(f"--output={run_dir}.log", script, *usual, *settings),
            "--hidden-size=32",
        )

    def told(self, event: str, attempt: int = 0) -> dict[str, Any] | None:
        """Rank 0's first event of that name in that attempt."""
        path = self.run_dir / "events" / f"attempt-{attempt}-rank-0.jsonl"
        found = read_events(path) if path.exists() else iter(())
        return next((e for e in found if e["event"] == event), None)

    def preempt(self) -> str:
        """Submit a job that goes first, once there is a checkpoint to lose;
        its number."""
        until(lambda: self.told("checkpoint_saved"))
        return self.slurm(
            *("sbatch", "--parsable", "--partition=high", "--nodes=2"),
            *("--ntasks-per-node=2", "--wrap", "srun sleep 2"),
        )


def requeued(slurm: Slurm, run_dir: Path) -> dict[str, Any]:
    """A preemption, in seconds from the moment that the other job came."""
    job = Job(slurm, str(LAUNCH / "slurm.sbatch"), run_dir)
    job.preempt()
    came = time.time()
    left = until(lambda: job.told("run_stopped"))
    until(lambda: state(slurm, job.number)["Restarts"] == "1")
    gone = time.time()
    again = until(lambda: job.told("run_started", attempt=1))
    done = until(lambda: job.told("run_finished", attempt=1))
    until(lambda: state(slurm, job.number)["JobState"] == "COMPLETED")
    start = datetime.fromisoformat(state(slurm, job.number)["StartTime"])
    moments = {
        "a rank hears SIGTERM": job.told("preempted"),
        "all ranks have saved and left": left,
        "Slurm has requeued the job": {"time": gone},
        "Slurm starts it again": {"time": start.timestamp()},
        "the ranks train again": again,
        "the run is finished": done,
    }
    restored = job.told("checkpoint_restored", attempt=1)
    return {
        "ranks": again["world_size"],
        "left_at_step": left["step"],
        "restored_step": restored and restored["step"],
        "seconds": {
            what: round(event["time"] - came, 1)
            for what, event in moments.items()
            if event
        },
        "audit": audit(run_dir).as_json(),
    }


def forgotten(slurm: Slurm, run_dir: Path) -> dict[str, str]:
    """The same job without its line that asks to be requeued."""
    lines = (LAUNCH / "slurm.sbatch").read_text().splitlines(keepends=True)
    script = run_dir.with_suffix(".sbatch")
    script.write_text("".join(x for x in lines if "scontrol requeue" not in x))
    job = Job(slurm, str(script), run_dir)
    other = job.preempt()
    until(lambda: state(slurm, other)["JobState"] == "COMPLETED")
    last = state(slurm, job.number)
    return {name: last[name] for name in ("JobState", "ExitCode", "Restarts")}


def killed(slurm: Slurm, run_dir: Path) -> dict[str, Any]:
    """A rank is killed in a job that needs one node of two."""
    fault = "--fault=kill:rank=1,step=150,phase=forward"
    script = str(LAUNCH / "slurm.sbatch")
    job = Job(slurm, script, run_dir, fault, nodes=1)
    until(lambda: job.told("checkpoint_saved"))
    ran_on = state(slurm, job.number)["NodeList"]
    until(lambda: state(slurm, job.number)["ExcNodeList"] != "(null)")
    excluded = state(slurm, job.number)["ExcNodeList"]
    until(lambda: state(slurm, job.number)["JobState"] == "COMPLETED")
    return {
        "ran_on": ran_on,
        "excluded": excluded,
        "finished_on": state(slurm, job.number)["NodeList"],
        "audit": audit(run_dir).as_json(),
    }


def as_table(result: dict[str, Any]) -> str:
    """The moments of a preemption, for a page."""
    rows = [f"| {s:.1f} | {what} |" for what, s in result["seconds"].items()]
    return "\n".join(
        [
            "| s | what happens |",
            "|---:|---|",
            "| 0.0 | the other job is submitted |",
            *rows,
            "",
        ]
    )


def main() -> None:
    """Rehearse in a folder that is gone afterwards; write down the result."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # munge wants to reach its socket
        with cluster(folder) as slurm:
            result = requeued(slurm, folder / "requeued")
            result["without_requeue"] = forgotten(slurm, folder / "forgotten")
            result["killed"] = killed(slurm, folder / "killed")
            version = slurm("sinfo", "--version").split()[1]
    about: dict[str, Any] = provenance.about(("torch",))
    about["versions"]["Slurm"] = version
    result = about | result
    provenance.write(result, HERE / "result.json")
    (HERE / "result.md").write_text(as_table(result))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
