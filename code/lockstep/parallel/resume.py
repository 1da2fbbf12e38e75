"""Resume as if nothing had happened: data from a position, state from a
checkpoint that is whole.

A checkpoint is a directory, `step-00000012`, with a file `NAME.pt` for each
part and `manifest.json`: `{"step": 12, "files": {"NAME.pt": {"bytes": 880,
"sha256": "9f86…"}}}`. Nothing else below its root is one.
"""

import hashlib
import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from lockstep.trainer.order import GlobalOrder

T = TypeVar("T")
MANIFEST, NAMES = "manifest.json", "step-" + 8 * "[0-9]"


# --8<-- [start:loader]
class Loader:
    """Batches of a shuffled dataset, from a position that can be saved.

    Each `for` goes to the end of the epoch that it is in. A `for` that is left
    early loses no sample: the next one continues after the batch that the
    consumer got last.

    Args:
        dataset: has `len(dataset)` and `dataset[i]`, a sample.
        batch_size: samples of a batch; an epoch's last batch may be shorter.
        seed: decides the order, with the epoch's number. Every epoch has each
            sample once, in another order. Global generators stay as they are.
        prefetch: batches that a thread fetches before they are asked for.
    """

    def __init__(
        self, dataset: Any, batch_size: int, seed: int, prefetch: int = 0
    ) -> None:
        self.dataset, self.batch_size = dataset, batch_size
        self.seed, self.prefetch = seed, prefetch
        self.order = GlobalOrder(len(dataset), seed)
        self.position = 0  # samples that the consumer has got, in all epochs

    def __iter__(self) -> Iterator[list[Any]]:
        n = len(self.dataset)
        end = (self.position // n + 1) * n
        starts = range(self.position, end, self.batch_size)
        with ThreadPoolExecutor(1) as pool:
            coming = (pool.submit(self.fetch, at, end) for at in starts)
            ahead = deque(islice(coming, self.prefetch))
            for _ in starts:
                ahead.extend(islice(coming, 1))
                batch = ahead.popleft().result()
                self.position += len(batch)  # now: after `yield` is too late
                yield batch

    def fetch(self, at: int, end: int) -> list[Any]:
        """Return the batch that begins at position `at`."""
        positions = np.arange(at, min(at + self.batch_size, end))
        return [self.dataset[i] for i in self.order(positions).tolist()]

    def state_dict(self) -> dict[str, Any]:
        """Plain data, fit for JSON: where the consumer is between two batches,
        and in which order of samples. After an epoch's last batch it is the
        next epoch's beginning."""
        order = {"seed": self.seed, "length": len(self.dataset)}
        return {"position": self.position, **order}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state`, with any `batch_size` and `prefetch`.

        Raises:
            ValueError: the state was saved with another seed, or with a
                dataset of another length: there is no such next sample.
        """
        if state != {**self.state_dict(), "position": state["position"]}:
            raise ValueError(f"{state} is of another order")
        self.position = state["position"]


# --8<-- [end:loader]
# --8<-- [start:share]
def share(
    n: int, seed: int, position: int, count: int, rank: int, world: int
) -> list[int]:
    """Ids of this rank's part of the `count` samples from `position` on.

    All ranks deal out one endless order, a permutation of range(n) for each
    epoch, which follows from `n` and `seed` alone. So any number of ranks can
    resume. Each sample is on one rank, and shares differ by at most one.
    """
    mine = np.arange(position + rank, position + count, world)
    return GlobalOrder(n, seed)(mine).tolist()


# --8<-- [end:share]
# --8<-- [start:together]
def together(act: Callable[[], T]) -> list[T]:
    """Return what `act()` returned on each rank; if it raised on one, all
    raise.

    So no rank waits for one that has given up, and none goes on before all
    are here.
    """
    mine: tuple[Any, str]
    try:
        mine = act(), ""
    except Exception as error:
        mine = None, f"{type(error).__name__}: {error}"
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    wrong = [f"rank {r}: {why}" for r, (_, why) in enumerate(everyone) if why]
    if wrong:
        raise RuntimeError("; ".join(wrong))
    return [found for found, _ in everyone]


def on_rank_0(act: Callable[[], None]) -> None:
    """One rank acts, all know how it went."""
    together(act if dist.get_rank() == 0 else lambda: None)


# --8<-- [end:together]
# --8<-- [start:publish]
def publish(root: Path, step: int, parts: dict[str, Any]) -> None:
    """Make the checkpoint of `step` from what all ranks have in `parts`.

    All ranks call it. When it returns, on any rank, the checkpoint is whole and
    outlives a power cut. Where a rank cannot write, all ranks raise
    RuntimeError, and there is no checkpoint of that step. A damaged one of the
    same step is replaced.

    Args:
        root: may not be there yet.
        parts: this rank's, by name: tensors and plain data. No two ranks have
            a name in common, and a rank may have none.
    """
    tmp, final = root / "tmp", root / f"step-{step:08d}"
    on_rank_0(lambda: fresh(tmp))
    wrote = together(
        lambda: {f"{p}.pt": write(tmp / f"{p}.pt", parts[p]) for p in parts}
    )
    files = {name: about for one in wrote for name, about in one.items()}
    on_rank_0(lambda: seal(tmp, final, {"step": step, "files": files}))


def write(file: Path, part: Any) -> dict[str, Any]:
    """When it returns, the part is on the disk; its size and digest."""
    torch.save(part, buffer := BytesIO())
    return write_bytes(file, buffer.getvalue())


def write_bytes(file: Path, data: bytes) -> dict[str, Any]:
    """Write bytes to the disk; return their number and SHA-256."""
    with file.open("wb") as out:
        out.write(data)
        out.flush()  # from Python's buffer to the kernel's
        os.fsync(out.fileno())
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def seal(tmp: Path, final: Path, manifest: dict[str, Any]) -> None:
    """Give `tmp` its name, which is the moment of publication."""
    write_bytes(tmp / MANIFEST, json.dumps(manifest).encode())
    sync(tmp)  # the names of its files
    # What has that name is damaged, or the run would have gone on from it.
    shutil.rmtree(final, ignore_errors=True)
    tmp.rename(final)
    sync(final.parent)  # its own name


# --8<-- [end:publish]
def fresh(folder: Path) -> None:
    """Make `folder` again, whatever a killed launch left there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sync(folder.parent.parent)  # the root may be new, and has a name as well


def sync(folder: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --8<-- [start:damage]
def damage(folder: Path) -> str:
    """Why `folder` is no whole checkpoint; empty if it is one.

    Every byte counts, those of the manifest too: what it says is compared
    with the folder's name and with the files.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        if folder.name != f"step-{manifest['step']:08d}":
            return f"{MANIFEST} is of step {manifest['step']}"
        for name, wrote in manifest["files"].items():
            size = (folder / name).stat().st_size
            if size != wrote["bytes"]:
                return f"{name} has {size} of {wrote['bytes']} bytes"
            with (folder / name).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256")
            if digest.hexdigest() != wrote["sha256"]:
                return f"{name} is not as published"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except OSError as error:
        return str(error)
    except (ValueError, LookupError, TypeError, AttributeError):
        return f"{MANIFEST} cannot be understood"
    return ""


# --8<-- [end:damage]
# --8<-- [start:newest]
def newest(root: Path, say: Callable[[str], None] = print) -> Path | None:
    """Return the newest checkpoint that is whole on every rank, or None; the
    same for all. All ranks call it.

    Whole: its manifest is of this step, and its files have the sizes and the
    SHA-256 that the manifest says, below each rank's own `root`.

    Args:
        root: may not be there yet.
        say: called on rank 0 with a line for each `step-…` that is newer and
            passed over: its name, and what is wrong with it.
    """
    seen = together(lambda: [folder.name for folder in root.glob(NAMES)])
    for name in sorted(set().union(*seen), reverse=True):
        wrong = together(partial(damage, root / name))
        if not any(wrong):
            return root / name
        if dist.get_rank() == 0:
            rank = next(r for r, why in enumerate(wrong) if why)
            say(f"{name}: {wrong[rank]} (rank {rank})")
    return None


def load(folder: Path, name: str) -> Any:
    """Load a part of a checkpoint on the CPU, without running code from it."""
    return torch.load(folder / f"{name}.pt", "cpu", weights_only=True)


# --8<-- [end:newest]
# --8<-- [start:prune]
def prune(root: Path, keep: int) -> None:
    """Remove checkpoints that are older than the newest `keep` whole ones, and
    nothing else. One rank calls it, after `publish`."""
    whole = 0
    for folder in sorted(root.glob(NAMES), reverse=True):
        if whole == keep:
            shutil.rmtree(root / "tmp", ignore_errors=True)
            shutil.rmtree(folder.rename(root / "tmp"))  # never half of a name
        elif not damage(folder):
            whole += 1


# --8<-- [end:prune]
