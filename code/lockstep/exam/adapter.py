"""How a trainer is launched, in a file that its owner writes."""

import re
import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

LIMIT = 120.0  # seconds that a launch may take
# In the name of what is renamed once it is a whole checkpoint.
UNFINISHED = re.compile(
    r"^[._]|(?<![a-z])te?mp(?![a-z])|partial|incomplete|unfinished", re.I
)


class AdapterError(Exception):
    """An adapter that cannot be used; the message says what it lacks."""


# --8<-- [start:launch]
@dataclass(frozen=True)
class Launch:
    """One launch of a trainer, as the exam wants it."""

    run_dir: Path  # the same for all launches of a run; holds its checkpoints
    ranks: int = 2
    steps: int = 18  # optimizer steps of the whole run
    stop_at: int | None = None  # save after this step, and leave
    save_every: int = 4  # steps from one checkpoint to the next
    global_batch: int = 16  # samples a step, over all ranks
    micro_batch: int | None = None  # samples in a rank's forward pass; None:
    # as the trainer likes, with what accumulation the batch then needs
    samples: int = 96  # in the dataset: an epoch is six steps
    workers: int = 0  # loader workers of each rank
    precision: str = "fp32"  # or fp16, with a gradient scaler
    seed: int = 0
    variant: int = 0  # of the data: each number selects other samples
    timeout_seconds: int = 10  # how long a collective may wait
    python: str = sys.executable  # or what --python names


# --8<-- [end:launch]
@dataclass(frozen=True)
class Adapter:
    """What the exam knows of a trainer."""

    path: Path
    name: str
    command: Callable[[Launch], list[str]]
    checkpoints: Callable[
        [Path], list[Path]
    ]  # in a run directory, oldest first
    # Question, or setting (`stop`, `save_every`): why it does not apply.
    lacks: dict[str, str]
    # What starts the command, with an environment, instead of a new process:
    # returns what has the methods of `subprocess.Popen`.
    start: Callable[[list[str], dict[str, str]], Any] | None = None


def located(adapter: str | Path) -> Path:
    """Return the file of an adapter, given as a path or a module's name.

    Raises AdapterError if there is none.
    """
    if (path := Path(adapter)).exists():
        return path
    try:
        spec = find_spec(str(adapter))
    except (ImportError, ValueError):
        spec = None
    if not spec or not spec.origin:
        raise AdapterError(f"{adapter}: no such file, and no such module")
    return Path(spec.origin)


def load(adapter: str | Path) -> Adapter:
    """Read an adapter: a Python file, or a module, that defines
    `command(launch)`, and may define `checkpoints(run_dir)`, `name` and
    `lacks`.

    Raises AdapterError for what is none.
    """
    path = located(adapter)
    try:
        said = runpy.run_path(str(path))
    except OSError as error:
        raise AdapterError(f"{path}: {error.strerror}") from None
    except (Exception, SystemExit) as error:
        raise AdapterError(f"{path} raises {error!r}") from error
    command = said.get("command")
    if not callable(command):
        raise AdapterError(
            f"{path} has no `command(launch)` that returns what to run"
        )
    lacks = said.get("lacks", {})
    said_why = isinstance(lacks, dict) and all(
        isinstance(why, str) for why in lacks.values()
    )
    if not said_why:
        raise AdapterError(
            f"{path}: `lacks` is a dictionary: what, and why it does not apply"
        )
    checkpoints = said.get("checkpoints", in_a_folder)

    def words(launch: Launch) -> list[str]:
        with told(f"{path}: command(launch)"):
            found = command(launch)
            if isinstance(found, str):
                raise TypeError("a list of words is wanted, not a string")
            return [str(word) for word in found]

    def saved(run_dir: Path) -> list[Path]:
        with told(f"{path}: checkpoints(run_dir)"):
            return [Path(found) for found in checkpoints(run_dir)]

    return Adapter(path, said.get("name", path.stem), words, saved, lacks)


def reads(adapter: Adapter, launch: Launch, setting: str) -> bool:
    """Whether the adapter's command reads this setting of a launch."""
    read: set[str] = set()

    class Watched(Launch):
        def __getattribute__(self, name: str) -> Any:
            read.add(name)
            return super().__getattribute__(name)

    adapter.command(Watched(**vars(launch)))
    return setting in read


@contextmanager
def told(what: str) -> Iterator[None]:
    """Whatever goes wrong in an adapter, as its fault and in one line."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise AdapterError(f"{what} raises {error!r}") from error


def in_a_folder(run_dir: Path) -> list[Path]:
    """List `RUN/checkpoints`, oldest first, without entries whose names say
    that they are unfinished."""
    every = (run_dir / "checkpoints").glob("*")
    found = [path for path in every if not UNFINISHED.search(path.name)]
    return sorted(found, key=lambda path: (path.stat().st_mtime, path.name))
