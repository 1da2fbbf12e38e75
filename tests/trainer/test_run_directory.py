"""Whose run directory it is."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest

from lockstep.trainer.config import ConfigError
from lockstep.trainer.extensions.run_directory import sole_owner

HOLD = """
import sys, time
from pathlib import Path
from lockstep.trainer.extensions.run_directory import sole_owner
with sole_owner(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, which holds `tmp_path`."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_job_that_is_dying_is_waited_for(
    owner: subprocess.Popen[str], tmp_path: Path
) -> None:
    """SIGKILL is sent, the next job starts at once, and the killed one's last
    moment refuses it nothing."""
    Timer(0.5, owner.kill).start()
    with sole_owner(tmp_path):
        assert owner.wait() < 0


def test_a_job_that_lives_is_not(
    owner: subprocess.Popen[str], tmp_path: Path
) -> None:
    """The directory stays its own, and the refusal names it."""
    refused = pytest.raises(ConfigError, match=f"{tmp_path} is in use")
    with refused, sole_owner(tmp_path):
        pass
    assert owner.poll() is None
