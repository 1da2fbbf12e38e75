"""What a newcomer reads while `make` installs, and where it cannot go on."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT, need
from tests.makefile import make, rules

QUIETLY = ROOT / ".ci" / "quietly"
NOWHERE = "http://127.0.0.1:9"  # the port of `discard`: nobody listens


def step(
    log: Path, commands: str, *before: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a step as the Makefile does."""
    return subprocess.run(
        [*before, QUIETLY, log, "Installing", commands],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=60,
    )


def gone(command: str) -> bool:
    """Nobody runs this command, or nobody does a moment later."""
    for _ in range(50):
        if subprocess.run(["pgrep", "-f", f"^{command}"]).returncode:
            return True
        time.sleep(0.1)
    return False


def test_a_step_says_what_it_does_and_keeps_its_noise(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "step.log"
    done = step(log, "echo npm notice; echo WARNING: pip is old >&2")
    assert (done.stdout, done.stderr) == ("Installing ...\n", "")
    assert done.returncode == 0
    assert log.read_text() == "npm notice\nWARNING: pip is old\n"


def test_a_terminal_shows_that_it_goes_on(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [QUIETLY, tmp_path / "log", "Installing", "sleep 1.5"]
    subprocess.run(command, stdout=theirs, check=True, timeout=60)
    os.close(theirs)
    shown = os.read(ours, 4096).decode()
    os.close(ours)
    assert re.match(r"Installing \.\.\.\rInstalling \.\.\. [1-9]\d* s", shown)


def test_a_failure_of_unknown_cause_shows_the_end_of_the_log(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    done = step(log, "seq 100; echo no such option; false; echo never")
    assert done.returncode == 2
    first, _, *end = done.stderr.splitlines()
    assert first == f"This failed. The end of {log}:"
    assert end[0] == "87"
    assert end[-1] == "no such option"
    assert "never" not in log.read_text()


@pytest.mark.parametrize("ended", ["fails", "is interrupted"])
def test_no_process_stays_when_a_step_ends(tmp_path: Path, ended: str) -> None:
    seconds = f"6{os.getpid()}"
    command = f"sleep {seconds} & "
    log = tmp_path / "log"
    if ended == "fails":
        assert step(log, command + "exit 1").returncode == 2
    else:
        commands = command + "echo begun; wait $!"
        running = subprocess.Popen(
            [QUIETLY, log, "Installing", commands], stdout=subprocess.DEVNULL
        )
        while not (log.exists() and "begun" in log.read_text()):
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=30) == 130
    assert gone(f"sleep {seconds}")


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The only line that explains a failure; make adds one of its own."""
    assert done.returncode == 2
    lines = [x for x in done.stderr.splitlines() if not x.startswith("make: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_pip_without_a_network_ends_in_a_line(tmp_path: Path) -> None:
    done = step(
        tmp_path / "log",
        f"{sys.executable} -m pip install --no-cache-dir"
        f" --target {tmp_path}/into --index-url {NOWHERE}/simple attrs",
        PIP_CONFIG_FILE=os.devnull,
        PIP_FIND_LINKS="",
        PIP_EXTRA_INDEX_URL="",
        PIP_RETRIES="1",
    )
    said = one_line(done)
    assert said.startswith("No package index answered. Check the network")
    assert str(tmp_path / "log") in said


def test_npm_without_a_network_ends_in_a_line(tmp_path: Path) -> None:
    need(shutil.which("npm") is not None, "npm (`make install`)")
    for name in "package.json", "package-lock.json":
        shutil.copy(ROOT / name, tmp_path)
    done = step(
        tmp_path / "log",
        f"cd {tmp_path}; npm ci --cache {tmp_path}/cache --registry {NOWHERE}",
        npm_config_fetch_retries="0",
    )
    assert one_line(done).startswith("No package index answered.")


def test_a_full_disk_ends_in_a_line(tmp_path: Path) -> None:
    """What fails there is often not told: the log lies on the same disk."""
    alone = ["unshare", "--map-root-user", "--mount"]
    may = subprocess.run([*alone, "true"], capture_output=True).returncode == 0
    if not may:
        alone = ["sudo", "--non-interactive", "unshare", "--mount"]
        may = subprocess.run([*alone, "true"]).returncode == 0
    need(may, "a mount of our own (`unshare --mount`)")
    script = f'mount -t tmpfs -o size=64k none {tmp_path}; exec "$@"'
    done = step(
        tmp_path / "logs" / "step.log",
        f"head -c 1000000 /dev/zero > {tmp_path}/unpacked",
        *[*alone, "bash", "-euc", script, "-"],
    )
    assert (
        one_line(done)
        == "The disk is full. Make room on it, then run make again."
    )


def test_a_full_disk_that_was_cleared_is_told_from_the_log(
    tmp_path: Path,
) -> None:
    said = "ERROR: Could not install packages due to an OSError: [Errno 28] No"
    done = step(tmp_path / "log", f"echo {said} space left on device; exit 1")
    assert one_line(done).startswith("The disk is full.")


def test_a_taken_port_ends_in_a_line_before_anything_is_installed(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = make("serve", f"PORT={port}", f"VENV={tmp_path}/venv")
    said = one_line(done)
    assert said.startswith(f"Port {port} is taken.")
    assert said.endswith(f"make serve PORT={port + 1}")
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize("version", ["3.10", "none"])
def test_an_old_or_missing_python_ends_in_a_line(
    tmp_path: Path, version: str
) -> None:
    python = tmp_path / "python3"
    if version != "none":
        said = f"import sys; sys.version_info = ({version.replace('.', ',')})"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{said}; $2"\n')
        python.chmod(0o755)
    done = make("install", f"PYTHON={python}", f"VENV={tmp_path}/venv")
    said = one_line(done)
    assert said.startswith("Lockstep needs Python 3.11 or newer")
    assert said.endswith("make PYTHON=/path/to/python3")
    assert not (tmp_path / "venv").exists()


def test_everything_is_installed_by_such_a_step() -> None:
    """Elsewhere pip and npm would speak to the reader."""
    text = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    recipes = [line for line in text.splitlines() if line.startswith("\t")]
    tools = re.compile(r"\$\(PIP\)|\$\(PINNED\)|pip install|npm ci|-m venv")
    installing = [line for line in recipes if tools.search(line)]
    assert len(installing) >= 8
    for line in installing:
        assert "$(call quietly," in line or ".ci/quietly" in line, line
    assert "quietly" not in rules()["serve"].recipe
