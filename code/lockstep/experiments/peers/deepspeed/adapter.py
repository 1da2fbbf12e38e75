"""The exam's adapter for DeepSpeed with ZeRO stage 1."""

import socket
from contextlib import suppress
from pathlib import Path

from lockstep.exam.adapter import Launch
from lockstep.experiments.peers.launching import by_numbers, options

name = "DeepSpeed"
lacks = {
    "ema": "it keeps no averaged weights",
    # With ZeRO the weights follow after the optimizer's step, so that the exam
    # cannot know those that a launch leaves with.
    "stop": "it is stopped by a kill, since the exam misses its last weights",
}


def command(launch: Launch) -> list[object]:
    """By DeepSpeed's own launcher, on a port that is free."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    return [
        "env", "DS_ACCELERATOR=cpu",
        launch.python, "-m", "deepspeed.launcher.runner",
        "--num_accelerators", launch.ranks, "--master_port", port,
        *script(launch),
    ]  # fmt: skip


def script(launch: Launch) -> list[object]:
    """The script and its settings, where nothing of a killed launch is left:
    its buffers in shared memory, 64 MiB each, add up."""
    for left in Path("/dev/shm").glob("deepspeed_allreduce_buffer_*"):
        with suppress(PermissionError):
            left.unlink()
    return [Path(__file__).with_name("train.py"), *options(launch)]


def checkpoints(run_dir: Path) -> list[Path]:
    """By the step in their names."""
    return by_numbers((run_dir / "checkpoints").glob("global_step*"))
