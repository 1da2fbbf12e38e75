"""Run notebooks top to bottom, each in a clean virtual environment.

    python -m lockstep.site.verify.notebooks [--record] labs/*.ipynb

A reader opens a notebook in Colab and finds what Colab has (the dependency
group `notebook`), the notebook's own cells, and nothing of this repository.
So each is run in an empty folder, by a Python of its own, and fails when a
cell raises.

To install torch for each notebook would take minutes. The packages lie in one
base environment under `.cache/`, named for what decides its contents. The
environment of a notebook is new and empty and sees the base through a path
file: it is made in a blink, and what a cell installs goes with it.

With `--warm` the interpreters that cells start are forks of one that has torch
loaded (`lockstep.site.verify.warm`): the same packages, sooner.

`--record` keeps what the cells print in the file, for those who only read it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path

import nbformat
from nbconvert.preprocessors import CoalesceStreamsPreprocessor

from lockstep.site.pages.labs import as_text
from lockstep.site.verify.warm import served

GROUP = "notebook"
SECONDS = 600  # for a whole notebook
# What nbclient's own command does, but that the kernel listens to files. Of
# ports it draws some that are free, and binds them when they may not be.
_EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

notebook = nbformat.read(sys.argv[1], as_version=4)
files = {"transport": "ipc", "ip": f"{sys.prefix}/kernel"}
config = Config({"KernelManager": files})
NotebookClient(notebook, kernel_name="python3", config=config).execute()
nbformat.write(notebook, sys.argv[1])
"""


class NotebookFailed(Exception):
    """A cell raised, or the notebook took too long; says what was printed."""


def base_environment(project: Path, constraint: Path, cache: Path) -> Path:
    """Return an environment that holds what Colab has; make a missing one.

    Its name is a digest of the packages, their pins and this Python.
    """
    table = tomllib.loads(project.read_text("utf-8"))["dependency-groups"]
    key = repr((sys.version, table[GROUP], constraint.read_text("utf-8")))
    base = cache / hashlib.sha256(key.encode()).hexdigest()[:12]
    if base.exists():
        return base
    # Renamed when it is whole: half an environment is none.
    new = base.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    venv.create(new, with_pip=True, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(new)]
    pins = ["--constraint", str(constraint), "--group", f"{project}:{GROUP}"]
    subprocess.run([*pip, "install", "--quiet", *pins], check=True)
    return new.rename(base)


def clean_environment(base: Path, folder: Path) -> Path:
    """Make a new environment that sees `base`; return its Python."""
    venv.create(folder, symlinks=True)
    (_packages(folder) / "base.pth").write_text(f"{_packages(base)}\n")
    python = folder / "bin" / "python"
    # A command of its own, so that a cell's `!pip install` finds no other.
    pip = python.with_name("pip")
    start = "import runpy\nrunpy.run_module('pip', run_name='__main__')\n"
    pip.write_text(f"#!{python}\n{start}")
    pip.chmod(0o755)
    return python


def run(notebook: Path, base: Path, warm: Path | None = None) -> str:
    """Run every cell in order; return the notebook with its outputs.

    Args:
        warm: the folder of commands that start sooner, if there is one.

    Raises:
        NotebookFailed: A cell raised, the kernel died, or time ran out.
    """
    with tempfile.TemporaryDirectory() as scratch:
        python = clean_environment(base, Path(scratch, "environment"))
        work = Path(scratch, "work")
        work.mkdir()
        shutil.copy(notebook, work)
        try:
            done = subprocess.run(
                [python, "-c", _EXECUTE, notebook.name],
                cwd=work,
                env=_environ(python, base, warm),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise NotebookFailed(f"not done after {SECONDS} s") from None
        if done.returncode:
            raise NotebookFailed(done.stdout.strip())
        return (work / notebook.name).read_text("utf-8")


def record(notebook: Path, executed: str) -> None:
    """Keep in `notebook` what each cell of the `executed` one has printed."""
    ran = nbformat.reads(executed.replace(r"\r\n", r"\n"), as_version=4)
    ran, _ = CoalesceStreamsPreprocessor().preprocess(ran, {})
    kept = nbformat.read(notebook, as_version=4)
    for cell, twin in zip(kept.cells, ran.cells, strict=True):
        if cell.cell_type == "code":
            cell.outputs = twin.outputs
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = None
    notebook.write_text(as_text(kept), encoding="utf-8")


def attempt(
    notebook: Path, base: Path, keep: bool, warm: Path | None = None
) -> str:
    """Run a notebook, and `keep` its outputs in it; return what to say."""
    start = time.monotonic()
    try:
        executed = run(notebook, base, warm)
    except NotebookFailed as error:
        result = f"{error}\n{notebook}: FAILED"
    else:
        result = f"{notebook}: passed"
        if keep:
            record(notebook, executed)
    return f"{result} in {time.monotonic() - start:.1f} s"


def _environ(python: Path, base: Path, warm: Path | None) -> dict[str, str]:
    """Return our environment without what would let ours shine through."""
    ours = ("PYTHON", "JUPYTER", "IPYTHON", "COV")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    path = [warm, python.parent, kept.get("PATH", os.defpath)]
    return kept | {
        "VIRTUAL_ENV": str(python.parents[1]),
        "PATH": os.pathsep.join(str(one) for one in path if one),
        # Before a user's own kernels: this one starts whoever asks for it.
        "JUPYTER_PATH": str(base / "share" / "jupyter"),
        "PYTHONNOUSERSITE": "1",
    }


def _packages(environment: Path) -> Path:
    (found,) = environment.resolve().glob("lib/python*/site-packages")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the notebooks; print a line for each; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m lockstep.site.verify.notebooks"
    )
    parser.add_argument("notebooks", nargs="*", type=Path)
    parser.add_argument("--constraint", type=Path, default="constraints.txt")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--warm",
        action="store_true",
        help="interpreters of cells as forks of a warm one",
    )
    options = parser.parse_args(arguments)
    if not options.notebooks:
        print("there are no notebooks yet")
        return 0
    base = base_environment(
        Path("pyproject.toml"), options.constraint, Path(".cache/notebooks")
    )
    failed = 0
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPool(options.jobs))
        warm = options.warm and stack.enter_context(
            served(base.absolute() / "bin/python")
        )
        act = partial(attempt, base=base, keep=options.record, warm=warm)
        for said in pool.imap(act, options.notebooks):
            print(said)
            failed += ": FAILED in " in said
    print(f"{len(options.notebooks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
