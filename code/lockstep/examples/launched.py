"""How the exam launches the trainer on a task."""

from collections.abc import Sequence
from pathlib import Path

from lockstep.exam.adapter import Launch

LACKS = {"ema": "it keeps no averaged weights"}
TRAINER = "-m", "lockstep.trainer"


# --8<-- [start:launched]
def launched(
    launch: Launch, task: str, program: Sequence[object] = TRAINER
) -> list[object]:
    """Translate what the exam asks for into the trainer's settings."""
    stop = ["--stop-at-step", launch.stop_at] if launch.stop_at else []
    half = launch.global_batch // launch.ranks // 2 or 1
    return [
        launch.python, "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", launch.ranks, *program,
        "--task", task,
        "--run-dir", launch.run_dir,
        "--max-steps", launch.steps, *stop,
        "--global-batch-size", launch.global_batch,
        "--micro-batch-size", launch.micro_batch or half,
        "--checkpoint-every-steps", launch.save_every,
        "--num-workers", launch.workers,
        "--precision", launch.precision,
        "--seed", launch.seed,
        "--timeout-seconds", launch.timeout_seconds,
    ]  # fmt: skip


# --8<-- [end:launched]
def checkpoints(run_dir: Path) -> list[Path]:
    """Names sort by step."""
    return sorted((run_dir / "checkpoints").glob("step-*"))
