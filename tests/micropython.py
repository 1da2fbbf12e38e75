"""The project's Python in MicroPython, as the worker in a browser runs it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from lockstep.site.build.hooks import in_browser

SCRIPT = Path(__file__).with_name("in_micropython.mjs")


def printed(program: str, inputs: Any) -> str:
    """Run a program next to the files that the site gives to a browser.

    Args:
        program: its text; what it prints is returned.
        inputs: what it finds in `/inputs.json`.
    """
    files = in_browser() | {"inputs.json": json.dumps(inputs)}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("node")), str(SCRIPT)],
        input=json.dumps({"files": files, "program": program}),
        capture_output=True,
        text=True,
        check=False,
    )
    # node prints the failing program on one long line above the error.
    assert done.returncode == 0, done.stderr[-1000:]
    return done.stdout
