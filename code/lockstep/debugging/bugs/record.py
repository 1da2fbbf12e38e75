"""Write again what a bug's LOG shows: the lines that begin with `$` are run.

    python -m lockstep.debugging.bugs.record 01 02 …

What this machine lacks has a stand-in.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from . import RUN, Bug, bugs

WIDTH = 78
# Python that each process starts with, by bug.
STAND_INS = {
    # A second node, whose client lists a folder as it was before.
    "14": """\
import os
from lockstep.instruments.late_listing import list_late

if os.environ.get("RANK") == "1":
    list_late(lambda name: name == "step-00000100")
""",
}


def recorded(bug: Bug) -> str:
    """Each command and what it prints, in a folder with the broken trainer."""
    shown = []
    with TemporaryDirectory() as folder:
        trainer = Path(folder, "trainer.py")
        trainer.write_text(bug.broken(), encoding="utf-8")
        start = Path(folder, "start", "sitecustomize.py")
        start.parent.mkdir()
        start.write_text(STAND_INS.get(bug.number, ""), encoding="utf-8")
        env = os.environ | {
            "OMP_NUM_THREADS": "1",
            "COLUMNS": str(WIDTH),
            "PYTHONPATH": str(start.parent),
        }
        for command in re.findall(r"^\$ (.*)", bug.constant("LOG"), re.M):
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
    """Record all bugs, or some."""
    for number, bug in bugs().items():
        if numbers and number not in numbers:
            continue
        path = Path(bug.module.__file__ or "")
        text = path.read_text("utf-8")
        begin, rest = text.split('LOG = r"""\n', 1)
        after = rest.split('"""', 1)[1]
        log = f'LOG = r"""\n{recorded(bug)}\n"""'
        path.write_text(f"{begin}{log}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
