"""Where and with what a result was measured."""

import json
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

PACKAGES = "torch", "accelerate", "lightning-fabric", "torchdata", "numpy"


def about(
    packages: tuple[str, ...] = PACKAGES,
) -> dict[str, str | dict[str, str]]:
    """Revision, date, machine and versions, those of `packages` among them."""
    kernel, *_ = platform.release().split("-")  # without who built it
    return {
        "revision": revision(Path(__file__).parent),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "processor": processor(),
            "cores": str(psutil.cpu_count()),
            "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
            "system": f"{platform.system()} {kernel}",
            "file system": file_system(Path.cwd()),
        },
        "versions": {
            "Python": platform.python_version(),
            **{name: version(name) for name in packages},
        },
    }


def revision(folder: Path) -> str:
    """The commit, `-dirty` if what measures was changed since.

    Results are not counted: `make bench` and `make studies` write several, and
    the first is no change to what measures the second.
    """

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True
        ).stdout.strip()

    commit = git("describe", "--always", "--abbrev=12")
    if not commit:
        return "unknown"  # not a checkout
    results = [f":(exclude,top)*.{kind}" for kind in ("json", "jsonl", "md")]
    changed = git("diff", "--name-only", "HEAD", "--", ":(top)", *results)
    return f"{commit}-dirty" if changed else commit


def gpu() -> dict[str, str | int | None]:
    """The name, bytes of memory and CUDA version of the first; nothing, where
    torch sees none."""
    import torch  # takes a second, which few results need

    if not torch.cuda.is_available():
        return {}
    machine = torch.cuda.get_device_properties(0)
    return {
        "name": machine.name,
        "memory": machine.total_memory,
        "cuda": torch.version.cuda,
    }


def write(found: dict[str, Any], result: Path) -> None:
    """As a file that a person can compare line by line."""
    result.write_text(json.dumps(found, indent=1) + "\n")


def processor() -> str:
    """As the kernel names it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def file_system(path: Path) -> str:
    """The type of what `path` is mounted on: `fsync` costs what that costs."""
    mounts = {
        Path(part.mountpoint): part.fstype
        for part in psutil.disk_partitions(all=True)
    }
    return next(mounts[p] for p in (path, *path.parents) if p in mounts)
