"""Rehearse the interview cut: what holds of the file that you have typed.

    python -m lockstep.drills.rehearsal interview.py
    python -m lockstep.drills.rehearsal --cells 4

The first checks the file's cells, in order; the second prints the first four
cells instead.

A cell counts as typed when what other cells call in it is there, under the
names of the cut. Checking ends at the first cell that fails.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import sys
import threading
import traceback
from importlib import resources, util
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch.distributed as dist

from lockstep.drills.rehearsal.cells import CELLS
from lockstep.drills.rehearsal.tools import SECONDS, Wrong, torchrun
from lockstep.trainer.extensions.launcher import leave, run_and_leave

PROGRAM = "lockstep.drills.rehearsal"

CHECKS = list(CELLS)
ALONE = 3  # cells that need no group


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 if every typed cell holds, 1 if not, 2 for no such file."""
    parser = argparse.ArgumentParser(prog=f"python -m {PROGRAM}")
    parser.add_argument("file", nargs="?", type=Path, help="your file")
    parser.add_argument(
        "--cells",
        type=int,
        choices=range(1, len(CELLS) + 1),
        metavar="N",
        help="number of our cells to print, so that you can continue",
    )
    parser.add_argument("--as-rank", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.cells:
        print(printed(options.cells))
        return 0
    if options.file is None or not options.file.is_file():
        parser.error(f"no such file: {options.file}")
    if options.as_rank:
        return check(options.file, range(options.as_rank))
    try:
        count, missing = typed(options.file)
    except SyntaxError as error:
        print(f"line {error.lineno}: {error.msg}")
        return 1
    with TemporaryDirectory() as folder:
        os.environ["REHEARSAL"] = folder
        if code := rehearse(options.file, count):
            return code
    print(f"{count} of {len(CELLS)} cells pass", end="")
    print(f"; next, {title(count)}: {', '.join(missing)}" if missing else "")
    return 0


def printed(count: int) -> str:
    """The first `count` cells of the cut, as they are typed."""
    source = resources.files("lockstep").joinpath("interview.py").read_text()
    cells = re.findall(r"\[start:\w+\]\n(.*?)\n# --8<-- \[end", source, re.S)
    return "\n\n".join(cells[:count])


def typed(path: Path) -> tuple[int, list[str]]:
    """How many cells are there, and what the next one lacks; SyntaxError."""
    tree = ast.parse(path.read_text("utf-8"))
    kinds = ast.FunctionDef, ast.ClassDef
    there = {node.name for node in tree.body if isinstance(node, kinds)}
    for count, names in enumerate(CELLS.values()):
        if missing := [name for name in names if name not in there]:
            return count, missing
    return len(CELLS), []


def rehearse(path: Path, count: int) -> int:
    """Check the first `count` cells; the exit code.

    The launch is checked from outside, the cells before it by ranks.
    """
    inside = min(count, len(CELLS) - 1)
    if inside > ALONE:
        asked = "-m", PROGRAM, str(path), "--as-rank", str(inside)
        code = torchrun(*asked).wait()
    else:
        code = check(path, range(inside))
    return code or check(path, range(inside, count))


def check(path: Path, cells: range) -> int:
    """Check some cells in this process, which may be one rank of several."""
    cut = None
    for cell in cells:
        watch = threading.Timer(SECONDS, give_up, [cell])
        watch.daemon = True
        if "RANK" in os.environ:
            watch.start()
        try:
            cut = cut or load(path)
            CHECKS[cell](cut)
            if dist.is_initialized():
                dist.barrier()  # it holds when it holds on every rank
        except Wrong as wrong:
            return fail(cell, str(wrong))
        except (Exception, SystemExit) as error:
            return fail(cell, raised(error, path))
        watch.cancel()
        if os.environ.get("RANK", "0") == "0":
            say(cell, (CHECKS[cell].__doc__ or "").rstrip("."))
    return 0


def load(path: Path) -> Any:
    """The file as a module, under a name that is not `__main__`."""
    spec = util.spec_from_file_location("rehearsed", path)
    assert spec
    assert spec.loader
    module = sys.modules[spec.name] = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def title(cell: int) -> str:
    """Number and name, as on the page."""
    return f"{cell + 1} {CHECKS[cell].__name__}"


def say(cell: int, text: str) -> None:
    """One line about a cell."""
    print(f"{title(cell):<12}  {text}", flush=True)


def fail(cell: int, text: str) -> int:
    """Say what is wrong, unless another rank has; the exit code."""
    try:
        Path(os.environ["REHEARSAL"], "said").touch(exist_ok=False)
    except FileExistsError:
        return 1
    say(cell, f"WRONG: {text}")
    return 1


def raised(error: BaseException, path: Path) -> str:
    """An error of the typed file on one line, with its place there."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"line {f.lineno}: " for f in frames if f.filename == str(path)]
    text = str(error).partition("\n")[0]
    return f"{lines[-1] if lines else ''}{type(error).__name__}: {text}"


def give_up(cell: int) -> None:
    """End this rank: a collective waits for one that never makes the call."""
    leave(fail(cell, "ranks wait for each other: all make the same calls"))


if __name__ == "__main__":
    run_and_leave(main)
