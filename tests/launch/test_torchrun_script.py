"""The batch script with one torchrun on each node, with commands that only say
that they were called."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from .batch import LAUNCH, Batch

SCRIPT = LAUNCH / "torchrun.sbatch"
STUBS = {"srun": 'echo "$@" >"$TOLD/called"; printf "$SAID"; exit "$CODE"'}
PREEMPTED = (
    "W1129 torch/distributed/elastic/agent/server/api.py:753] Received 15 death"
    " signal, shutting down workers\n"
)
HUNG = (
    "[rank3]:[E1129 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught"
    " collective operation timeout: WorkNCCL(SeqNum=7)\n"
)


TYPO = "  exitcode  : 2 (pid: 814)\n"  # in torchrun's report of a rank


def left(node: str, code: int) -> str:
    """Return what srun says of a task that ended badly."""
    return f"srun: error: {node}: task 1: Exited with exit code {code}\n"


class Run(Batch):
    """The script of one run, with the checkpoints that it has."""

    def __init__(self, folder: Path) -> None:
        script = "torchrun.sbatch", "train.py", "--max-steps", "9"
        size = {"SLURM_NNODES": "2", "SLURM_GPUS_ON_NODE": "4"}
        super().__init__(folder, script, STUBS, size)
        self.seconds = 0

    def save(self, name: str) -> None:
        """Write a checkpoint a second after the previous one."""
        path = self.run_dir / "checkpoints" / name
        path.mkdir(parents=True, exist_ok=True)
        self.seconds += 1
        os.utime(path, (self.seconds, self.seconds))


@pytest.mark.parametrize(
    ("said", "code", "again", "excluded"),
    [
        ("", 0, False, ""),
        (PREEMPTED + left("node-7", 1), 1, True, ""),
        (left("node-8", 1) + PREEMPTED, 1, True, "node-8"),
        (left("node-8", 137) + left("node-7", 1), 137, True, "node-8"),
        (HUNG + left("node-7", 1), 1, True, ""),
    ],
    ids=["finished", "preempted", "crashed", "killed", "hung"],
)
def test_the_torchrun_script_requeues_by_the_first_cause(
    said: str, code: int, again: bool, excluded: str, tmp_path: Path
) -> None:
    """The script requeues a preempted job, a hang and a failure. It excludes
    the node whose torchrun ended first, unless a preemption or NCCL's timeout
    was logged before."""
    batch = Run(tmp_path)
    assert batch.start(said, code) == code
    assert batch.asked("requeue") == ["requeue 42"] * again
    updates = [f"update JobId=42 ExcNodeList={excluded}"] * bool(excluded)
    assert batch.asked("update") == updates
    called = (tmp_path / "called").read_text()
    assert "torchrun --nnodes=2 --nproc-per-node=4 " in called
    assert "--rdzv-endpoint=node-7:29500" in called
    assert called.endswith("train.py --max-steps 9\n")


def test_a_second_failure_at_the_same_checkpoint_ends_the_job(
    tmp_path: Path,
) -> None:
    """The script doesn't requeue a second failure with the same newest
    checkpoint. A newer checkpoint allows another failure, and a preemption in
    between doesn't count. Nodes of all failures stay excluded."""
    batch = Run(tmp_path)
    batch.start(left("node-8", 1), 1)
    batch.save("step-100")
    batch.start(left("node-7", 137), 137)
    assert batch.asked("update")[-1].endswith("=node-7,node-8")
    batch.start(PREEMPTED + left("node-7", 1), 1)
    assert len(batch.asked("requeue")) == 3
    assert batch.start(left("node-7", 1), 1) == 1
    assert len(batch.asked("requeue")) == 3


def test_a_usage_error_is_not_requeued(tmp_path: Path) -> None:
    """The script ends with 2 if a rank did, even before its first failure. An
    exit code that only begins with 2 is requeued."""
    batch = Run(tmp_path)
    assert batch.start(TYPO + left("node-7", 1), 1) == 2
    assert not batch.asked("requeue")
    batch.start(TYPO.replace("2", "21", 1) + left("node-7", 1), 1)
    assert batch.asked("requeue") == ["requeue 42"]


@pytest.mark.parametrize(
    ("step", "order"),
    [
        ("{} & wait $! || wait $! || echo $?", "told left 3"),
        ("{}", "left told"),
    ],
    ids=["waiting", "in front"],
)
def test_a_trap_runs_while_the_shell_waits_for_its_step(
    step: str, order: str
) -> None:
    """A signal for a shell that waits for a step in the background runs its
    trap at once, and the second `wait` returns the step's exit code. A step in
    the foreground ends before the trap runs."""
    body = "(kill -USR1 $$; sleep 0.3; echo left; exit 3)"
    script = f"trap 'echo told' USR1; {step.format(body)}; true"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True
    )
    assert done.stdout.split() == order.split()


def test_an_unfinished_checkpoint_is_not_progress(tmp_path: Path) -> None:
    """Two failures in the middle of a save leave a folder without a step's
    name. The script requeues the second one if there is a newer checkpoint,
    and doesn't requeue a third one without it."""
    batch = Run(tmp_path)
    for step in "step-100", "step-200":
        batch.save(step)
        batch.save("tmp")
        batch.start(left("node-8", 1), 1)
    assert len(batch.asked("requeue")) == 2
    batch.start(left("node-8", 1), 1)
    assert len(batch.asked("requeue")) == 2


def test_the_torchrun_script_leaves_two_steps_and_a_save() -> None:
    """Two steps of 10 s and 100 GB at 4 GB/s take 45 s. torchrun's wait before
    SIGKILL is longer, and Slurm's notice before the time limit is longer than
    torchrun's."""
    text = SCRIPT.read_text()
    (shutdown,) = re.findall(r"--shutdown-timeout=(\d+)", text)
    (notice,) = re.findall(r"--signal=TERM@(\d+)", text)
    assert 2 * 10 + 100 / 4 == 45
    assert 45 < int(shutdown) < int(notice)
