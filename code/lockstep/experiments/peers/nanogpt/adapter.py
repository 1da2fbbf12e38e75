"""The exam's adapter for a loop in nanoGPT's style."""

# --8<-- [start:adapter]
from pathlib import Path

from lockstep.exam.adapter import Launch

name = "nanoGPT's style"
DRAWS = "batches are drawn with replacement, so there are no epochs: "
lacks = {
    "stop": "it leaves at max_iters alone, and saves only at evaluations",
    "loader-workers": "it has no loader workers",
    "ema": "it keeps no averaged weights",
    "reshuffled": DRAWS + "no order is used twice",
    "partial-batch": DRAWS + "no sample is due once",
    "exactly-once": DRAWS + "no sample is due once",
    "epoch-boundary": DRAWS + "no place in the run is between two",
    "world-size": DRAWS + "no sample is due once on any world size",
}
TRAIN = Path(__file__).with_name("train.py")


def command(launch: Launch) -> list[object]:
    """By torchrun, with init_from as a person would set it."""
    settings = {
        "out_dir": launch.run_dir,
        "eval_interval": launch.save_every,
        "init_from": "resume" if checkpoints(launch.run_dir) else "scratch",
        "gradient_accumulation_steps": launch.ranks,  # it divides by ranks
        "batch_size": launch.global_batch // launch.ranks,
        "max_iters": launch.steps - 1,  # the last one counts
        "lr_decay_iters": launch.steps - 1,
        "dtype": "float16" if launch.precision == "fp16" else "float32",
        "seed": 1337 + launch.seed,
    }
    return [
        launch.python, "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", launch.ranks, TRAIN,
        *(f"--{key}={value}" for key, value in settings.items()),
    ]  # fmt: skip


def checkpoints(run_dir: Path) -> list[Path]:
    """At most one: each save overwrites the last."""
    return sorted(run_dir.glob("ckpt.pt"))


# --8<-- [end:adapter]
