"""The exam's adapter for torchtitan's parts."""

from pathlib import Path

from lockstep.exam.adapter import Launch

name = "torchtitan"
lacks = {
    "stop": "it leaves when training.steps are done, and then saves the model"
    " alone",
    "scaler": "it trains in bf16 or fp32, and has no gradient scaler",
    "ema": "it keeps no averaged weights",
}


def command(launch: Launch) -> list[object]:
    """By torchrun, as its run_train.sh."""
    return [
        launch.python, "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", launch.ranks,
        Path(__file__).with_name("train.py"),
        "--run-dir", launch.run_dir,
        "--steps", launch.steps,
        "--save-every", launch.save_every,
        "--global-batch", launch.global_batch,
        "--workers", launch.workers,
        "--seed", launch.seed,
        "--timeout", launch.timeout_seconds,
    ]  # fmt: skip


def checkpoints(run_dir: Path) -> list[Path]:
    """Those that its checkpointer calls valid."""
    found = (run_dir / "checkpoint").glob("step-*/.metadata")
    folders = [path.parent for path in found]
    return sorted(folders, key=lambda path: int(path.name.split("-")[1]))
