"""How the exam launches Lockstep's trainer."""

from pathlib import Path

from lockstep.exam.adapter import Launch

name = "Lockstep"
lacks = {"ema": "it keeps no averaged weights"}


SCRIPT = Path(__file__).with_name("train.py")


def command(launch: Launch, script: Path = SCRIPT) -> list[object]:
    """As its own page says."""
    micro = launch.global_batch // launch.ranks // 2 or 1
    stop = ["--stop-at-step", launch.stop_at] if launch.stop_at else []
    return [
        launch.python, "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", launch.ranks,
        script,
        "--run-dir", launch.run_dir,
        "--max-steps", launch.steps, *stop,
        "--global-batch-size", launch.global_batch,
        "--micro-batch-size", micro,
        "--checkpoint-every-steps", launch.save_every,
        "--num-workers", launch.workers,
        "--precision", launch.precision,
        "--seed", launch.seed,
        "--timeout-seconds", launch.timeout_seconds,
    ]  # fmt: skip


def checkpoints(run_dir: Path) -> list[Path]:
    """Names sort by step."""
    return sorted((run_dir / "checkpoints").glob("step-*"))
