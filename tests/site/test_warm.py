"""A command that runs in a fork of a warm Python is none the wiser."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lockstep.site.verify import warm

pytestmark = pytest.mark.xdist_group("warm")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Clients of a Python that has nothing loaded: what is loaded is no part
    of what is asked here, and takes seconds."""
    with warm.served(preload=()) as found:
        yield found


def start(folder: Path, *words: str, **options: object) -> subprocess.Popen:
    environ = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.Popen(
        words,
        env=environ | options.pop("env", {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def said(folder: Path, *words: str, **options: object) -> tuple[int, str, str]:
    """Exit code, output and errors."""
    process = start(folder, *words, **options)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_a_command_has_its_arguments_folder_and_environment(
    folder: Path, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\nfrom pathlib import Path\n"
        "print(sys.argv, Path.cwd(), os.environ['MINE'], __name__)\n"
    )
    code, out, err = said(
        folder, "python", "script.py", "--two", cwd=tmp_path, env={"MINE": "1"}
    )
    assert (code, err) == (0, "")
    assert out == f"['script.py', '--two'] {tmp_path} 1 __main__\n"


def test_it_is_a_fork(folder: Path) -> None:
    name = "lockstep.site.verify.warm"
    text = f"import sys; print({name!r} in sys.argv, sys.executable)"
    _, out, _ = said(folder, "python", "-c", text)
    assert out == f"False {folder / 'python'}\n"


@pytest.mark.parametrize(
    ("text", "code", "errors"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('no')", 1, "no\n"),
        ("import os; os._exit(4)", 4, ""),
        ("import os; os.kill(os.getpid(), 9)", -9, ""),
        (
            "1 / 0",
            1,
            "Traceback (most recent call last):\n"
            '  File "<string>", line 1, in <module>\n'
            "ZeroDivisionError: division by zero\n",
        ),
    ],
)
def test_it_ends_as_python_does(
    folder: Path, text: str, code: int, errors: str
) -> None:
    assert said(folder, "python", "-c", text) == (code, "", errors)
    assert said(Path(sys.executable).parent, "python", "-c", text) == (
        code,
        "",
        errors,
    )


def test_a_module_that_is_not_there_is_told_as_python_tells_it(
    folder: Path,
) -> None:
    code, _, err = said(folder, "python", "-m", "nothing_of_that_name")
    assert code == 1
    assert err.endswith("No module named nothing_of_that_name\n")


def test_what_runs_at_exit_runs(folder: Path) -> None:
    text = "import atexit; atexit.register(print, 'left', end='')"
    assert said(folder, "python", "-c", text) == (0, "left", "")


def test_files_that_it_inherits_are_open_under_their_numbers(
    folder: Path,
) -> None:
    read, write = os.pipe()
    text = f"import os; os.write({write}, b'here')"
    assert said(folder, "python", "-c", text, pass_fds=[write])[0] == 0
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b"here"


def test_processes_that_it_starts_are_forks_too(folder: Path) -> None:
    text = (
        "import multiprocessing as m\n"
        "if __name__ == '__main__':\n"
        "    with m.get_context('forkserver').Pool(1) as pool:\n"
        "        print(pool.map(abs, [-2]))\n"
    )
    assert said(folder, "python", "-c", text) == (0, "[2]\n", "")


@pytest.mark.parametrize("words", [["--version"], ["-V"], ["-", "a"]])
def test_what_a_fork_cannot_do_python_does(
    folder: Path, words: list[str]
) -> None:
    cold = said(Path(sys.executable).parent, "python", *words)
    assert said(folder, "python", *words) == cold


def test_a_salt_of_its_own_starts_cold(folder: Path) -> None:
    text = "print(hash('scaffold'))"
    once, again, other = (
        said(folder, "python", "-c", text, env={"PYTHONHASHSEED": salt})
        for salt in ("1", "1", "2")
    )
    assert once == again
    assert once != other


def waiting(folder: Path) -> tuple[subprocess.Popen, psutil.Process]:
    """A client, and its fork, which sleeps."""
    text = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    client = start(folder, "python", "-c", text)
    return client, psutil.Process(int(client.stdout.readline()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_fork_ends_with_its_client(
    folder: Path, number: signal.Signals
) -> None:
    client, fork = waiting(folder)
    client.send_signal(number)
    assert client.wait(30) == -number
    gone, alive = psutil.wait_procs([fork], timeout=30)
    assert not alive or fork.status() == psutil.STATUS_ZOMBIE, gone


def test_an_interrupt_is_passed_on(folder: Path) -> None:
    client, _ = waiting(folder)
    client.send_signal(signal.SIGINT)
    _, err = client.communicate(timeout=30)
    assert err.endswith("KeyboardInterrupt\n")


def test_its_parent_is_its_clients(folder: Path) -> None:
    text = "import os; print(os.getppid())"
    assert said(folder, "python", "-c", text)[1] == f"{os.getpid()}\n"


def test_nothing_is_left() -> None:
    with warm.served(preload=()) as folder:
        said(folder, "python", "-c", "0")
        [server] = [
            one
            for one in psutil.process_iter(["cmdline"])
            if str(folder) in (one.info["cmdline"] or [])
        ]
    deadline = time.monotonic() + 30
    while server.is_running() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not server.is_running()
    assert not folder.exists()
