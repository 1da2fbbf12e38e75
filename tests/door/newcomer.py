"""Somebody who has a machine with Python, make and git, and nothing of ours.

Packages that were downloaded once may come from pip's and npm's caches. No
environment, no `node_modules`, no `.cache` and no setting of ours is there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# Where pip and npm keep what they downloaded, and where from.
_KEPT = ".cache/pip", ".config/pip", ".pip", ".npm", ".npmrc"
_OURS = re.compile(
    r"MAKE|MFLAGS|VENV|VIRTUAL_ENV|PYTHON.|PYTEST|PY_|COV|XDG_DATA|CI$|PORT$"
    r"|REPO_URL$|SITE_URL$|OMP_"
)


class Newcomer:
    """A home, an environment, and folders to work in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        home = Path.home()
        for name in _KEPT:
            if (home / name).exists():
                link = folder / "home" / name
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(home / name)
        (folder / "home").mkdir(exist_ok=True)
        # What CI's jobs call `python`, which need not be there otherwise.
        base = getattr(sys, "_base_executable", sys.executable)
        (folder / "bin").mkdir()
        python = folder / "bin" / "python"
        python.write_text(f'#!/bin/sh\nexec {base} "$@"\n')
        python.chmod(0o755)
        paths = os.environ["PATH"].split(os.pathsep)
        path = [x for x in paths if not Path(x).is_relative_to(ROOT)]
        self.environ = {
            name: value
            for name, value in os.environ.items()
            if not _OURS.match(name)
        } | {
            "HOME": str(folder / "home"),
            "PATH": os.pathsep.join([*path, str(folder / "bin")]),
        }
        # CI names another Python, and another torch, for all that it runs.
        for name in "PYTHON", "TORCH":
            if name in os.environ:
                self.environ[name] = os.environ[name]

    def clone(self, name: str = "lockstep") -> Path:
        """A new clone of what is committed."""
        target = self.folder / name
        command = ["git", "clone", "--quiet", "--no-local", str(ROOT), target]
        subprocess.run(command, check=True)
        return target

    def run(
        self, command: str, where: Path, said: str = "", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a line of shell; what it says comes in one text, `stdout`."""
        with tempfile.TemporaryFile("w+") as out:
            done: subprocess.CompletedProcess[Any] = subprocess.run(
                ["bash", "-c", command],
                cwd=where,
                env=self.environ | environ,
                input=said,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
            )
            out.seek(0)
            done.stdout = out.read()
        return done

    def must(
        self, command: str, where: Path, said: str = "", **environ: str
    ) -> str:
        """What a command says that has to end well."""
        done = self.run(command, where, said, **environ)
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return str(done.stdout)
