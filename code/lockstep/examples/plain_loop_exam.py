"""The exam's adapter of the plain loop, and of others with its settings."""

# --8<-- [start:adapter]
from pathlib import Path

from lockstep.exam.adapter import Launch

name = "A plain loop with Lockstep's pieces"  # the report's title
SCRIPT = Path(__file__).with_name("plain_loop.py")


def command(launch: Launch, script: Path = SCRIPT) -> list[object]:
    """Return torchrun's command line, with each setting of the launch."""
    return [
        launch.python, "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", launch.ranks, script, "--run-dir", launch.run_dir,
        "--steps", launch.steps, "--stop-at", launch.stop_at or -1,
        "--batch", launch.global_batch, "--save-every", launch.save_every,
        "--micro-batch", launch.micro_batch or -1, "--seed", launch.seed,
        "--workers", launch.workers, "--seconds", launch.timeout_seconds,
        "--fp16" if launch.precision == "fp16" else "--no-fp16",
    ]  # fmt: skip


# --8<-- [end:adapter]
