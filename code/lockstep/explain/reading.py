"""Find the logs and dumps below paths, and read each once."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from lockstep.explain import stacks
from lockstep.explain.lines import number
from lockstep.explain.patterns import Index
from lockstep.explain.scan import Scan

BLOCK = 1 << 20
# Files that no process logs into; a folder of a run has many of them.
OTHERS = frozenset(
    [
        ".bin",
        ".db",
        ".distcp",
        ".gif",
        ".h5",
        ".idx",
        ".jpg",
        ".lmdb",
        ".mp4",
        ".npy",
        ".npz",
        ".onnx",
        ".pdf",
        ".png",
        ".parquet",
        ".pt",
        ".pth",
        ".py",
        ".pyc",
        ".safetensors",
        ".so",
        ".tar",
        ".tgz",
        ".whl",
        ".zip",
    ]
)

Progress = Callable[[int], object]


class InputError(Exception):
    """Input that can't be read, named in one line."""


def found(paths: Iterable[str]) -> list[Path | None]:
    """Return the files below the paths, in a fixed order; None for stdin.

    Raises:
        InputError: a path doesn't exist or is binary, or a folder has no logs.
    """
    files: list[Path | None] = []
    for given in paths:
        if given == "-":
            files.append(None)
            continue
        path = Path(given)
        if path.is_file():
            if _is_binary(_start(path)):
                raise InputError(f"{given} is binary: no log, and no dump")
            files.append(path)
            continue
        if not path.is_dir():
            raise InputError(f"{given} doesn't exist")
        inside = [
            one
            for one in sorted(path.rglob("*"))
            if one.is_file()
            and one.suffix.lower() not in OTHERS
            and not one.name.startswith(".")
            and one.stat().st_size
        ]
        if not inside:
            raise InputError(f"{given} has no logs")
        files += inside
    return files


def size(files: Iterable[Path | None]) -> int:
    """Return the bytes of all files; standard input counts as none."""
    return sum(one.stat().st_size for one in files if one)


def rank_of(path: Path) -> int | None:
    """Return the rank that a path names, or None: `rank_3.log`,
    `rank-3/out.txt`, `…-worker-3`."""
    if local_of(path) is not None:
        return None
    for part in reversed(path.parts):
        low = part.lower()
        at = low.rfind("rank")
        if at >= 0 and (at == 0 or not low[at - 1].isalpha()):
            rest = low[at + 4 :].lstrip("_-=.")
            rank = number(rest, 0)
            if rank is not None:
                return rank
    return None


def local_of(path: Path) -> int | None:
    """Return the local rank that one of torchrun's paths names, or None:
    `attempt_0/3/stderr.log`."""
    parts = path.parts
    for above, name in zip(parts, parts[1:], strict=False):
        if above.startswith("attempt_") and name.isdigit():
            return int(name)
    return None


def node_of(path: Path) -> str:
    """Return the node that a file's name names, or "": `dmesg-node-3.txt`,
    `node-17.log`, `host-b.log`, `pretrain-worker-0.log`."""
    name = path.name.split(".")[0]
    for before in ("dmesg-", "dmesg_", "syslog-", "journal-", "kern-"):
        if name.startswith(before):
            return name[len(before) :]
    for word in ("node", "host", "worker", "pod"):
        at = name.lower().find(word)
        if at >= 0 and name[at + len(word) :][:1] in ("-", "_"):
            return name
    return ""


def scan(
    files: Iterable[Path | None], index: Index, progress: Progress
) -> tuple[Scan, list[tuple[Path, bytes]], list[stacks.Stack]]:
    """Read all files in one pass.

    Args:
        files: as `found` returns them.
        index: messages to look for.
        progress: told the bytes of each block.

    Returns:
        the scan; the flight recorder's dumps, unread; py-spy's stacks.

    Raises:
        InputError: a file can't be opened, or is neither a log nor a dump.
    """
    result = Scan(index)
    dumps: list[tuple[Path, bytes]] = []
    stood: list[stacks.Stack] = []
    for path in files:
        if path is None:
            result.begin("standard input")
            _log(sys.stdin.buffer, result, progress)
            continue
        start = _start(path)
        if _is_dump(start):
            dumps.append((path, path.read_bytes()))
            progress(path.stat().st_size)
        elif start[:2] == b"\x1f\x8b":
            with gzip.open(path) as unzipped:
                _named(unzipped, path, result, progress)
        elif _is_binary(start):
            continue  # a folder of a run has checkpoints, too
        elif stacks.is_stacks(start):
            text = path.read_text("utf-8", "replace")
            stood += stacks.read(text, rank_of(path))
            progress(path.stat().st_size)
        else:
            with path.open("rb") as file:
                _named(file, path, result, progress)
    if not result.files and not dumps and not stood:
        raise InputError("none of these files is a log or a dump")
    return result, dumps, stood


def _start(path: Path) -> bytes:
    """Return a file's first bytes."""
    try:
        with path.open("rb") as file:
            return file.read(4096)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def _is_binary(start: bytes) -> bool:
    """Whether a file that begins so is neither a log nor a dump."""
    packed = start[:2] == b"\x1f\x8b"
    return b"\0" in start and not packed and not _is_dump(start)


def _is_dump(start: bytes) -> bool:
    """Whether a file begins as a pickle of the flight recorder does."""
    pickled = start[:1] == b"\x80" and b"version" in start[:200]
    return pickled or (start[:1] == b"{" and b'"entries"' in start[:4096])


def _named(
    file: BinaryIO | gzip.GzipFile,
    path: Path,
    result: Scan,
    progress: Progress,
) -> None:
    result.begin(path.as_posix(), rank_of(path), node_of(path), local_of(path))
    _log(file, result, progress)


def _log(
    file: BinaryIO | gzip.GzipFile,
    result: Scan,
    progress: Progress,
) -> None:
    for block in _blocks(file):
        progress(len(block))
        result.feed(block)
    result.end()


def _blocks(file: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    while block := file.read(BLOCK):
        yield block
