"""How the peers' training scripts are launched.

An adapter passes the settings of a launch as options, and the script reads them
from its command line. Where a script has repairs, `mended.py` is the adapter
that asks for them.
"""

import argparse
import re
import runpy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from lockstep.exam.adapter import Launch

NUMBERS = (
    "ranks", "steps", "stop_at", "save_every", "global_batch", "workers",
    "seed", "timeout_seconds",
)  # fmt: skip


def torchrun(launch: Launch) -> list[object]:
    """Return the command that starts a launch's ranks, up to the script."""
    return [
        launch.python, "-m", "torch.distributed.run", "--standalone",
        "--nproc-per-node", launch.ranks,
    ]  # fmt: skip


def options(launch: Launch) -> list[object]:
    """Return the settings of a launch as a script's options."""
    words: list[object] = []
    for name in ("run_dir", "precision", *NUMBERS):
        if (value := getattr(launch, name)) is not None:
            words += [option(name), value]
    return words


def option(name: str) -> str:
    """Return the option for a setting."""
    return "--" + name.replace("_", "-")


def arguments(*more: str) -> argparse.Namespace:
    """Read a script's options; what is missing is as in a plain launch.

    Args:
        more: further options, for whole numbers that a launcher passes.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--precision", default=Launch.precision)
    parser.add_argument("--mended", action="store_true")
    for name in NUMBERS:
        default = getattr(Launch, name)
        parser.add_argument(option(name), type=int, default=default)
    for name in more:
        parser.add_argument(name, type=int)
    return parser.parse_args()


def by_numbers(paths: Iterable[Path]) -> list[Path]:
    """Sort checkpoints by the numbers in their names."""
    return sorted(paths, key=lambda path: numbers(path.name))


def numbers(name: str) -> list[int]:
    """Return all numbers in a name."""
    return [int(digits) for digits in re.findall(r"\d+", name)]


class Mended(NamedTuple):
    """What an adapter defines, for a script with its repairs."""

    name: str
    lacks: dict[str, str]
    command: Callable[[Launch], list[object]]
    checkpoints: Callable[[Path], list[Path]]


def mended(file: str, script: str = "train.py") -> Mended:
    """Return what `adapter.py` defines, but for the mended script.

    Args:
        file: the `mended.py` that stands next to it.
        script: what to launch instead of `train.py`.
    """
    plain = runpy.run_path(str(Path(file).with_name("adapter.py")))
    theirs, ours = (Path(file).with_name(n) for n in ("train.py", script))

    def command(launch: Launch) -> list[object]:
        words = plain["command"](launch)
        words = [ours if word == theirs else word for word in words]
        return [*words, "--mended"]

    name, lacks = f"{plain['name']}, mended", plain.get("lacks", {})
    return Mended(name, lacks, command, plain["checkpoints"])
