"""The batch script, with commands that only say they were called.

That Slurm itself does what the script counts on, `make slurm` shows.
"""

import json
from pathlib import Path

import pytest

from .batch import LAUNCH, Batch

STUBS = {
    "srun": 'shift; SLURM_PROCID=3 SLURM_LOCALID=1 "$@"; echo "$SAID" >&2; '
    'exit "$CODE"',
    "python": 'echo "$RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR" >"$TOLD/rank"'
    '; echo "$@" >"$TOLD/trainer"',
}


class Run(Batch):
    """The batch script of one run, with the events that it left."""

    def __init__(self, folder: Path) -> None:
        script = "slurm.sbatch", "--max-steps", "9"
        super().__init__(folder, script, STUBS, {"SLURM_NTASKS": "4"})
        (self.run_dir / "events").mkdir(parents=True)

    def reach(self, step: int, attempt: int) -> None:
        """Leave the events of an attempt that came as far as `step`."""
        log = self.run_dir / "events" / f"attempt-{attempt}-rank-0.jsonl"
        log.write_text(json.dumps({"event": "step", "step": step}) + "\n")


def ended(node: str, tasks: str, how: str) -> str:
    """Return what Slurm 22.05's srun says of tasks that ended badly."""
    return f"srun: error: {node}: {tasks}: {how}"


TOLD = ended("node-7", "tasks 0-1", "Exited with exit code 75")
LEFT = ended("node-7", "task 0", "Exited with exit code 75")
SETTINGS = ended("node-7", "task 0", "Exited with exit code 2")
RAISED = ended("node-8", "task 3", "Exited with exit code 1")
KILLED = ended("node-7", "task 1", "Killed")
HUNG = ended("node-8", "task 2", "Exited with exit code 70")
ALL = ended("node-[7-8]", "tasks 0-3", "Exited with exit code 1")


@pytest.mark.parametrize(
    ("said", "code", "exits", "again", "excluded"),
    [
        ("", 0, 0, False, ""),
        (TOLD, 75, 75, True, ""),
        (SETTINGS, 143, 2, False, ""),
        (f"{RAISED}\n{LEFT}", 75, 75, True, "node-8"),
        (KILLED, 137, 137, True, "node-7"),
        (HUNG, 70, 70, True, ""),
        (ALL, 1, 1, True, ""),
    ],
    ids=["finished", "told", "settings", "raised", "killed", "hung", "all"],
)
def test_the_batch_script_requeues_by_the_first_rank_that_ended(
    said: str, code: int, exits: int, again: bool, excluded: str, tmp_path: Path
) -> None:
    """The batch script requeues every failure but settings that cannot run,
    and excludes the node of the rank that failed first. What counts is what
    srun says of the first rank, because srun returns the largest code."""
    batch = Run(tmp_path)
    assert batch.start(said, code) == exits
    assert batch.asked("requeue") == ["requeue 42"] * again
    updates = [f"update JobId=42 ExcNodeList={excluded}"] * bool(excluded)
    assert batch.asked("update") == updates
    told = {n: (tmp_path / n).read_text().split() for n in ("rank", "trainer")}
    assert told["rank"] == ["3", "1", "4", "node-7"]
    settings = ["--run-dir", str(batch.run_dir), "--max-steps", "9"]
    assert told["trainer"] == ["-m", "lockstep.trainer", *settings]


def test_a_failure_at_the_same_step_is_not_requeued_again(
    tmp_path: Path,
) -> None:
    """The batch script requeues a second failure at another step and excludes
    both nodes. It doesn't requeue a failure at the step of the last one,
    before any step included. A preemption in between doesn't count."""
    batch = Run(tmp_path)
    batch.start(RAISED, 1)
    batch.reach(10, attempt=0)
    batch.start(KILLED, 137)
    assert batch.asked("update")[-1].endswith("=node-7,node-8")
    batch.start(TOLD, 75)
    assert len(batch.asked("requeue")) == 3
    assert batch.start(KILLED, 137) == 137
    assert len(batch.asked("requeue")) == 3
    batch.reach(20, attempt=1)
    batch.start(HUNG, 70)
    assert len(batch.asked("requeue")) == 4


def test_a_job_that_never_starts_to_train_is_requeued_once(
    tmp_path: Path,
) -> None:
    batch = Run(tmp_path)
    for _ in range(3):
        batch.start(RAISED, 1)
    assert batch.asked("requeue") == ["requeue 42"]


REHEARSED = json.loads((LAUNCH / "slurm" / "result.json").read_text())


@pytest.mark.parametrize("script", ["slurm.sbatch", "torchrun.sbatch"])
def test_the_recorded_rehearsal_lost_nothing(script: str) -> None:
    """In the recorded rehearsals under Slurm the run was preempted and requeued
    once, resumed at the step it had left, and its audit is proven. Without its
    request to be requeued, the job failed."""
    result = REHEARSED[script]
    assert result["audit"]["proven"]
    assert result["audit"]["restarts"] == 1
    assert result["audit"]["replayed_steps"] == 0
    assert result["left_at_step"] == result["restored_step"]
    assert result["without_requeue"]["JobState"] == "FAILED"


@pytest.mark.parametrize("script", ["slurm.sbatch", "torchrun.sbatch"])
def test_the_recorded_rehearsal_avoided_the_bad_node(script: str) -> None:
    """In the recorded rehearsals under Slurm a rank was killed on one node. The
    job was requeued, finished on the other node, and its audit is proven."""
    killed = REHEARSED[script]["killed"]
    assert killed["excluded"] == killed["ran_on"]
    assert killed["finished_on"] not in ("", killed["ran_on"])
    assert killed["audit"]["proven"]
    assert killed["audit"]["finished"]
