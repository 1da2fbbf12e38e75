"""What happens to files: cut short, one bit flipped, gone, booby-trapped."""

import gzip
import io
import shlex
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from pickletools import genops


def files(checkpoint: Path) -> list[Path]:
    """Of one checkpoint, the largest first."""
    inside = checkpoint.rglob("*") if checkpoint.is_dir() else [checkpoint]
    found = [path for path in inside if path.is_file()]
    return sorted(found, key=lambda path: (-path.stat().st_size, path.name))


def truncate(path: Path) -> None:
    """Leave the first half."""
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def flip(path: Path) -> None:
    """Change one bit in the middle, which in a large file is a number's."""
    data = bytearray(path.read_bytes())
    if data:
        data[len(data) // 2] ^= 1
    path.write_bytes(data)


def booby_trap(path: Path, touched: Path) -> int:
    """Have every pickle in `path` make the file `touched` when it is loaded,
    and otherwise hold what it held; how many there were."""
    if path.suffix == ".distcp":  # parts at fixed places: cannot grow
        return 0
    data, count = trapped(path.read_bytes(), touched)
    if count:
        path.write_bytes(data)
    return count


def trapped(data: bytes, touched: Path) -> tuple[bytes, int]:
    """Do the same to a file's bytes: a pickle, a zip archive with pickles, or
    either of them packed by gzip."""
    if data.startswith(b"\x1f\x8b"):
        with suppress(OSError, EOFError, zlib.error):  # not gzip's after all
            inside, count = trapped(gzip.decompress(data), touched)
            return (gzip.compress(inside) if count else data), count
    if is_pickle(data):
        return with_a_trap(data, touched), 1
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return data, 0
    count, changed = 0, io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as was,
        zipfile.ZipFile(changed, "w") as now,
    ):
        for entry in was.infolist():
            inside = was.read(entry)
            if is_pickle(inside):
                inside, count = with_a_trap(inside, touched), count + 1
            now.writestr(entry, inside)
    return changed.getvalue(), count


def is_pickle(data: bytes) -> bool:
    """Whether `data` begins with a whole pickle."""
    if not data.startswith(b"\x80"):
        return False
    try:
        return any(code.name == "STOP" for code, _, _ in genops(data))
    except ValueError:
        return False


def with_a_trap(data: bytes, touched: Path) -> bytes:
    """Return a pickle that first runs a harmless command."""
    command = f"touch {shlex.quote(str(touched))}".encode()
    trap = b"cposix\nsystem\nX" + len(command).to_bytes(4, "little") + command
    return data[:2] + trap + b"\x85R0" + data[2:]
