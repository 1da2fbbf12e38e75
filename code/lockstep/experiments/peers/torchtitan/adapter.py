"""The exam's adapter for torchtitan's parts."""

from pathlib import Path

from lockstep.exam.adapter import Launch
from lockstep.experiments.peers.launching import by_numbers, options, torchrun

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
        *torchrun(launch), Path(__file__).with_name("train.py"),
        *options(launch),
    ]  # fmt: skip


def checkpoints(run_dir: Path) -> list[Path]:
    """Those that its checkpointer calls valid."""
    found = (run_dir / "checkpoint").glob("step-*/.metadata")
    return by_numbers(path.parent for path in found)
