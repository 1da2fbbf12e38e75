"""`python -m lockstep.rl`: a run of two roles, and what its parts are worth."""

import shutil
import sys
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

import torch
import tyro

from lockstep.instruments.forked import in_a_group
from lockstep.trainer.config import ConfigError

from .audit import audit, ratios, reward
from .roles import play
from .schedule import ROUNDS, Run, simulate

Unprefixed = tyro.conf.arg(name="")
Ways = Literal["in-flight", "asked", "settled"]


def launch(cfg: Run, folder: Path, kill_round: int = -1) -> bool:
    """Run `cfg` on forks of this process; whether it came to its end."""
    # An optimizer's first step needs it: loaded here, it is there in each fork.
    import torch._dynamo  # noqa: F401

    folder.mkdir(parents=True, exist_ok=True)
    try:
        in_a_group(cfg.trainers + cfg.samplers, play, cfg, folder, kill_round)
    except BrokenProcessPool:
        return False
    return True


def run(
    folder: tyro.conf.Positional[Path],
    cfg: Annotated[Run, Unprefixed] = Run(),  # noqa: B008 (frozen)
) -> int:
    """Train, or resume the run in `folder`, and report its results."""
    if not launch(cfg, folder):
        print("a rank was killed", file=sys.stderr)
        return 1
    first, last = reward(folder)
    print(f"reward, first and last ten steps: {first:.2f}, {last:.2f}")
    found = audit(folder).items()
    print(", ".join(f"{name} {len(positions)}" for name, positions in found))
    print("\nlag  tokens  mean ratio  spread  clipped")
    for lag, row in ratios(folder).items():
        print(
            f"{lag:3} {row['tokens']:7.0f} {row['mean']:11.2f}"
            f" {row['spread']:7.3f} {row['clipped']:8.1%}"
        )
    return 0


def schedule() -> int:
    """Idle shares and refusals by `max_lag`, in rounds; nothing is trained."""
    lengths = sorted({*ROUNDS})
    print(
        "                   idle               refused, by rounds of an answer"
    )
    print("max lag  samplers  samplers  trainers", end=" ")
    print(*(f"{length:6}" for length in lengths))
    for max_lag, samplers in (0, 1), (2, 1), (6, 1), (2, 2), (12, 2):
        found = simulate(Run(max_lag=max_lag, samplers=samplers, steps=400))
        idle = found["sampler idle"], found["trainer idle"]
        shares = []
        for length in lengths:
            lost = found["refused"][length]
            shares.append(lost / (lost + found["trained"][length]))
        print(
            f"{max_lag:7} {samplers:9} {idle[0]:9.0%} {idle[1]:9.0%}", end=" "
        )
        print(*(f"{share:6.0%}" for share in shares))
    return 0


def mismatch() -> int:
    """Print three checks at lag zero for a correct job and for defects."""
    right = Run(max_lag=0, batch=32, slots=32, steps=10, temperature=0.6)
    raw = replace(right, logprobs="raw")
    print(
        "at lag zero        mean ratio  spread  clipped"
        "  reported -log p  entropy"
    )
    for name, cfg in {
        "correct": right,
        "bf16 sampler": replace(right, sampler_dtype="bfloat16"),
        "raw logprobs": raw,
        "unscaled trainer": replace(right, trainer_scales=False),
        "both": replace(raw, trainer_scales=False),
    }.items():
        with TemporaryDirectory() as folder:
            launch(cfg, Path(folder))
            (row,) = ratios(Path(folder)).values()
        print(
            f"{name:18} {row['mean']:10.3f} {row['spread']:7.3f}"
            f" {row['clipped']:8.1%} {row['surprise']:16.3f}"
            f" {row['entropy']:8.3f}"
        )
    return 0


def killed() -> int:
    """One run, killed between two checkpoints and resumed in three ways."""
    cfg = Run(steps=20)
    print("resumed by  trained  refused  in flight  twice  lost")
    with TemporaryDirectory() as folder:
        begun = Path(folder) / "killed"
        launch(cfg, begun, kill_round=40)
        ways: tuple[Ways, ...] = "in-flight", "asked", "settled"
        for way in ways:
            again = shutil.copytree(begun, Path(folder) / way)
            launch(replace(cfg, resume_by=way), again)
            print(f"{way:10}", end="")
            for name, positions in audit(again).items():
                print(f"{len(positions):{len(name) + 2}}", end="")
            print()
    return 0


def main() -> int:
    """Run, and return the exit code: 2 for a setting that can't be used."""
    torch.set_num_threads(1)
    commands = (run, schedule, mismatch, killed)
    try:
        return int(
            tyro.extras.subcommand_cli_from_dict(
                {command.__name__: command for command in commands}
            )
        )
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
