"""A preemption and a failure on a real Slurm: two nodes, made and removed here.

    python code/launch/slurm/rehearsal.py [SCRIPT ...]

Needs root, Debian's `slurm-wlm` and `munge`, and what `two-hosts` needs. Each
SCRIPT is a batch script of the folder above, by default all that `SCRIPTS`
lists. `result.json` gets, by script, what happened when and what the audit says
of it, and `result.md` a table.
"""

import json
import os
import socket
import subprocess
import sys
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
# Devices that every machine has, as the two GPUs of each node.
GPUS = "Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n"
# What `sbatch` is asked for two ranks on each node, and what the script is
# told to train in a run directory.
SCRIPTS = {
    "torchrun.sbatch": (
        ("--gpus-per-node=2",),
        ("-m", "lockstep.trainer", "--run-dir", "{run_dir}"),
    ),
    "slurm.sbatch": (("--ntasks-per-node=2",), ()),
}


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
    (folder / "gres.conf").write_text(GPUS)
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
    """A run that is submitted to the low partition, by one of `SCRIPTS`."""

    def __init__(
        self,
        slurm: Slurm,
        script: Path,
        run_dir: Path,
        *settings: str,
        nodes: int = 2,
    ) -> None:
        self.slurm, self.run_dir = slurm, run_dir
        size, trains = SCRIPTS[script.name]
        usual = "--max-steps=2500", "--checkpoint-every-steps=100"
        self.number = slurm(
            *("sbatch", "--parsable", "--partition=low", f"--nodes={nodes}"),
            *(*size, f"--export=ALL,RUN_DIR={run_dir}"),
            *(f"--output={run_dir}.log", str(script)),
            *(word.format(run_dir=run_dir) for word in trains),
            *(*usual, *settings, "--hidden-size=32"),
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


def requeued(slurm: Slurm, script: Path, run_dir: Path) -> dict[str, Any]:
    """A preemption, in seconds from the moment that the other job came."""
    job = Job(slurm, script, run_dir)
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


def forgotten(slurm: Slurm, script: Path, run_dir: Path) -> dict[str, str]:
    """The same job without its line that asks to be requeued."""
    lines = script.read_text().splitlines(keepends=True)
    copy = run_dir.parent / script.name
    copy.write_text("".join(x for x in lines if "scontrol requeue" not in x))
    job = Job(slurm, copy, run_dir)
    other = job.preempt()
    until(lambda: state(slurm, other)["JobState"] == "COMPLETED")
    last = state(slurm, job.number)
    return {name: last[name] for name in ("JobState", "ExitCode", "Restarts")}


def killed(slurm: Slurm, script: Path, run_dir: Path) -> dict[str, Any]:
    """A rank is killed in a job that needs one node of two."""
    fault = "--fault=kill:rank=1,step=150,phase=forward"
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


def rehearsed(script: str) -> dict[str, Any]:
    """All that happened to a script, on a cluster that is gone afterwards."""
    about: dict[str, Any] = provenance.about(("torch",))
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # munge wants to reach its socket
        given = LAUNCH / script
        with cluster(folder) as slurm:
            version = slurm("sinfo", "--version").split()[1]
            about["versions"]["Slurm"] = version
            result = requeued(slurm, given, folder / "requeued")
            lost = forgotten(slurm, given, folder / "forgotten")
            bad = killed(slurm, given, folder / "killed")
    return about | result | {"without_requeue": lost, "killed": bad}


def as_table(results: dict[str, Any]) -> str:
    """The moments of a preemption under each script, for a page."""
    names = [name for name in SCRIPTS if name in results]
    moments = results[names[0]]["seconds"]
    rows = [
        [*(f"{results[n]['seconds'][what]:.1f}" for n in names), what]
        for what in moments
    ]
    lines = [
        [*(f"s, `{name}`" for name in names), "what happens"],
        [*("---:" for _ in names), "---"],
        [*("0.0" for _ in names), "the other job is submitted"],
        *rows,
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    """Rehearse the scripts that the command line names; write the results."""
    path = HERE / "result.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for script in sys.argv[1:] or SCRIPTS:
        results[script] = rehearsed(script)
        provenance.write(results, path)
    (HERE / "result.md").write_text(as_table(results))
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
