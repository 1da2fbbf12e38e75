"""Launch a training script as torchrun does, in forks of this process.

Importing torch takes most of a short run's time, so this process imports it
once, and forks a launcher that forks the ranks. Modules of Lockstep are loaded
anew in each rank, some of them from changed sources.
"""

import importlib
import os
import runpy
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

PRELOAD = (
    "torch", "torch._dynamo", "torch.distributed", "torch.nn.parallel",
    "torch.optim.swa_utils", "torch.utils.data",
    "torch.distributed.elastic.rendezvous.c10d_rendezvous_backend",
    "numpy", "tyro", "accelerate", "lightning",
)  # fmt: skip
GRACE = 30.0  # seconds that torchrun gives its ranks after SIGTERM


def preload() -> None:
    """Import what ranks need, before the first fork."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in PRELOAD:
        with suppress(ImportError):
            importlib.import_module(name)


class Process:
    """A fork, with the part of `subprocess.Popen` that the exam uses."""

    def __init__(self, act: Callable[[], int], env: dict[str, str]) -> None:
        """Run `act` in a fork; what it prints can be read from `stdout`."""
        read, write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            become(write, env)
            leave(act)
        os.close(write)
        self.stdout = os.fdopen(read, "rb", buffering=0)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        while (code := self.poll()) is None:
            time.sleep(0.02)
        return code

    def terminate(self) -> None:
        """Send SIGTERM."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)


def become(output: int, env: dict[str, str]) -> None:
    """Be a process of its own: session, output, environment, open files."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in (nothing, 0), (output, 1), (output, 2):
        os.dup2(source, target)
    os.closerange(3, 4096)
    sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(env)


def leave(act: Callable[[], int]) -> NoReturn:
    """Run `act` and end this process with its exit code."""
    code: Any = 1
    try:
        code = act()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def torchrun(ranks: int, act: Callable[[], int]) -> int:
    """Run `act` on each rank as `torchrun --standalone` would: when a rank
    fails, or when SIGTERM comes, the others get SIGTERM, then SIGKILL.

    Returns:
        The exit code: 0 if all ranks ended with 0, otherwise 1.
    """
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    running = {started(rank, ranks, port, act): rank for rank in range(ranks)}
    failed, deadline = False, float("inf")
    while running:
        with suppress(ChildProcessError):
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                rank = running.pop(pid, None)
                code = os.waitstatus_to_exitcode(status)
                if rank is not None and code:
                    print(f"E0000 rank {rank} ended with {code}", flush=True)
                    failed = True
                continue
        if (failed or told) and deadline == float("inf"):
            deadline = time.monotonic() + GRACE
            ended(running, signal.SIGTERM)
        if time.monotonic() > deadline:
            ended(running, signal.SIGKILL)
        time.sleep(0.01)
    return int(failed or bool(told))


def ended(running: Mapping[int, int], how: signal.Signals) -> None:
    """Send a signal to all ranks."""
    for pid in running:
        with suppress(ProcessLookupError):
            os.kill(pid, how)


def started(rank: int, ranks: int, port: int, act: Callable[[], int]) -> int:
    """Fork a rank and return its process's number."""
    if pid := os.fork():
        return pid
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks), "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RUN_ID": "exam",
    }  # fmt: skip
    leave(act)


class Changed(MetaPathFinder, Loader):
    """Import modules from changed sources."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.sources = sources

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        """Return where a changed module comes from; None for all others."""
        if name not in self.sources:
            return None
        return spec_from_loader(name, self, origin=name)

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed source."""
        name = module.__name__
        code = compile(self.sources[name], f"<mutant of {name}>", "exec")
        exec(code, module.__dict__)


def source_of(name: str) -> str:
    """Return the source of a module, which need not be imported."""
    spec = find_spec(name)
    assert spec
    assert spec.origin
    return Path(spec.origin).read_text("utf-8")


def script(path: str, words: list[str], sources: Mapping[str, str]) -> int:
    """Run a script of Lockstep's as `python PATH WORDS`, with modules from
    changed `sources`; the script's own name there is that of its module. If
    `path` is `-m`, the first word is a module."""
    for name in [n for n in sys.modules if n.split(".")[0] == "lockstep"]:
        del sys.modules[name]
    sys.meta_path.insert(0, Changed(sources))
    if path == "-m":
        sys.argv = words
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        return 0
    module = f"lockstep.examples.{Path(path).stem}"
    text = sources.get(module) or Path(path).read_text("utf-8")
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__file__ = path
    sys.argv = [path, *words]
    sys.path.insert(0, str(Path(path).parent))
    exec(compile(text, path, "exec", dont_inherit=True), main.__dict__)
    return 0


def starter(
    sources: Mapping[str, str],
) -> Callable[[list[str], dict[str, str]], Process]:
    """Return what starts a command `python -m torch.distributed.run …
    --nproc-per-node N SCRIPT …` or `python SCRIPT …` in forks, with these
    changed sources. `-m MODULE` can stand for a script."""
    preload()

    def start(words: list[str], env: dict[str, str]) -> Process:
        if "--nproc-per-node" not in words:
            _, path, *rest = words
            return Process(lambda: script(path, rest, sources), env)
        at = words.index("--nproc-per-node") + 1
        ranks, path, *rest = int(words[at]), *words[at + 1 :]
        return Process(
            lambda: torchrun(ranks, lambda: script(path, rest, sources)), env
        )

    return start
