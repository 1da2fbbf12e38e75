"""A batch script of Slurm, with commands that only say they were called."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

LAUNCH = Path(__file__).parents[2] / "code" / "launch"
SCONTROL = 'echo "$@" >>"$TOLD/scontrol-$1"; echo node-7; echo node-8'


def executable(path: Path, text: str) -> Path:
    """Write a shell script that can be called by its path."""
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return path


class Batch:
    """The batch script of one run, started as often as Slurm would.

    Args:
        folder: where the commands write what they were asked.
        script: the script and its arguments.
        stubs: what each command but `scontrol` does.
        size: the variables in which Slurm says how large the job is.
    """

    def __init__(
        self,
        folder: Path,
        script: Sequence[str],
        stubs: Mapping[str, str],
        size: Mapping[str, str],
    ) -> None:
        self.folder, self.run_dir = folder, folder / "run"
        self.script, self.size = script, size
        for name, text in {**stubs, "scontrol": SCONTROL}.items():
            executable(folder / name, text)

    def start(self, said: str, code: int) -> int:
        """Start it where `srun` says `said` and returns `code`."""
        world = {
            "PATH": f"{self.folder}:/usr/bin:/bin",
            "TOLD": str(self.folder),
            "SAID": said,
            "CODE": str(code),
            "RUN_DIR": str(self.run_dir),
            "SLURM_JOB_ID": "42",
            "SLURM_JOB_NODELIST": "node-[7-8]",
            **self.size,
        }
        command = "bash", str(LAUNCH / self.script[0]), *self.script[1:]
        return subprocess.run(command, env=world, check=False).returncode

    def asked(self, command: str) -> list[str]:
        """Return what `scontrol` was asked by that command."""
        path = self.folder / f"scontrol-{command}"
        return path.read_text().splitlines() if path.exists() else []
