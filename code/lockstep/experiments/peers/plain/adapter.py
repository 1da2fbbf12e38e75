"""The exam's adapter for plain PyTorch with torchdata and DCP."""

from pathlib import Path

from lockstep.exam.adapter import Launch

name = "Plain PyTorch: torchdata and DCP"
lacks = {"ema": "the script keeps no averaged weights"}
TRAIN = Path(__file__).with_name("train.py")


def command(launch: Launch) -> list[object]:
    """By torchrun."""
    stop = ["--stop-at", launch.stop_at] if launch.stop_at else []
    return [
        launch.python, "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", launch.ranks, TRAIN,
        "--run-dir", launch.run_dir, "--steps", launch.steps, *stop,
        "--save-every", launch.save_every, "--batch", launch.global_batch,
        "--workers", launch.workers, "--precision", launch.precision,
        "--seed", launch.seed, "--timeout", launch.timeout_seconds,
    ]  # fmt: skip


def checkpoints(run_dir: Path) -> list[Path]:
    """DCP writes `.metadata` last."""
    return sorted(path.parent for path in run_dir.glob("step-*/.metadata"))
