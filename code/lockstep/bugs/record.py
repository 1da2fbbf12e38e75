"""Write anew what a bug's LOG shows: the lines that begin with `$` are run.

    python -m lockstep.bugs.record 01 02 …

What needs another machine than this one is in the log as it was seen there.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from . import RUN, Bug, bugs

ELSEWHERE = {"14"}  # two nodes, of which one lists from a cache
WIDTH = 78


def recorded(bug: Bug) -> str:
    """Each command and what it prints, in a folder with the broken trainer."""
    shown = []
    with TemporaryDirectory() as folder:
        trainer = Path(folder, "trainer.py")
        trainer.write_text(bug.broken(), encoding="utf-8")
        env = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": str(WIDTH)}
        for command in re.findall(r"^\$ (.*)", bug.told("LOG"), re.M):
            done = subprocess.run(
                ["bash", "-c", f"{RUN}\n{command}"],
                cwd=folder,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            printed = re.sub(r"\x1b\[\d*m", "", done.stdout)
            shown.append(f"$ {command}")
            shown += [line[:WIDTH].rstrip() for line in printed.splitlines()]
    return "\n".join(shown)


def main(numbers: list[str]) -> None:
    """Of all bugs, or of some."""
    for number, bug in bugs().items():
        if number in ELSEWHERE or (numbers and number not in numbers):
            continue
        path = Path(bug.module.__file__ or "")
        text = path.read_text("utf-8")
        begin, rest = text.split('LOG = r"""\n', 1)
        after = rest.split('"""', 1)[1]
        log = f'LOG = r"""\n{recorded(bug)}\n"""'
        path.write_text(f"{begin}{log}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
