"""Python processes that have torch loaded already, for the blocks of pages.

A page's commands start some three hundred interpreters, and each spends two to
five seconds of processor time on importing torch before it does anything. Here
one process imports it once and forks for each command. In a folder that goes
first on PATH, `python`, `torchrun` and `lockstep` are small clients that send
their arguments, environment and open files to that process, pass signals on,
and end as the fork ends. `warm_client.py` is the text of such a client.

What differs from a cold start: a fork shares the salt of `hash()` with all
others, and its own PID is not its client's. A command that shows either is
marked `<!--pytest.mark.cold-->`; without the option `--warm` all start cold.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import F_DUPFD, fcntl
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NoReturn

CLIENT = Path(__file__).with_name("warm_client.py")
NAMES = "python", "python3", "torchrun", "lockstep"
SOCKET = "socket"
IGNORED = "-u", "-B", "-P"  # flags that change nothing here
WARM = "LOCKSTEP_WARM"  # the variable that names the folder
PRELOAD = (
    "torch",
    "torch._dynamo",  # an optimizer's first step imports it
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.device_mesh",
    "torch.distributed.fsdp",
    "torch.distributed.elastic.rendezvous.c10d_rendezvous_backend",
    "torch.distributed.launcher.api",
    "torch.nn.parallel",
    "torch.utils.data",
    "torch.utils.flop_counter",
    "pydantic",
    "rich.progress",
    "safetensors.torch",
    "sklearn.datasets",
    "tyro",
    "yaml",
)


@contextmanager
def served(
    python: str | Path = sys.executable,
    pythonpath: Path | None = None,
    preload: tuple[str, ...] = PRELOAD,
) -> Iterator[Path]:
    """Yield the folder to put first on PATH, while the process behind it runs.

    Args:
        python: whose packages the commands see.
        pythonpath: a folder that comes before them.
        preload: modules that the process imports; one that is missing is left
            out.
    """
    with TemporaryDirectory(prefix="lockstep-warm-") as name:
        folder = Path(name)
        text = CLIENT.read_text("utf-8")
        for one in NAMES:
            script = folder / one
            script.write_text(f"#!{python} -IS\n{text}", "utf-8")
            script.chmod(0o755)
        # -P, or the modules beside this one would hide others of their name.
        process = subprocess.Popen(
            [python, "-P", __file__, str(folder), *preload],
            env=os.environ
            | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(pythonpath or "")},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield folder
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def serve(folder: Path, preload: list[str]) -> list[str]:
    """Fork for each client until the end. Only forks return: the command."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / f"{SOCKET}.new"))
        listening.listen(64)
        for name in preload:
            with suppress(ImportError):
                importlib.import_module(name)
        gc.freeze()  # a fork need not look at what it shares
        (folder / f"{SOCKET}.new").rename(folder / SOCKET)
        while True:
            client, _ = listening.accept()
            with suppress(OSError, ValueError):
                asked, files = received(client)
                pid = os.fork()
                if pid == 0:
                    # The numbers stay the parent's: a garbage collector that
                    # closed these objects would close files of the command.
                    listening.detach()
                    client.detach()
                    break
                for file in files:
                    os.close(file)
                client.sendall(f"{pid}\n".encode())
                watch = threading.Thread(
                    target=watched, args=(client, pid), daemon=True
                )
                watch.start()
                continue
            client.close()
    try:
        return became(asked, files, folder)
    except BaseException:
        traceback.print_exc()
        os._exit(70)


def received(client: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return a client's request, and its open files."""
    files = array.array("i")
    head, found, *_ = client.recvmsg(8, socket.CMSG_SPACE(250 * 4))
    for _, _, data in found:
        files.frombytes(data)
    rest = b""
    while len(rest) < int(head, 16):
        rest += client.recv(1 << 16)
    return json.loads(rest), files.tolist()


def watched(client: socket.socket, pid: int) -> None:
    """Tell the client how its fork ended; end the fork when the client has."""
    ended = threading.Event()

    def listen() -> None:
        with suppress(ConnectionError):
            client.recv(1)  # it says nothing more: this is its end
        if not ended.is_set():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    threading.Thread(target=listen, daemon=True).start()
    _, status = os.waitpid(pid, 0)
    ended.set()
    with suppress(OSError):
        client.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        client.shutdown(socket.SHUT_RDWR)


def became(asked: dict[str, Any], files: list[int], folder: Path) -> list[str]:
    """Take the client's place: its files, folder, environment and parent."""
    os.setsid()
    above = 1 + max(*asked["files"], *files)
    held = [fcntl(one, F_DUPFD, above) for one in files]
    os.closerange(3, above)
    for one, number in zip(held, asked["files"], strict=True):
        os.dup2(one, number)
        os.close(one)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [one for one in paths if one and one not in sys.path]
    status = Path("/proc", str(asked["pid"]), "stat")

    def parent() -> int:
        with suppress(OSError):
            return int(status.read_text().rpartition(")")[2].split()[1])
        return 1

    os.getppid = parent
    sys.executable = str(folder / "python")
    multiprocessing.set_executable(sys.executable)
    command: list[str] = asked["command"]
    return command


def run(name: str, *words: str) -> None:
    """Do what `name words` does, in this process."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    args = list(words)
    if name == "torchrun":
        args = ["-m", "torch.distributed.run", *args]
    elif name == "lockstep":
        args = ["-m", "lockstep.cli", *args]
    while args[0] in IGNORED:
        args.pop(0)
    first, *rest = args
    if first == "-m":
        sys.argv = rest
        sys.path.insert(0, str(Path.cwd()))
        runpy._run_module_as_main(rest[0])  # type: ignore[attr-defined]
        return
    if first == "-c":
        text, file = rest[0], "<string>"
        sys.argv = ["-c", *rest[1:]]
        sys.path.insert(0, "")
    else:
        file, text = first, Path(first).read_text("utf-8")
        sys.argv = args
        sys.path.insert(0, str(Path(first).resolve().parent))
        main.__file__ = file
    exec(compile(text, file, "exec", dont_inherit=True), main.__dict__)


def shown(kind: Any, error: Any, trace: Any) -> None:
    """Print a traceback without the frames of this module."""
    frame = trace
    while frame:
        here = frame.tb_frame.f_code.co_filename == __file__
        frame, trace = frame.tb_next, frame.tb_next if here else trace
    traceback.print_exception(kind, error, trace)


def left(name: str, *words: str) -> NoReturn:
    """Run a command and leave with its code. What Python does at exit is done,
    but modules are not torn down: that takes seconds in a fork, which has to
    copy the memory of each object that it frees."""
    code: Any = 0
    sys.excepthook = shown
    try:
        run(name, *words)
    except SystemExit as error:
        code = error.code
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in sys.stdout, sys.stderr:
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    left(*serve(Path(sys.argv[1]), sys.argv[2:]))
