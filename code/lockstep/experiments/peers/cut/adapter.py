"""How the exam launches the interview cut."""

from pathlib import Path

from lockstep.exam.adapter import Launch

name = "Lockstep, the interview cut"
lacks = {"ema": "it keeps no averaged weights"}


def command(launch: Launch) -> list[object]:
    """As its first lines say."""
    stop = ["--stop-at-step", launch.stop_at] if launch.stop_at else []
    half = launch.global_batch // launch.ranks // 2
    return [
        launch.python, "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", launch.ranks,
        Path(__file__).with_name("train.py"),
        launch.samples, launch.timeout_seconds,
        "--run-dir", launch.run_dir,
        "--max-steps", launch.steps, *stop,
        "--global-batch-size", launch.global_batch,
        "--micro-batch-size", launch.micro_batch or half,
        "--checkpoint-every-steps", launch.save_every,
        "--log-every-steps", launch.steps,
        "--num-workers", launch.workers,
        "--precision", launch.precision,
        "--seed", launch.seed,
    ]  # fmt: skip
