"""The exam's adapter of the plain loop, and of others with its settings."""

# --8<-- [start:adapter]
from pathlib import Path

from lockstep.exam.adapter import Launch

name = "A plain loop with Lockstep's pieces"  # the report's title
SCRIPT = Path(__file__).with_name("plain_loop.py")


def command(launch: Launch, script: Path = SCRIPT) -> list[object]:
    """By torchrun, with a setting for each of what the exam asks for."""
    return [
        launch.python, "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", launch.ranks, script,
        "--run-dir", launch.run_dir,
        "--steps", launch.steps,
        "--stop-at", launch.stop_at or -1,
        "--save-every", launch.save_every,
        "--batch", launch.global_batch,
        "--micro-batch", launch.micro_batch or -1,
        "--workers", launch.workers,
        "--fp16" if launch.precision == "fp16" else "--no-fp16",
        "--seed", launch.seed,
        "--seconds", launch.timeout_seconds,
    ]  # fmt: skip


# --8<-- [end:adapter]
