"""Checkpoints: each is published whole, or it does not exist."""

import hashlib
import json
import os
import random
import shutil
from io import BytesIO
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import safetensors.torch
import torch
import torch.distributed as dist

from .config import ConfigError, TrainConfig, require_same
from .process import on_rank0
from .step import Replica
from .telemetry import emit, phase

Manifest = dict[str, Any]


class Writer:
    """A writer of whole tensors, which waits until its files are on the disk.
    An extension may write other files, or write later; the functions below
    decide whether to publish them."""

    group: dist.ProcessGroup | None = None  # the default group

    def save(self, r: Replica, manifest: Manifest, leaving: bool) -> None:
        """Publish the state of this moment. All ranks call it."""
        with phase("checkpoint"):
            self.finish(r.cfg, manifest, self.state(r), leaving)

    def finish(self, cfg: TrainConfig, manifest: Manifest,
               state: dict[str, Any], leaving: bool) -> None:
        """Write `state`, publish it, emit an event. If any rank's write fails,
        nothing is published and training continues, unless it is `leaving`."""
        step, tmp = manifest["step"], cfg.run_dir / "checkpoints" / "tmp"
        begun, wrote = perf_counter(), [Manifest()] * dist.get_world_size()
        try:
            on_rank0(lambda: fresh(tmp), self.group)
            try:
                mine: Any = self.write(tmp, state)
            except OSError as error:
                mine = error
            dist.all_gather_object(wrote, mine, self.group)
            for files in wrote:
                if isinstance(files, OSError):
                    raise files
                manifest["files"] = manifest.get("files", {}) | files
            saved = on_rank0(lambda: publish(cfg, tmp, manifest), self.group)
        except (OSError, ValueError) as error:
            on_rank0(lambda: shutil.rmtree(tmp, True), self.group)  # its space
            emit("checkpoint_failed", step=step, reason=str(error))
            if leaving:
                raise
        else:
            seconds = perf_counter() - begun
            emit("checkpoint_saved", step=step, seconds=seconds, **saved)

    # --8<-- [start:writes]
    def state(self, r: Replica) -> dict[str, Any]:
        """Return this rank's state by file name, without a copy."""
        own = {f"rank-{r.me.rank}.pt": rng_state()}
        whole = {"model.safetensors": r.strategy.full_state(r.strategy.module),
                 "optimizer.pt": r.strategy.full_state(r.optimizer),
                 "scaler.pt": r.scaler.state_dict()}
        return own | whole if r.me.rank == 0 else own

    def write(self, folder: Path, state: dict[str, Any]) -> Manifest:
        """Write `state`; return each file's size and digest by name."""
        return {name: write_file(folder / name, packed(value, name))
                for name, value in state.items()}

    def load(self, r: Replica, folder: Path) -> None:
        """Load model, optimizer and scaler as `state` returned them."""
        weights = safetensors.torch.load_file(folder / "model.safetensors")
        r.strategy.load(r.strategy.module, weights)
        r.strategy.load(r.optimizer, unpacked(folder / "optimizer.pt"))
        r.scaler.load_state_dict(unpacked(folder / "scaler.pt"))


# --8<-- [end:writes]
def fresh(folder: Path) -> None:
    """Create an empty `folder`; remove the files of an earlier attempt."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(exist_ok=True)  # but never recreate a deleted run
    folder.mkdir()


def write_file(path: Path, data: bytes) -> Manifest:
    """Write `data`, wait for the disk, and return its size and digest."""
    with phase("write"):
        path.write_bytes(data)
    with phase("fsync"):
        sync(path)
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def sync(path: Path) -> None:
    """Wait until a file, or a directory's list of names, is on the disk."""
    os.fsync(handle := os.open(path, os.O_RDONLY))
    os.close(handle)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, which may exceed memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def publish(cfg: TrainConfig, tmp: Path, manifest: Manifest) -> Manifest:
    """Seal, sync and rename `tmp`; then delete checkpoints too old to keep."""
    manifest["sha256"] = seal(manifest)
    with phase("manifest"):
        write_file(tmp / "manifest.json", json.dumps(manifest).encode())
        sync(tmp)
    root, name = tmp.parent, f"step-{manifest['step']:08d}"
    if any(root.glob(f"*{name}*")):  # names are never reused
        name += f"-a{manifest['attempt']}"
    with phase("rename"):
        tmp.rename(root / name)
        sync(root)
    with phase("prune"):
        verify(root / name)  # delete others only while this one is good
        for old in published(root)[cfg.keep_checkpoints :]:
            shutil.rmtree(old.rename(tmp))
    size = sum(file["bytes"] for file in manifest["files"].values())
    return {"checkpoint": name, "bytes": size}


def seal(manifest: Manifest) -> str:
    """Return the digest of a manifest without its own digest."""
    body = {k: v for k, v in manifest.items() if k != "sha256"}
    return hashlib.sha256(json.dumps(body).encode()).hexdigest()


def published(root: Path) -> list[Path]:
    """Return the checkpoints, newest step and attempt first."""
    return sorted(root.glob("step-*"), reverse=True,
                  key=lambda path: (path.name[:13], len(path.name), path.name))


def verify(path: Path) -> Manifest:
    """Return the manifest of a checkpoint if all its bytes are as published;
    otherwise raise OSError, LookupError, TypeError or ValueError."""
    manifest = json.loads((path / "manifest.json").read_bytes())
    if any(file.is_symlink() for file in (path, *path.iterdir())):
        raise ValueError("it is, or it holds, a link to somewhere else")
    if manifest["sha256"] != seal(manifest):
        raise ValueError("manifest.json is not as published")
    for name, wrote in manifest["files"].items():
        if digest(path / name) != wrote["sha256"]:
            raise ValueError(f"{name} is not as published")
    return manifest


def restore(r: Replica, belongs: Manifest, writer: Writer) -> Manifest | None:
    """Load the same newest good checkpoint on all ranks; return its manifest.
    ConfigError, if it doesn't belong to the run that `belongs` describes."""
    root = r.cfg.run_dir / "checkpoints"
    if not (found := on_rank0(lambda: newest_good(root, belongs))):
        return None
    folder, manifest = found
    writer.load(r, folder)
    if manifest["world_size"] == r.me.world_size:
        set_rng_state(unpacked(folder / f"rank-{r.me.rank}.pt"))
    else:  # a different world size: derive from (seed, rank, step)
        seed_rank(*(key := (r.cfg.seed, r.me.rank, manifest["step"])))
        emit("random_state_derived", key=key, saved=manifest["world_size"])
    return manifest | {"checkpoint": folder.name}


def newest_good(root: Path, belongs: Manifest) -> tuple[Path, Manifest] | None:
    """Find the newest good checkpoint; set aside newer damaged or foreign ones.
    ConfigError, if only checkpoints of other runs are good."""
    foreign: dict[Path, ConfigError] = {}
    for path in published(root):
        try:
            manifest = verify(path)
            require_same(belongs["config"], manifest["config"])
            require_same(belongs, {name: manifest[name] for name in belongs})
        except ConfigError as error:
            foreign[path] = error
        except (OSError, LookupError, TypeError, ValueError) as error:
            set_aside(path, error)
        else:
            for other, why in foreign.items():
                set_aside(other, why)
            return path, manifest
    for why in foreign.values():  # this launch is the one that differs
        raise why
    return None


def set_aside(path: Path, why: Exception) -> None:
    """Rename a checkpoint so that later launches skip it, but keep it."""
    path.rename(path.with_name(f"damaged-{path.name}"))
    emit("checkpoint_damaged", checkpoint=path.name, reason=str(why))


def packed(value: Any, name: str = "") -> bytes:
    """Return the bytes of file `name`: safetensors, or torch's format."""
    if name.endswith(".safetensors"):
        return safetensors.torch.save(value)
    torch.save(value, buffer := BytesIO())
    return buffer.getvalue()


def unpacked(path: Path) -> Any:
    """Load tensors and plain data on the CPU; execute nothing in the file."""
    return torch.load(path, "cpu", weights_only=True)


def seed_rank(*key: int) -> None:
    """Seed Python, NumPy and torch from `key`, which differs by rank."""
    python, numpy, both = np.random.SeedSequence(key).generate_state(3)
    random.seed(int(python))
    np.random.seed(numpy)
    torch.manual_seed(int(both))


def rng_state() -> list[Any]:
    """Return the RNG states of Python, NumPy, torch and this rank's GPU."""
    numpy = np.random.get_state(legacy=False)
    numpy["state"]["key"] = numpy["state"]["key"].tolist()
    gpu = [torch.cuda.get_rng_state()] if torch.cuda.is_available() else []
    return [random.getstate(), numpy, torch.get_rng_state(), gpu]


def set_rng_state(state: list[Any]) -> None:
    """Restore the states that `rng_state` returned."""
    random.setstate(state[0])
    np.random.set_state(state[1])
    torch.set_rng_state(state[2])
    for own in state[3]:
        torch.cuda.set_rng_state(own)


def weights_sha256(weights: dict[str, torch.Tensor]) -> str:
    """Hash names in order, dtypes, shapes and little-endian bytes."""
    digest = hashlib.sha256()
    for name, tensor in weights.items():
        digest.update(f"{name} {tensor.dtype} {[*tensor.shape]}".encode())
        raw = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
        digest.update(raw.numpy().tobytes())
    return digest.hexdigest()
