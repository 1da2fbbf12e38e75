"""The TorchX component, launched for real where TorchX is installed.

TorchX 0.7.0 needs a urllib3 older than the one that is pinned here, so it has
a folder of its own: `make torchx`.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.trainer.extensions.audit import audit

pytest.importorskip("torchx", reason="`make torchx` installs it and runs this")
COMPONENT = Path(__file__).parents[2] / "code/launch/torchx_component.py"


def test_the_component_trains_on_two_ranks(tmp_path: Path) -> None:
    """The TorchX component runs the trainer on two local ranks to its end, and
    the audit proves the run."""
    program = "from torchx.cli.main import main; main()"
    settings = "--run-dir", "run", "--max-steps", "5", "--hidden-size", "32"
    subprocess.run(
        [
            *(sys.executable, "-c", program, "run", "--wait"),
            *("--scheduler", "local_cwd", f"{COMPONENT}:trainer"),
            *("--j", "1x2", "--", *settings),
        ],
        cwd=tmp_path,
        check=True,
    )
    report = audit(tmp_path / "run")
    assert report.proven
    assert report.finished
    assert len(list((tmp_path / "run" / "samples").iterdir())) == 2
