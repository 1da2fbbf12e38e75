"""The batch script, with commands that only say they were called.

That Slurm itself does what the script counts on, `make slurm` shows.
"""

import json
import subprocess
from pathlib import Path

import pytest

LAUNCH = Path(__file__).parents[2] / "code" / "launch"
STUBS = {
    "srun": 'shift; echo "$@" >"$TOLD/srun"; SLURM_PROCID=3 SLURM_LOCALID=1 '
    '"$@"; exit "$CODE"',
    "python": 'echo "$RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR" >"$TOLD/rank"'
    '; echo "$@" >"$TOLD/trainer"',
    "scontrol": 'echo "$@" >"$TOLD/scontrol-$1"; echo node-7; echo node-8',
}


@pytest.mark.parametrize(("code", "again"), [(0, 0), (1, 0), (75, 1)])
def test_only_a_rank_that_was_told_to_leave_is_requeued(
    code: int, again: int, tmp_path: Path
) -> None:
    for name, text in STUBS.items():
        stub = tmp_path / name
        stub.write_text(f"#!/bin/bash\n{text}\n")
        stub.chmod(0o755)
    world = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "TOLD": str(tmp_path),
        "CODE": str(code),
        "RUN_DIR": "runs/demo",
        "SLURM_JOB_ID": "42",
        "SLURM_JOB_NODELIST": "node-[7-8]",
        "SLURM_NTASKS": "4",
    }
    script = "bash", str(LAUNCH / "slurm.sbatch"), "--max-steps", "9"
    assert subprocess.run(script, env=world, check=False).returncode == code
    asked = [p.read_text() for p in tmp_path.glob("scontrol-requeue")]
    assert asked == ["requeue 42\n"] * again
    told = {n: (tmp_path / n).read_text().split() for n in ("rank", "trainer")}
    assert told["rank"] == ["3", "1", "4", "node-7"]
    settings = ["--run-dir", "runs/demo", "--max-steps", "9"]
    assert told["trainer"] == ["-m", "lockstep.trainer", *settings]


def test_the_recorded_rehearsal_lost_nothing() -> None:
    """In the recorded rehearsal under Slurm the run was preempted and requeued
    once, resumed at the step it had left, and its audit is proven."""
    result = json.loads((LAUNCH / "slurm" / "result.json").read_text())
    assert result["audit"]["proven"]
    assert result["audit"]["restarts"] == 1
    assert result["audit"]["replayed_steps"] == 0
    assert result["left_at_step"] == result["restored_step"]
    assert result["without_requeue"]["JobState"] == "FAILED"
